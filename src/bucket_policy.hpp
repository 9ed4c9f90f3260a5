// What the mechanisms ask about a bucket, and the stages answer: who owns which part of it, where
// its gradient goes, and how that becomes a sum.
#pragma once

#include "src/runtime.hpp"

namespace zero {

// Where the model's gradients of a bucket go.
enum class GradHome : std::uint8_t {
  kResident,  // into grads_full, which keeps adding up until the step's last micro-step
  kFolded,    // into passing memory, which is added to grads_full (of another dtype) at once
  kSharded,   // into passing memory, which is reduced every micro-step; only a shard stays
};

class BucketPolicy {
 public:
  BucketPolicy() = default;
  virtual ~BucketPolicy() = default;
  BucketPolicy(const BucketPolicy&) = delete;
  BucketPolicy& operator=(const BucketPolicy&) = delete;

  // The elements of a bucket whose optimizer state this rank holds, and which it updates.
  virtual Range owned(const Bucket& bucket) const = 0;

  virtual GradHome grad_home(const Bucket& bucket) const = 0;
  // Enqueues the reduction of a bucket on the communication stream, in the order all ranks share.
  // `gradients` is the whole bucket on this rank. `again`: add to what an earlier reduction gave.
  virtual void reduce(const Bucket& bucket, const Buffer& gradients, bool again,
                      const OpTag& tag) = 0;
  // The summed, averaged gradient over the owned range, after the step's last reduction.
  virtual kernels::View reduced(const Bucket& bucket) const = 0;

  // The working parameters over the owned range, written by the update.
  virtual kernels::View owned_params(const Bucket& bucket) const = 0;
};

}  // namespace zero
