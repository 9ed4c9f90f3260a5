// Stage 0: plain data parallelism. Everything is on every rank; gradients are all-reduced once a
// step and every rank makes the same update. It is here to compare with, and for models small
// enough not to care.
#include "stages/stage.hpp"

namespace zero {
namespace {

class Stage0 final : public Stage {
 public:
  using Stage::Stage;

  Range owned(const Bucket& bucket) const override { return {0, bucket.padded_elems}; }

  void allocate(const Bucket& bucket) override {
    BucketMemory& m = memory(bucket);
    m.params_full =
        rt_.allocate(Category::kParams, bucket.padded_elems, bucket.dtype, bucket.label);
    if (!bucket.trainable) return;
    m.grads_full =
        rt_.allocate(Category::kGrads, bucket.padded_elems, rt_.grad_dtype(bucket), bucket.label);
    if (grad_home(bucket) == GradHome::kSharded) sums_.allocate(bucket);
    allocate_optimizer_state(bucket);
  }

  std::byte* begin_load(const Bucket& bucket) override { return memory(bucket).params_full.data(); }
  void end_load(const Bucket&) override {}

  GradHome grad_home(const Bucket& bucket) const override { return local_grad_home(bucket); }

  void reduce(const Bucket& bucket, const Buffer& gradients, bool again,
              const OpTag& tag) override {
    const Buffer& home = memory(bucket).grads_full;
    const kernels::View mine = view(home, rt_.shard(bucket));
    if (grad_home(bucket) == GradHome::kSharded) {
      sums_.reduce(bucket, gradients, mine, again, tag);
      if (rt_.is_boundary()) share(bucket, tag);
    } else if (again) {
      const Reduction more{rt_.slots(), true, false};
      rt_.comm.reduce_scatter(gradients.data(), gradients.dtype(), mine.data, mine.dtype,
                              bucket.shard_elems, more, tag, rt_.comm_stream());
      share(bucket, tag);
    } else {
      const Reduction all{rt_.slots(), false, rt_.reproducible()};
      rt_.comm.all_reduce(home.data(), home.dtype(), bucket.shard_elems, all, tag,
                          rt_.comm_stream());
    }
  }

  kernels::View reduced(const Bucket& bucket) const override {
    return view(memory(bucket).grads_full, owned(bucket));
  }
  kernels::View owned_params(const Bucket& bucket) const override {
    return view(memory(bucket).params_full, owned(bucket));
  }
  void publish(const Bucket&) override {}  // every rank has updated everything

 private:
  // Every rank's shard of the sum to all ranks.
  void share(const Bucket& bucket, const OpTag& tag) {
    const Buffer& home = memory(bucket).grads_full;
    rt_.comm.all_gather(home.at(rt_.shard(bucket).begin), home.data(), bucket.shard_elems,
                        home.dtype(), tag, rt_.comm_stream());
  }
};

}  // namespace

std::unique_ptr<Stage> make_stage0(Runtime& runtime) { return std::make_unique<Stage0>(runtime); }

}  // namespace zero
