#include "stages/stage.hpp"

#include "zero/error.hpp"

namespace zero {

void Stage::allocate_optimizer_state(const Bucket& bucket) {
  BucketMemory& m = memory(bucket);
  const std::int64_t elems = owned(bucket).elems();
  const auto zeros = [&](Category category) {
    Buffer buffer = rt_.allocate(category, elems, DType::kFloat32, bucket.label);
    kernels::fill_bytes(buffer.data(), 0, buffer.bytes(), rt_.compute);
    return buffer;
  };
  if (bucket.dtype != DType::kFloat32) m.master_weights = zeros(Category::kMasterWeights);
  if (rt_.config.optimizer.kind == OptimizerKind::kAdam) {
    m.exp_avg = zeros(Category::kExpAvg);
    m.exp_avg_sq = zeros(Category::kExpAvgSq);
  }
}

GradHome Stage::local_grad_home(const Bucket& bucket) const {
  // The tree of reproducible mode needs each micro-step's sum by itself.
  if (rt_.reproducible() && rt_.accumulation_steps() > 1) return GradHome::kSharded;
  return rt_.grad_dtype(bucket) == bucket.dtype ? GradHome::kResident : GradHome::kFolded;
}

void Stage::gather_params(const Bucket& bucket) {
  const Buffer& params = memory(bucket).params_full;
  rt_.comm_after_compute();
  rt_.comm.all_gather(params.at(rt_.shard(bucket).begin), params.data(), bucket.shard_elems,
                      params.dtype(), {Purpose::kParams, "parameters of " + bucket.label},
                      rt_.comm_stream());
}

std::unique_ptr<Stage> make_stage(Runtime& runtime) {
  switch (runtime.config.zero.stage) {
    case 0:
      return make_stage0(runtime);
    case 1:
      return make_stage1(runtime);
    case 2:
      return make_stage2(runtime);
    case 3:
      return make_stage3(runtime);
    default:
      throw ConfigError(detail::concat("zero_optimization.stage is ", runtime.config.zero.stage,
                                       "; 0, 1, 2 and 3 are valid"));
  }
}

}  // namespace zero
