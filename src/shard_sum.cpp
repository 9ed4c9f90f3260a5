#include "src/shard_sum.hpp"

#include <bit>
#include <utility>

namespace zero {

void ShardSum::allocate(const Bucket& bucket) {
  partial_.resize(rt_.layout.buckets().size());
  if (!rt_.reproducible() || rt_.accumulation_steps() == 1) return;
  const int levels = std::countr_zero(static_cast<unsigned>(rt_.accumulation_steps()));
  for (int i = 0; i <= levels; ++i) {
    partial_[static_cast<std::size_t>(bucket.index)].push_back(
        rt_.allocate(Category::kGrads, bucket.shard_elems, DType::kFloat32, bucket.label));
  }
}

void ShardSum::reduce(const Bucket& bucket, const Buffer& gradients, kernels::View home, bool again,
                      const OpTag& tag) {
  const int micro_step = rt_.micro_step;
  std::vector<Buffer>& partial = partial_[static_cast<std::size_t>(bucket.index)];
  if (partial.empty()) {
    const Reduction reduction{rt_.slots(), again || micro_step > 0, rt_.reproducible()};
    rt_.comm.reduce_scatter(gradients.data(), gradients.dtype(), home.data, home.dtype,
                            bucket.shard_elems, reduction, tag, rt_.comm_stream());
    return;
  }
  Buffer& incoming = partial.back();
  rt_.comm.reduce_scatter(gradients.data(), gradients.dtype(), incoming.data(), DType::kFloat32,
                          bucket.shard_elems, {1.0f, false, true}, tag, rt_.comm_stream());
  const auto whole = [&](const Buffer& buffer) {
    return kernels::View{buffer.data(), buffer.dtype(), buffer.elems()};
  };
  // Micro-steps before this one are held as the set bits of its index: carry as a counter does.
  // Addition commutes, so earlier + later has the same bits in either place.
  const int carries = std::countr_one(static_cast<unsigned>(micro_step));
  for (int level = 0; level < carries; ++level) {
    kernels::add(whole(incoming), whole(partial[static_cast<std::size_t>(level)]),
                 rt_.comm_stream());
  }
  if (micro_step + 1 == rt_.accumulation_steps()) {
    kernels::cast(home, whole(incoming), rt_.slots(), rt_.comm_stream());
  } else {
    std::swap(incoming, partial[static_cast<std::size_t>(carries)]);
  }
}

}  // namespace zero
