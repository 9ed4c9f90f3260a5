#include "src/checkpoint_ranges.hpp"

#include "zero/error.hpp"

namespace zero {

using detail::concat;

void CheckpointRanges::add(const Bucket& bucket, const Range& range, StateKind kind,
                           const std::string& part, const kernels::View& memory, std::int64_t first,
                           std::vector<StoredRange>& out) const {
  const auto element = static_cast<std::int64_t>(dtype_bytes(memory.dtype));
  for (const Piece& piece : rt_.layout.pieces(bucket.index, range.begin, range.end)) {
    const ParamState& param = rt_.params[static_cast<std::size_t>(piece.param)];
    StoredRange stored;
    stored.range = {param.spec.name, kind, piece.param_offset, piece.param_offset + piece.elems,
                    memory.dtype,    part};
    stored.param = piece.param;
    stored.memory = static_cast<std::byte*>(memory.data) + (piece.bucket_offset - first) * element;
    out.push_back(std::move(stored));
  }
}

void CheckpointRanges::add_states(const Bucket& bucket, const Range& range,
                                  std::vector<StoredRange>& out) const {
  const BucketMemory& m = rt_.memory[static_cast<std::size_t>(bucket.index)];
  const std::int64_t first = stage_.owned(bucket).begin;
  const auto whole = [](const Buffer& b) { return kernels::View{b.data(), b.dtype(), b.elems()}; };
  const kernels::View params = stage_.owned_params(bucket);
  if (!bucket.trainable) {
    add(bucket, range, StateKind::kFrozen, "", params, first, out);
    return;
  }
  // fp32 parameters are their own masters.
  add(bucket, range, StateKind::kMasterWeights, "",
      m.master_weights ? whole(m.master_weights) : params, first, out);
  if (!m.exp_avg) return;
  add(bucket, range, StateKind::kExpAvg, "", whole(m.exp_avg), first, out);
  add(bucket, range, StateKind::kExpAvgSq, "", whole(m.exp_avg_sq), first, out);
}

std::vector<StoredRange> CheckpointRanges::held() const {
  std::vector<StoredRange> ranges;
  for (const Bucket& bucket : rt_.layout.buckets()) {
    add_states(bucket, stage_.owned(bucket), ranges);
  }
  return ranges;
}

std::vector<StoredRange> CheckpointRanges::to_save() const {
  std::vector<StoredRange> ranges;
  for (const Bucket& bucket : rt_.layout.buckets()) add_states(bucket, rt_.shard(bucket), ranges);
  if (rt_.micro_step == 0) return ranges;
  for (StoredRange& sum : gradients(rt_.micro_step)) {
    // Gradients that add up on this rank, of a bucket that has none yet.
    const ParamState& param = rt_.params[static_cast<std::size_t>(sum.param)];
    const Bucket& bucket = rt_.layout.bucket(param.place.bucket);
    const bool local = stage_.grad_home(bucket) != GradHome::kSharded;
    if (!local || reducer_.has_sum(bucket)) ranges.push_back(std::move(sum));
  }
  return ranges;
}

std::vector<StoredRange> CheckpointRanges::gradients(int micro_step) const {
  std::vector<StoredRange> ranges;
  for (const Bucket& bucket : rt_.layout.buckets()) {
    if (!bucket.trainable) continue;
    const Range shard = rt_.shard(bucket);
    if (stage_.grad_home(bucket) != GradHome::kSharded) {
      const Buffer& full = rt_.memory[static_cast<std::size_t>(bucket.index)].grads_full;
      add(bucket, {0, bucket.padded_elems}, StateKind::kGradients, concat("rank ", rt_.rank()),
          {full.data(), full.dtype(), full.elems()}, 0, ranges);
      continue;
    }
    const std::vector<Buffer>& tree = stage_.sums().partial(bucket);
    if (tree.empty()) {
      const std::int64_t first = stage_.owned(bucket).begin;
      add(bucket, shard, StateKind::kGradients, "sum", stage_.reduced(bucket), first, ranges);
      continue;
    }
    // The digits of a binary counter; each is named by how many slots it is the sum of, which does
    // not depend on the world size.
    for (std::size_t level = 0; level + 1 < tree.size(); ++level) {
      if ((static_cast<unsigned>(micro_step) >> level & 1U) == 0) continue;
      const Buffer& sum = tree[level];
      add(bucket, shard, StateKind::kGradients,
          concat(static_cast<std::int64_t>(rt_.world_size()) << level, " slots"),
          {sum.data(), sum.dtype(), sum.elems()}, shard.begin, ranges);
    }
  }
  return ranges;
}

std::string CheckpointRanges::kind_of_window() const {
  for (const Bucket& bucket : rt_.layout.buckets()) {
    if (!bucket.trainable) continue;
    if (stage_.grad_home(bucket) != GradHome::kSharded) return "a sum on each rank";
    return stage_.sums().partial(bucket).empty() ? "sums of shards" : "a tree of shards";
  }
  return "none";
}

}  // namespace zero
