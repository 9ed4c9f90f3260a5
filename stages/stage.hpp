// A ZeRO stage as a policy: what of a bucket stays resident on a rank, and when it moves.
//
// BucketPolicy is what the mechanisms below ask of it; here is the rest. The layout, the order of
// reductions, the update and the vote are the same at every stage. A stage decides where a bucket's
// memory is, how its gradient becomes a sum, and how updated parameters reach the others.
#pragma once

#include <memory>

#include "src/bucket_policy.hpp"
#include "src/shard_sum.hpp"

namespace zero {

enum class Pass : std::uint8_t { kForward, kBackward };

class Stage : public BucketPolicy {
 public:
  explicit Stage(Runtime& runtime) : rt_(runtime), sums_(runtime) {}

  // Makes all memory of the bucket that stays. Trainable ones get gradients and optimizer state.
  virtual void allocate(const Bucket& bucket) = 0;
  // The bucket's parameters as a whole, to be filled with start values; then their way home.
  virtual std::byte* begin_load(const Bucket& bucket) = 0;
  virtual void end_load(const Bucket& bucket) = 0;

  // Around every pass over a unit: makes its parameters usable, and lets go of them.
  virtual void before_use(int /*unit*/, Pass /*pass*/) {}
  virtual void after_use(int /*unit*/, Pass /*pass*/) {}
  // Nothing is in use between micro-steps.
  virtual void end_micro_step() {}
  // Parameters are about to change: what was gathered ahead is out of date.
  virtual void drop_ahead() {}

  // Enqueues what it takes for all ranks to see the update. The compute stream has written
  // owned_params.
  virtual void publish(const Bucket& bucket) = 0;

  // What sharded gradients add up in.
  const ShardSum& sums() const { return sums_; }

 protected:
  BucketMemory& memory(const Bucket& bucket) const {
    return rt_.memory[static_cast<std::size_t>(bucket.index)];
  }
  // Optimizer state over the owned range, zero; master weights only where parameters are 16-bit.
  void allocate_optimizer_state(const Bucket& bucket);
  // Where stages 0 and 1 take the model's gradients: added up in place if nothing speaks against
  // it.
  GradHome local_grad_home(const Bucket& bucket) const;
  // Enqueues: every rank's updated shard of params_full to all ranks, once the compute stream has
  // written it. The compute stream goes on with the next bucket meanwhile.
  void gather_params(const Bucket& bucket);
  // A view of `range` of a buffer that holds the whole bucket.
  static kernels::View view(const Buffer& full, const Range& range) {
    return {full.at(range.begin), full.dtype(), range.elems()};
  }

  Runtime& rt_;
  ShardSum sums_;
};

std::unique_ptr<Stage> make_stage0(Runtime& runtime);
std::unique_ptr<Stage> make_stage1(Runtime& runtime);
std::unique_ptr<Stage> make_stage2(Runtime& runtime);
std::unique_ptr<Stage> make_stage3(Runtime& runtime);
std::unique_ptr<Stage> make_stage(Runtime& runtime);  // the one the configuration names

}  // namespace zero
