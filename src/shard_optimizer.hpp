// The update of what this rank owns: Adam, AdamW or SGD over the pieces of parameters in its shard.
#pragma once

#include "src/bucket_policy.hpp"

namespace zero {

class ShardOptimizer {
 public:
  ShardOptimizer(Runtime& runtime, BucketPolicy& policy) : rt_(runtime), policy_(policy) {}

  // Updates the owned range of a bucket on the compute stream. Parameters without a gradient on any
  // rank, and frozen ones, are left alone. `grad_factor` (clip_coef / loss_scale) is applied inside
  // the update.
  void update(const Bucket& bucket, double grad_factor);
  // Counts the step for every parameter that took part in it.
  void advance();

 private:
  static bool takes_part(const ParamState& param) {
    return param.has_state && param.requires_grad && param.has_gradient;
  }

  Runtime& rt_;
  BucketPolicy& policy_;
};

}  // namespace zero
