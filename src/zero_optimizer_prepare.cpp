// From registration to the first step: checks, the budget, memory, start values.
#include <algorithm>

#include "src/rank_agreement.hpp"
#include "src/zero_optimizer_impl.hpp"

namespace zero {

using detail::concat;

namespace {

std::string over_budget(const Plan& plan, const RuntimeSettings& runtime) {
  return concat("runtime.memory_budget is ", *runtime.memory_budget, " bytes a rank, ",
                runtime.reserved, " of them runtime.reserved, but stage ", plan.stage, " on ",
                plan.world_size, " ranks peaks at ", plan.peak_bytes(), " bytes:\n",
                plan.trained.table());
}
std::string list(const std::vector<std::string>& reasons) {
  std::string text;
  for (const std::string& reason : reasons) text += concat("\n  ", reason);
  return text;
}

}  // namespace

// A reduction by the backend is chosen where the world is made, and said in the configuration.
void ZeroOptimizer::Impl::check_backend() const {
  const bool by_backend = !rt.comm.sums_in_fp32();
  if (rt.config.runtime.nccl_reduction == by_backend || !rt.device.has_memory()) return;
  throw ConfigError(
      by_backend ? "runtime.nccl_reduction is false, but this world's communicator lets NCCL sum "
                   "(NcclOptions::nccl_reduction): say true to both, or to neither"
                 : "runtime.nccl_reduction is true, but this world's communicator sums by itself: "
                   "it takes "
                   "a world made with NcclOptions::nccl_reduction (make_nccl_world)");
}

void ZeroOptimizer::Impl::prepare() {
  require(false, "prepare()");
  registry.check_all();
  registry.settle_precision();
  initial_groups = rt.groups;
  own_schedule = rates.scheduled();
  if (const auto& settings = rt.config.scheduler) {
    rates.set_schedule(make_lr_schedule(*settings, rt.groups));
  }
  rates.start();
  keep_to_budget();
  check_backend();
  registry.make_layout();
  // Before anything else is allocated: ranks that were set up differently learn it here.
  require_alike(rt, rt.device.has_memory() ? registry.set_up() : std::vector<std::string>());
  stage = make_stage(rt);
  if (registry.scales_loss()) scaler = LossScaler(rt.config.loss_scale);
  for (const Bucket& bucket : rt.layout.buckets()) {
    stage->allocate(bucket);
    load_start_values(bucket);
  }
  reducer = std::make_unique<GradReducer>(rt, *stage);
  reducer->prepare();
  reserve_workspace();
  pieces = std::make_unique<OwnedPieces>(rt, *stage);
  vote = std::make_unique<Vote>(rt, *stage, *pieces, rates);
  vote->prepare(scaler);
  optimizer = std::make_unique<ShardOptimizer>(rt, *stage, *pieces, *vote);
  steps = std::make_unique<StepLog>(rt, *vote, rates, scaler, log);
  tensors = std::make_unique<TensorAccess>(rt, *stage);
  checkpoints = std::make_unique<Checkpointer>(
      Checkpointer::Parts{rt, registry, *stage, *reducer, *vote, *steps, rates, scaler,
                          initial_groups, own_schedule, log});
}

// Where the communicator puts the slices of the other ranks before it sums them.
void ZeroOptimizer::Impl::reserve_workspace() {
  if (!rt.comm.stages_slices()) return;
  const std::int64_t shards = rt.config.runtime.nccl_reduction ? 1 : rt.world_size() - 1;
  std::int64_t bytes = 0;
  for (const Bucket& bucket : rt.layout.buckets()) {
    if (!bucket.trainable) continue;
    std::size_t element = dtype_bytes(bucket.dtype);
    // What added up on the rank travels in the dtype it was added up in.
    if (stage->grad_home(bucket) != GradHome::kSharded) {
      element = std::max(element, dtype_bytes(rt.grad_dtype(bucket)));
    }
    bytes = std::max(bytes, shards * bucket.shard_elems * static_cast<std::int64_t>(element));
  }
  workspace = rt.allocate(Category::kWorkspace, (bytes + 3) / 4, DType::kFloat32,
                          "slices of the other ranks");
  rt.comm.use_workspace(workspace.data(), workspace.bytes());
}

// Every rank comes to the same end by itself: a plan depends on nothing of one rank alone.
void ZeroOptimizer::Impl::keep_to_budget() {
  const RuntimeSettings& runtime = rt.config.runtime;
  if (!runtime.memory_budget) return;
  const std::int64_t budget = *runtime.memory_budget;
  const ModelShape shape = registry.shape();
  PlanOptions options;
  options.stages_slices = rt.comm.stages_slices();
  std::string refusal;
  if (!runtime.choose_stage) {
    const Plan plan = PartitionManager::plan(shape, rt.config, rt.world_size(), options);
    if (plan.peak_bytes() <= budget - runtime.reserved) return;
    refusal = over_budget(plan, runtime);
  }
  const Fit fit =
      PartitionManager::fit(shape, rt.config, rt.world_size(), budget, runtime.reserved, options);
  if (!runtime.choose_stage) {
    throw ConfigError(concat(refusal,
                             fit.fits ? "This would fit: " : "Nothing fits. The smallest is ",
                             fit.json, ", with a peak of ", fit.plan.peak_bytes(), " bytes"));
  }
  if (!fit.fits) {
    throw ConfigError(concat(over_budget(fit.plan, runtime), "Nothing fits", list(fit.reasons)));
  }
  log(concat("stage ", fit.config.zero.stage, " chosen: a peak of ", fit.plan.peak_bytes(),
             " bytes a rank within ", budget, ", ", runtime.reserved, " of them runtime.reserved",
             list(fit.reasons)));
  rt.config = fit.config;
}

// What the caller's function makes in host memory.
void ZeroOptimizer::Impl::initialise(const ParamSpec& spec, std::byte* place, std::size_t bytes) {
  if (rt.device.kind() == DeviceKind::kHost) return spec.init({place, bytes});
  std::vector<std::byte> values(bytes);
  spec.init(values);
  kernels::copy(place, values.data(), static_cast<std::int64_t>(bytes), rt.compute);
  rt.compute.synchronize();
}

// Rank 0's values to all ranks, one bucket at a time, so that construction never holds more than
// what stays plus one bucket.
void ZeroOptimizer::Impl::load_start_values(const Bucket& bucket) {
  std::byte* const values = stage->begin_load(bucket);
  const std::int64_t element = static_cast<std::int64_t>(dtype_bytes(bucket.dtype));
  kernels::fill_bytes(values, 0, bucket.padded_elems * element, rt.compute);
  if (rt.rank() == 0) {
    rt.compute.synchronize();
    for (const Segment& segment : bucket.segments) {
      const ParamSpec& spec = rt.params[static_cast<std::size_t>(segment.param)].spec;
      std::byte* const place = values + segment.offset * element;
      const std::int64_t bytes = segment.elems * element;
      if (spec.init) {
        initialise(spec, place, static_cast<std::size_t>(bytes));
      } else {
        kernels::copy(place, spec.data.get(), bytes, rt.compute);
      }
    }
  }
  rt.comm_after_compute();
  rt.comm.broadcast(values, bucket.padded_elems, bucket.dtype, 0,
                    {Purpose::kControl, "start values of " + bucket.label}, rt.comm_stream());
  rt.compute_after_comm();
  const BucketMemory& m = rt.memory[static_cast<std::size_t>(bucket.index)];
  if (m.master_weights) {
    const Range owned = stage->owned(bucket);
    kernels::cast({m.master_weights.data(), DType::kFloat32, owned.elems()},
                  {values + owned.begin * element, bucket.dtype, owned.elems()}, 1.0f, rt.compute);
  }
  for (const Segment& segment : bucket.segments) {
    const ParamState& param = rt.params[static_cast<std::size_t>(segment.param)];
    std::byte* const place = values + segment.offset * element;
    if (param.spec.data.is_fixed()) {
      kernels::copy(param.spec.data.get(), place, segment.elems * element, rt.compute);
    }
    if (param.spec.grad.is_fixed()) {
      kernels::fill_bytes(param.spec.grad.get(), 0, segment.elems * element, rt.compute);
    }
    // Whole parameters stay where they are; sharded ones are in reach inside their guards only.
    param.spec.data.set(m.params_full ? place : nullptr);
    param.spec.grad.set(nullptr);
  }
  stage->end_load(bucket);
  rt.compute.synchronize();
  rt.comm.check();
}

}  // namespace zero
