// Stage 1: optimizer state is sharded. Parameters and gradients are on every rank; gradients add up
// locally and are reduce-scattered once a step, each rank updates its shard, and parameters are
// all-gathered.
#include "stages/stage.hpp"

namespace zero {
namespace {

class Stage1 final : public Stage {
 public:
  using Stage::Stage;

  Range owned(const Bucket& bucket) const override { return rt_.shard(bucket); }

  void allocate(const Bucket& bucket) override {
    BucketMemory& m = memory(bucket);
    m.params_full =
        rt_.allocate(Category::kParams, bucket.padded_elems, bucket.dtype, bucket.label);
    if (!bucket.trainable) return;
    const DType grad_dtype = rt_.grad_dtype(bucket);
    if (grad_home(bucket) == GradHome::kSharded) {
      m.grads_shard = rt_.allocate(Category::kGrads, bucket.shard_elems, grad_dtype, bucket.label);
      sums_.allocate(bucket);
    } else {
      m.grads_full = rt_.allocate(Category::kGrads, bucket.padded_elems, grad_dtype, bucket.label);
    }
    allocate_optimizer_state(bucket);
  }

  std::byte* begin_load(const Bucket& bucket) override { return memory(bucket).params_full.data(); }
  void end_load(const Bucket&) override {}

  GradHome grad_home(const Bucket& bucket) const override { return local_grad_home(bucket); }

  void reduce(const Bucket& bucket, const Buffer& gradients, bool again,
              const OpTag& tag) override {
    const kernels::View home = reduced(bucket);
    if (grad_home(bucket) == GradHome::kSharded) {
      sums_.reduce(bucket, gradients, home, again, tag);
      return;
    }
    // In place: no other rank reads the shard that this rank overwrites.
    const Reduction once{rt_.slots(), again, rt_.reproducible()};
    rt_.comm.reduce_scatter(gradients.data(), gradients.dtype(), home.data, home.dtype,
                            bucket.shard_elems, once, tag, rt_.comm_stream());
  }

  kernels::View reduced(const Bucket& bucket) const override {
    const BucketMemory& m = memory(bucket);
    return m.grads_shard ? view(m.grads_shard, {0, bucket.shard_elems})
                         : view(m.grads_full, rt_.shard(bucket));
  }
  kernels::View owned_params(const Bucket& bucket) const override {
    return view(memory(bucket).params_full, rt_.shard(bucket));
  }
  void publish(const Bucket& bucket) override { gather_params(bucket); }
};

}  // namespace

std::unique_ptr<Stage> make_stage1(Runtime& runtime) { return std::make_unique<Stage1>(runtime); }

}  // namespace zero
