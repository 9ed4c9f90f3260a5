#include "src/shard_optimizer.hpp"

namespace zero {
namespace {

kernels::UpdateConstants::Rule rule(const OptimizerSettings& settings) {
  using Rule = kernels::UpdateConstants::Rule;
  if (settings.kind == OptimizerKind::kSgd) return Rule::kSgd;
  return settings.decoupled_decay ? Rule::kAdamDecoupled : Rule::kAdamL2;
}

}  // namespace

void ShardOptimizer::update(const Bucket& bucket, double grad_factor) {
  const BucketMemory& m = rt_.memory[static_cast<std::size_t>(bucket.index)];
  const Range owned = policy_.owned(bucket);
  const kernels::View grads = policy_.reduced(bucket);
  const kernels::View params = policy_.owned_params(bucket);
  const auto at = [](const kernels::View& view, std::int64_t index) -> void* {
    return static_cast<std::byte*>(view.data) +
           index * static_cast<std::int64_t>(dtype_bytes(view.dtype));
  };
  for (const Piece& piece : rt_.layout.pieces(bucket.index, owned.begin, owned.end)) {
    const ParamState& param = rt_.params[static_cast<std::size_t>(piece.param)];
    if (!takes_part(param)) continue;
    const ParamGroup& group = rt_.groups[static_cast<std::size_t>(param.spec.group)];
    const kernels::UpdateConstants constants = kernels::make_update_constants(
        {rule(rt_.config.optimizer), group.lr, group.beta1, group.beta2, group.eps,
         group.weight_decay, rt_.config.optimizer.bias_correction, param.step_count + 1,
         grad_factor});
    const std::int64_t index = piece.bucket_offset - owned.begin;
    kernels::UpdateRange range;
    range.grad = {at(grads, index), grads.dtype, piece.elems};
    if (m.master_weights) {
      range.master = m.master_weights.floats() + index;
      range.params = at(params, index);
      range.params_dtype = params.dtype;
    } else {
      range.master =
          static_cast<float*>(at(params, index));  // fp32 parameters are their own masters
    }
    if (m.exp_avg) {
      range.exp_avg = m.exp_avg.floats() + index;
      range.exp_avg_sq = m.exp_avg_sq.floats() + index;
    }
    kernels::update(range, constants, rt_.compute);
  }
}

void ShardOptimizer::advance() {
  for (ParamState& param : rt_.params) {
    if (takes_part(param)) ++param.step_count;
  }
}

}  // namespace zero
