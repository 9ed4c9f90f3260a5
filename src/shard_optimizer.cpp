#include "src/shard_optimizer.hpp"

#include "src/profiler.hpp"

namespace zero {

void ShardOptimizer::update(const Bucket& bucket) {
  const detail::ProfilerRange profiled(bucket.label.c_str());
  const BucketMemory& m = rt_.memory[static_cast<std::size_t>(bucket.index)];
  const kernels::View params = policy_.owned_params(bucket);
  kernels::UpdateRange range;
  range.grad = policy_.reduced(bucket);
  if (m.master_weights) {
    range.master = m.master_weights.floats();
    range.params = params.data;
    range.params_dtype = params.dtype;
  } else {
    range.master = static_cast<float*>(params.data);  // fp32 parameters are their own masters
  }
  if (m.exp_avg) {
    range.exp_avg = m.exp_avg.floats();
    range.exp_avg_sq = m.exp_avg_sq.floats();
  }
  kernels::update_shard(range, pieces_.of(bucket), vote_.constants(), vote_.rule(), rt_.compute);
}

}  // namespace zero
