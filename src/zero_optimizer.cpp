#include "zero/zero_optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <iostream>
#include <limits>
#include <utility>

#include "src/grad_reducer.hpp"
#include "src/loss_scaler.hpp"
#include "src/registration.hpp"
#include "src/shard_optimizer.hpp"
#include "src/tensor_access.hpp"
#include "src/vote.hpp"
#include "zero/error.hpp"

namespace zero {

using detail::concat;

class ZeroOptimizer::Impl {
 public:
  Impl(Config config, World& world)
      : rt(settle(std::move(config), world), world.device(), world.communicator(), world.ledger(),
           *world.comm_stream_),
        registry(rt) {}

  ~Impl() {
    // A rank that leaves on an error must not wait here for peers that will never come.
    if (std::uncaught_exceptions() > uncaught_ && rt.config.zero.overlaps()) {
      rt.comm.abort(concat("rank ", rt.rank(), " left its training loop on an error"));
    }
    rt.drain();  // nothing writes to the buffers any more
  }

  static Config settle(Config config, World& world) {
    config.resolve_batch(world.world_size());
    return config;
  }

  void prepare();
  void keep_to_budget();
  void load_start_values(const Bucket& bucket);
  void begin(Unit unit, Pass pass);
  void end(Unit unit, Pass pass);
  StepResult step();
  StepResult apply(const Verdict& verdict);
  void skip(const Verdict& verdict, StepResult& result);
  void copy_to_fixed();

  UnitState& checked(Unit unit) {
    if (unit.index < 0 || unit.index >= static_cast<int>(rt.units.size())) {
      throw UsageError(concat("unit ", unit.index, " does not exist; ", rt.units.size(),
                              " units are registered"));
    }
    return rt.units[static_cast<std::size_t>(unit.index)];
  }
  std::string over_budget(const Plan& plan) const {
    const RuntimeSettings& runtime = rt.config.runtime;
    return concat("runtime.memory_budget is ", *runtime.memory_budget, " bytes a rank, ",
                  runtime.reserved, " of them reserved, but stage ", plan.stage, " on ",
                  plan.world_size, " ranks peaks at ", plan.peak_bytes(), " bytes:\n",
                  plan.trained.table());
  }
  static std::string list(const std::vector<std::string>& reasons) {
    std::string text;
    for (const std::string& reason : reasons) text += concat("\n  ", reason);
    return text;
  }
  // Throws what a closing guard could not, and refuses calls in the wrong order.
  void require(bool prepared, const char* call) {
    if (deferred != nullptr) std::rethrow_exception(std::exchange(deferred, nullptr));
    if (prepared && stage == nullptr) {
      throw UsageError(concat(call, " comes after prepare()"));
    }
    if (!prepared && stage != nullptr) {
      throw UsageError(concat(call, " comes before prepare()"));
    }
  }
  // A gradient that is not whole was added to; which part of it, nobody knows.
  void require_whole(const char* call) {
    if (failed_backward.empty()) return;
    throw UsageError(concat(call, ": the backward pass over unit ", failed_backward,
                            " ended in an exception, so its gradients are not whole. This "
                            "optimizer cannot go on; resume from what was saved"));
  }
  void require_no_use(const char* call) {
    for (const UnitState& unit : rt.units) {
      if (unit.open_forward + unit.open_backward > 0) {
        throw UsageError(concat(call, " while unit ", unit.name, " is in use"));
      }
    }
  }

