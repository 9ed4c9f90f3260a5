// The gradient sum of this rank's shard, built up over the micro-steps of a step.
//
// By default each micro-step's sum over ranks (fp32, rank order) is divided by the number of slots
// and added to the shard. In reproducible mode the gradient is a pairwise tree over slots (slot =
// micro_step x world_size + rank): the sum over ranks is one subtree, and subtrees are combined
// like the digits of a binary counter, so that the same slots give the same bits at every world
// size.
#pragma once

#include <vector>

#include "src/runtime.hpp"

namespace zero {

class ShardSum {
 public:
  explicit ShardSum(Runtime& runtime) : rt_(runtime) {}

  // Makes the partial sums of a bucket, where the mode needs them.
  void allocate(const Bucket& bucket);
  // Enqueues one micro-step's reduction on the communication stream. `home` is this rank's shard;
  // after the step's last micro-step it holds the averaged gradient. `again`: a second reduction
  // within a micro-step. REQUIRES: not in reproducible mode.
  void reduce(const Bucket& bucket, const Buffer& gradients, kernels::View home, bool again,
              const OpTag& tag);

  // Reproducible mode with accumulation, else empty: what is held between micro-steps as the set
  // bits of their number, [0..levels), and last a place for the incoming one; fp32, one shard each.
  const std::vector<Buffer>& partial(const Bucket& bucket) const {
    return partial_[static_cast<std::size_t>(bucket.index)];
  }

 private:
  std::vector<std::vector<Buffer>> partial_;
  Runtime& rt_;
};

}  // namespace zero
