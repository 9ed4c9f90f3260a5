// The update of what this rank owns: Adam, AdamW or SGD over the pieces of parameters in its shard.
#pragma once

#include "src/vote.hpp"

namespace zero {

class ShardOptimizer {
 public:
  ShardOptimizer(Runtime& runtime, BucketPolicy& policy, const OwnedPieces& pieces,
                 const Vote& vote)
      : rt_(runtime), policy_(policy), pieces_(pieces), vote_(vote) {}

  // Updates the owned range of a bucket on the compute stream, with the constants of the vote.
  // Parameters without a gradient on any rank, and frozen ones, are left alone.
  void update(const Bucket& bucket);

 private:
  Runtime& rt_;
  BucketPolicy& policy_;
  const OwnedPieces& pieces_;
  const Vote& vote_;
};

}  // namespace zero
