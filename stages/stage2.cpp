// Stage 2: optimizer state and gradients are sharded. Parameters are on every rank. The model's
// gradients live in passing memory until their bucket is complete; every micro-step reduce-scatters
// them into the shard.
#include "stages/stage.hpp"

namespace zero {
namespace {

class Stage2 final : public Stage {
 public:
  using Stage::Stage;

  Range owned(const Bucket& bucket) const override { return rt_.shard(bucket); }

  void allocate(const Bucket& bucket) override {
    BucketMemory& m = memory(bucket);
    m.params_full =
        rt_.allocate(Category::kParams, bucket.padded_elems, bucket.dtype, bucket.label);
    if (!bucket.trainable) return;
    m.grads_shard =
        rt_.allocate(Category::kGrads, bucket.shard_elems, rt_.grad_dtype(bucket), bucket.label);
    sums_.allocate(bucket);
    allocate_optimizer_state(bucket);
  }

  std::byte* begin_load(const Bucket& bucket) override { return memory(bucket).params_full.data(); }
  void end_load(const Bucket&) override {}

  GradHome grad_home(const Bucket&) const override { return GradHome::kSharded; }

  void reduce(const Bucket& bucket, const Buffer& gradients, bool again,
              const OpTag& tag) override {
    sums_.reduce(bucket, gradients, reduced(bucket), again, tag);
  }

  kernels::View reduced(const Bucket& bucket) const override {
    return view(memory(bucket).grads_shard, {0, bucket.shard_elems});
  }
  kernels::View owned_params(const Bucket& bucket) const override {
    return view(memory(bucket).params_full, rt_.shard(bucket));
  }
  void publish(const Bucket& bucket) override { gather_params(bucket); }
};

}  // namespace

std::unique_ptr<Stage> make_stage2(Runtime& runtime) { return std::make_unique<Stage2>(runtime); }

}  // namespace zero