  Runtime rt;
  Registration registry;
  std::unique_ptr<Stage> stage;  // from prepare() on
  std::unique_ptr<GradReducer> reducer;
  std::unique_ptr<ShardOptimizer> optimizer;
  std::unique_ptr<Vote> vote;
  std::unique_ptr<TensorAccess> tensors;
  LossScaler scaler;
  std::vector<int> unused;      // of the backward passes that are open
  bool backward_begun = false;  // in this micro-step
  std::string failed_backward;  // unit whose backward pass was left by an exception
  std::int64_t applied_steps = 0;
  std::int64_t skipped_steps = 0;
  double last_loss_scale = 1.0;
  std::exception_ptr deferred;
  std::function<void(std::string_view)> log = [this](std::string_view line) {
    if (rt.rank() == 0) std::cerr << "zero: " << line << '\n';
  };
  const int uncaught_ = std::uncaught_exceptions();
};

void ZeroOptimizer::Impl::prepare() {
  require(false, "prepare()");
  registry.check_all();
  keep_to_budget();
  registry.make_layout();
  // Before anything is allocated: ranks that were set up differently learn it here, both sides
  // named.
  rt.comm_after_compute();
  rt.comm.barrier({Purpose::kControl, registry.summary()}, rt.comm_stream());
  rt.compute_after_comm();
  stage = make_stage(rt);
  if (rt.config.fp16_enabled.value_or(false)) scaler = LossScaler(rt.config.loss_scale);
  for (const Bucket& bucket : rt.layout.buckets()) {
    stage->allocate(bucket);
    load_start_values(bucket);
  }
  reducer = std::make_unique<GradReducer>(rt, *stage);
  reducer->prepare();
  optimizer = std::make_unique<ShardOptimizer>(rt, *stage);
  vote = std::make_unique<Vote>(rt, *stage);
  vote->prepare();
  tensors = std::make_unique<TensorAccess>(rt, *stage);
}

// Every rank comes to the same end by itself: a plan depends on nothing of one rank alone.
void ZeroOptimizer::Impl::keep_to_budget() {
  const RuntimeSettings& runtime = rt.config.runtime;
  if (!runtime.memory_budget) return;
  const std::int64_t budget = *runtime.memory_budget;
  const ModelShape shape = registry.shape();
  if (!runtime.choose_stage) {
    const Plan plan = PartitionManager::plan(shape, rt.config, rt.world_size());
    if (plan.peak_bytes() <= budget - runtime.reserved) return;
    const Fit fit =
        PartitionManager::fit(shape, rt.config, rt.world_size(), budget, runtime.reserved);
    throw ConfigError(concat(over_budget(plan), fit.fits ? "This would fit: " : "Nothing fits. ",
                             fit.fits ? fit.json : "The smallest is ", fit.fits ? "" : fit.json,
                             ", with a peak of ", fit.plan.peak_bytes(), " bytes"));
  }
  const Fit fit =
      PartitionManager::fit(shape, rt.config, rt.world_size(), budget, runtime.reserved);
  if (!fit.fits)
    throw ConfigError(concat(over_budget(fit.plan), "Nothing fits", list(fit.reasons)));
  log(concat("stage ", fit.config.zero.stage, " chosen: a peak of ", fit.plan.peak_bytes(),
             " bytes a rank within ", budget, ", ", runtime.reserved, " of them reserved",
             list(fit.reasons)));
  rt.config = fit.config;
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
        spec.init({place, static_cast<std::size_t>(bytes)});
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
}

void ZeroOptimizer::Impl::begin(Unit unit, Pass pass) {
  require(true, pass == Pass::kForward ? "forward" : "backward");
  require_whole(pass == Pass::kForward ? "forward" : "backward");
  UnitState& state = checked(unit);
  stage->before_use(unit.index, pass);
  if (pass == Pass::kBackward) {
    backward_begun = true;
    reducer->open(unit.index);
    ++state.open_backward;
  } else {
    ++state.open_forward;
  }
}

void ZeroOptimizer::Impl::end(Unit unit, Pass pass) {
  require(true, pass == Pass::kForward ? "end_forward" : "end_backward");
  UnitState& state = checked(unit);
  int& open = pass == Pass::kForward ? state.open_forward : state.open_backward;
  if (open == 0) {
    throw UsageError(concat(pass == Pass::kForward ? "end_forward" : "end_backward", " of unit ",
                            state.name, " without its begin"));
  }
  --open;
  if (pass == Pass::kBackward) {
    reducer->close(unit.index, unused);
    std::erase_if(unused, [&](int param) {
      return std::find(state.params.begin(), state.params.end(), param) != state.params.end();
    });
  }
  stage->after_use(unit.index, pass);
}

StepResult ZeroOptimizer::Impl::step() {
  require(true, "step()");
  require_whole("step()");
  require_no_use("step()");
  backward_begun = false;
  reducer->end_micro_step();
  stage->end_micro_step();
  if (!rt.is_boundary()) {
    ++rt.micro_step;
    return {};
  }
  rt.micro_step = 0;
  reducer->finish();
  const Verdict verdict = vote->hold(reducer->contributions());
  StepResult result = apply(verdict);
  for (ParamState& param : rt.params) param.touched = false;
  return result;
}

StepResult ZeroOptimizer::Impl::apply(const Verdict& verdict) {
  StepResult result;
  result.boundary = true;
  result.loss_scale = last_loss_scale = scaler.scale();
  result.grad_norm =
      verdict.finite ? verdict.norm / result.loss_scale : std::numeric_limits<double>::quiet_NaN();
  const double max_norm = rt.config.gradient_clipping;
  if (verdict.finite && max_norm > 0) {
    result.clip_coef = std::min(1.0, max_norm / (result.grad_norm + 1e-6));
  }
  for (const ParamGroup& group : rt.groups) result.lr.push_back(group.lr);
  const double factor = result.clip_coef / result.loss_scale;

  // A square beyond fp32 would put an infinity into exp_avg_sq for ever.
  const double largest = static_cast<double>(verdict.max_abs) * factor;
  const bool square_fits = rt.config.optimizer.kind != OptimizerKind::kAdam ||
                           largest * largest <= std::numeric_limits<float>::max();
  result.skipped = !verdict.finite || !square_fits;
  if (result.skipped) {
    skip(verdict, result);
  } else {
    result.applied = true;
    ++applied_steps;
    for (const Bucket& bucket : rt.layout.buckets()) {
      if (!bucket.trainable) continue;
      optimizer->update(bucket, factor);
      stage->publish(bucket);
    }
    optimizer->advance();
    rt.compute_after_comm();
    copy_to_fixed();
    scaler.update(false);
  }
  result.skipped_steps = skipped_steps;
  result.next_loss_scale = scaler.scale();
  return result;
}

void ZeroOptimizer::Impl::skip(const Verdict& verdict, StepResult& result) {
  ++skipped_steps;
  result.nonfinite_rank = verdict.nonfinite_rank;
  result.nonfinite_param =
      verdict.nonfinite_param < 0
          ? "(no parameter: finite, but its square is beyond fp32)"
          : rt.params[static_cast<std::size_t>(verdict.nonfinite_param)].spec.name;
  log(concat("step skipped: gradients are not finite, first in ", result.nonfinite_param,
             ", in the shard of rank ", result.nonfinite_rank, "; loss scale ", scaler.scale(),
             "; ", skipped_steps, " skipped so far"));
  if (scaler.exhausted()) {
    throw LossScaleError(concat(
        "gradients overflow at the minimum loss scale ", scaler.scale(), ": first in parameter ",
        result.nonfinite_param, ", in the shard of rank ", result.nonfinite_rank, ", after ",
        applied_steps, " applied steps. Lower the learning rate, or use bf16"));
  }
  scaler.update(true);
}

void ZeroOptimizer::Impl::copy_to_fixed() {
  for (const ParamState& param : rt.params) {
    if (!param.spec.data.is_fixed() || !param.has_state) continue;
    const BucketMemory& m = rt.memory[static_cast<std::size_t>(param.place.bucket)];
    kernels::copy(param.spec.data.get(), m.params_full.at(param.place.offset),
                  param.numel * static_cast<std::int64_t>(dtype_bytes(param.dtype)), rt.compute);
  }
}

// --- The public face ---

ZeroOptimizer::ZeroOptimizer(Config config, World& world)
    : impl_(std::make_unique<Impl>(std::move(config), world)) {}
ZeroOptimizer::~ZeroOptimizer() = default;

int ZeroOptimizer::add_group(const ParamGroup& group) {
  impl_->require(false, "add_group()");
  Registration::check_group(static_cast<int>(impl_->rt.groups.size()), group);
  impl_->rt.groups.push_back(group);
  return static_cast<int>(impl_->rt.groups.size()) - 1;
}

Unit ZeroOptimizer::add_unit(std::string name, std::vector<ParamSpec> params,
                             std::vector<std::string> shared) {
  impl_->require(false, "add_unit()");
  return {impl_->registry.add_unit(std::move(name), std::move(params), shared)};
}

ModelShape ZeroOptimizer::shape() const { return impl_->registry.shape(); }

Plan ZeroOptimizer::plan(const PlanOptions& options) const {
  const Config& config = impl_->rt.config;
  const ModelShape model = shape();
  const bool chosen = impl_->stage != nullptr || !config.runtime.choose_stage;
  const Fit fit = chosen ? Fit()
                         : PartitionManager::fit(model, config, world_size(),
                                                 config.runtime.memory_budget.value_or(0),
                                                 config.runtime.reserved);
  return PartitionManager::plan(model, chosen ? config : fit.config, world_size(), options, rank());
}

void ZeroOptimizer::prepare() { impl_->prepare(); }

void ZeroOptimizer::begin_forward(Unit unit) { impl_->begin(unit, Pass::kForward); }
void ZeroOptimizer::end_forward(Unit unit) { impl_->end(unit, Pass::kForward); }
void ZeroOptimizer::begin_backward(Unit unit) { impl_->begin(unit, Pass::kBackward); }
void ZeroOptimizer::end_backward(Unit unit) { impl_->end(unit, Pass::kBackward); }

Use ZeroOptimizer::forward(Unit unit) {
  begin_forward(unit);
  return {this, unit, false};
}

Use ZeroOptimizer::backward(Unit unit) {
  begin_backward(unit);
  return {this, unit, true};
}

void ZeroOptimizer::unused(Unit unit, std::string_view param) {
  impl_->require(true, "unused()");
  const int index = impl_->registry.find(param);
  const UnitState& state = impl_->checked(unit);
  if (state.open_backward == 0 ||
      std::find(state.params.begin(), state.params.end(), index) == state.params.end()) {
    throw UsageError(concat("unused(\"", param, "\"): it is no parameter of unit ", state.name,
                            ", or the unit is not in backward"));
  }
  impl_->unused.push_back(index);
}

Use::Use(ZeroOptimizer* optimizer, Unit unit, bool backward)
    : optimizer_(optimizer),
      unit_(unit),
      backward_(backward),
      uncaught_(std::uncaught_exceptions()) {}

Use::Use(Use&& other) noexcept
    : optimizer_(std::exchange(other.optimizer_, nullptr)),
      unit_(other.unit_),
      backward_(other.backward_),
      uncaught_(other.uncaught_) {}

Use::~Use() {
  if (optimizer_ == nullptr) return;
  ZeroOptimizer::Impl& impl = *optimizer_->impl_;
  if (backward_ && std::uncaught_exceptions() > uncaught_) {
    impl.failed_backward = impl.checked(unit_).name;
    return;
  }
  try {
    close();
  } catch (...) {
    if (impl.deferred == nullptr) impl.deferred = std::current_exception();
  }
}

void Use::unused(std::string_view param) { optimizer_->unused(unit_, param); }

void Use::close() {
  if (optimizer_ == nullptr) return;
  ZeroOptimizer::Impl& impl = *std::exchange(optimizer_, nullptr)->impl_;
  impl.end(unit_, backward_ ? Pass::kBackward : Pass::kForward);
}

double ZeroOptimizer::loss_scale() const { return impl_->scaler.scale(); }
StepResult ZeroOptimizer::step() { return impl_->step(); }

void ZeroOptimizer::set_log(std::function<void(std::string_view)> log) {
  impl_->log = std::move(log);
}

const std::vector<ParamGroup>& ZeroOptimizer::groups() const { return impl_->rt.groups; }

void ZeroOptimizer::set_group(int index, const ParamGroup& group) {
  if (index < 0 || index >= static_cast<int>(impl_->rt.groups.size())) {
    throw UsageError(
        concat("group ", index, " does not exist; groups are 0 to ", impl_->rt.groups.size() - 1));
  }
  Registration::check_group(index, group);
  impl_->rt.groups[static_cast<std::size_t>(index)] = group;
}

void ZeroOptimizer::set_requires_grad(std::string_view name, bool requires_grad) {
  ParamState& param = impl_->rt.params[static_cast<std::size_t>(impl_->registry.find(name))];
  if (impl_->rt.micro_step != 0 || impl_->backward_begun) {
    throw UsageError(concat("parameter ", name,
                            ": freezing is between steps, not between the passes or the "
                            "micro-steps of one"));
  }
  if (!param.has_state && requires_grad) {
    throw ConfigError(concat("parameter ", name,
                             " was registered frozen and has no optimizer state; register it with "
                             "requires_grad = true and freeze it after prepare()"));
  }
  param.requires_grad = requires_grad;
}

void ZeroOptimizer::read(std::string_view param, Tensor what, std::span<float> out) {
  impl_->require(true, "read()");
  impl_->tensors->read(impl_->registry.find(param), what, out, impl_->last_loss_scale);
}

void ZeroOptimizer::write(std::string_view param, Tensor what, std::span<const float> values) {
  impl_->require(true, "write()");
  impl_->require_no_use("write()");
  impl_->tensors->write(impl_->registry.find(param), what, values);
}

std::vector<ZeroOptimizer::ParamInfo> ZeroOptimizer::params() const {
  std::vector<ParamInfo> infos;
  for (const ParamState& param : impl_->rt.params) {
    infos.push_back({param.spec.name, param.spec.shape, param.numel, param.dtype, param.spec.group,
                     param.has_state, param.step_count});
  }
  return infos;
}

const Config& ZeroOptimizer::config() const { return impl_->rt.config; }
int ZeroOptimizer::rank() const { return impl_->rt.rank(); }
int ZeroOptimizer::world_size() const { return impl_->rt.world_size(); }
int ZeroOptimizer::stage() const { return impl_->rt.config.zero.stage; }
int ZeroOptimizer::accumulation_steps() const { return impl_->rt.accumulation_steps(); }
std::int64_t ZeroOptimizer::applied_steps() const { return impl_->applied_steps; }
const Ledger& ZeroOptimizer::ledger() const { return impl_->rt.ledger; }
const Traffic& ZeroOptimizer::traffic() const { return impl_->rt.comm.traffic(); }
void ZeroOptimizer::reset_traffic() { impl_->rt.comm.reset(); }
std::int64_t ZeroOptimizer::model_elems() const { return impl_->rt.layout.model_elems(); }
std::int64_t ZeroOptimizer::padded_elems() const { return impl_->rt.layout.padded_elems(); }

}  // namespace zero
