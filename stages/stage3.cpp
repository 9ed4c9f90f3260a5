// Stage 3: optimizer state, gradients and parameters are sharded.
//
// The life of a parameter:
//   allocate      only this rank's shard stays; small (persistent) parameters stay whole
//   begin_load    a whole bucket in passing memory takes the start values; end_load keeps the shard
//   before_use    the unit's buckets are all-gathered, and the next units' in the recorded order
//   after_use     the last user lets the whole bucket go; the model's pointers become null
//   reduce        every micro-step: the whole gradient is reduce-scattered into the shard
//   (update)      the shard is updated in place
//   publish       nothing: the next gather brings the new values; persistent ones are gathered now
#include "src/param_gatherer.hpp"
#include "stages/stage.hpp"

namespace zero {
namespace {

class Stage3 final : public Stage {
 public:
  explicit Stage3(Runtime& runtime) : Stage(runtime), gatherer_(runtime) {}

  Range owned(const Bucket& bucket) const override { return rt_.shard(bucket); }

  void allocate(const Bucket& bucket) override {
    BucketMemory& m = memory(bucket);
    (bucket.persistent ? m.params_full : m.params_shard) = rt_.allocate(
        Category::kParams, bucket.persistent ? bucket.padded_elems : bucket.shard_elems,
        bucket.dtype, bucket.label);
    if (!bucket.trainable) return;
    m.grads_shard =
        rt_.allocate(Category::kGrads, bucket.shard_elems, rt_.grad_dtype(bucket), bucket.label);
    sums_.allocate(bucket);
    allocate_optimizer_state(bucket);
  }

  std::byte* begin_load(const Bucket& bucket) override {
    BucketMemory& m = memory(bucket);
    if (bucket.persistent) return m.params_full.data();
    m.gathered = rt_.allocate(Category::kGather, bucket.padded_elems, bucket.dtype, bucket.label);
    return m.gathered.data();
  }

  void end_load(const Bucket& bucket) override {
    if (bucket.persistent) return;
    BucketMemory& m = memory(bucket);
    kernels::copy(m.params_shard.data(), m.gathered.at(rt_.shard(bucket).begin),
                  m.params_shard.bytes(), rt_.compute);
    m.gathered.reset();
  }

  void before_use(int unit, Pass pass) override {
    gatherer_.acquire(unit, pass == Pass::kBackward);
  }
  void after_use(int unit, Pass) override { gatherer_.release(unit); }
  void end_micro_step() override { gatherer_.end_micro_step(); }
  void drop_ahead() override { gatherer_.drop_ahead(); }

  GradHome grad_home(const Bucket&) const override { return GradHome::kSharded; }

  void reduce(const Bucket& bucket, const Buffer& gradients, bool again,
              const OpTag& tag) override {
    sums_.reduce(bucket, gradients, reduced(bucket), again, tag);
  }

  kernels::View reduced(const Bucket& bucket) const override {
    return view(memory(bucket).grads_shard, {0, bucket.shard_elems});
  }
  kernels::View owned_params(const Bucket& bucket) const override {
    const BucketMemory& m = memory(bucket);
    return bucket.persistent ? view(m.params_full, rt_.shard(bucket))
                             : view(m.params_shard, {0, bucket.shard_elems});
  }
  void publish(const Bucket& bucket) override {
    if (bucket.persistent) gather_params(bucket);
  }

 private:
  ParamGatherer gatherer_;
};

}  // namespace

std::unique_ptr<Stage> make_stage3(Runtime& runtime) { return std::make_unique<Stage3>(runtime); }

}  // namespace zero
