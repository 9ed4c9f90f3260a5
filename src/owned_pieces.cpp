#include "src/owned_pieces.hpp"

namespace zero {

OwnedPieces::OwnedPieces(Runtime& runtime, const BucketPolicy& policy)
    : tables_(runtime.layout.buckets().size()) {
  std::vector<kernels::ShardPiece> all;
  std::vector<std::size_t> first(tables_.size());
  std::size_t most = 0;  // pieces on any rank, so that all take the same bytes
  for (const Bucket& bucket : runtime.layout.buckets()) {
    if (!bucket.trainable) continue;
    const auto index = static_cast<std::size_t>(bucket.index);
    const Range owned = policy.owned(bucket);
    first[index] = all.size();
    most += bucket.segments.size();
    for (const Piece& piece : runtime.layout.pieces(bucket.index, owned.begin, owned.end)) {
      const std::int64_t begin = piece.bucket_offset - owned.begin;
      all.push_back({begin, begin + piece.elems, piece.param, 0});
    }
    tables_[index].count = static_cast<std::int64_t>(all.size() - first[index]);
  }
  constexpr std::size_t kWords = sizeof(kernels::ShardPiece) / sizeof(float);
  memory_ = runtime.allocate(Category::kWorkspace, static_cast<std::int64_t>(most * kWords),
                             DType::kFloat32, "tables of shards");
  kernels::copy(memory_.data(), all.data(),
                static_cast<std::int64_t>(all.size() * sizeof(kernels::ShardPiece)),
                runtime.compute);
  runtime.compute.synchronize();
  const auto* const pieces = reinterpret_cast<const kernels::ShardPiece*>(memory_.data());
  for (std::size_t i = 0; i < tables_.size(); ++i) tables_[i].pieces = pieces + first[i];
}

}  // namespace zero
