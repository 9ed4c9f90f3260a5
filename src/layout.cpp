#include "zero/layout.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "zero/error.hpp"

namespace zero {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

std::string make_label(const Bucket& bucket, const std::vector<LayoutParam>& params) {
  const auto name = [&](const Segment& segment) -> const std::string& {
    return params[static_cast<std::size_t>(segment.param)].name;
  };
  std::string label = detail::concat("bucket ", bucket.index, " (", name(bucket.segments.front()));
  if (bucket.segments.size() > 1) {
    label +=
        detail::concat(bucket.segments.size() > 2 ? " ... " : ", ", name(bucket.segments.back()));
  }
  return label + ")";
}

}  // namespace

Layout::Layout(const std::vector<LayoutParam>& params, const LayoutOptions& options)
    : world_size_(options.world_size) {
  // What parameters of one bucket have in common. Each kind has one bucket open at a time, so kinds
  // that alternate in the model do not tear each other's buckets apart.
  using Kind = std::tuple<DType, bool, bool, std::vector<int>>;
  std::map<Kind, int> open;
  std::int64_t persistent_elems = 0;
  int units = 0;

  places_.resize(params.size());
  std::vector<std::int64_t> used;  // elements taken so far, per bucket
  for (std::size_t i = 0; i < params.size(); ++i) {
    const LayoutParam& param = params[i];
    model_elems_ += param.numel;
    for (const int unit : param.units) units = std::max(units, unit + 1);

    const bool persistent =
        options.by_unit && param.numel <= options.persistence_threshold_elems &&
        persistent_elems + param.numel <= options.model_persistence_threshold_elems;
    if (persistent) persistent_elems += param.numel;
    const bool own_unit = options.by_unit && !persistent;
    const Kind kind{param.dtype, param.trainable, persistent,
                    own_unit ? param.units : std::vector<int>{}};

    auto found = open.find(kind);
    // A bucket takes parameters while they fit; the first one always does.
    if (found == open.end() ||
        round_up(used[static_cast<std::size_t>(found->second)], kAlignElems) + param.numel >
            options.bucket_elems) {
      Bucket bucket;
      bucket.index = static_cast<int>(buckets_.size());
      bucket.dtype = param.dtype;
      bucket.trainable = param.trainable;
      bucket.persistent = persistent;
      buckets_.push_back(std::move(bucket));
      used.push_back(0);
      found = open.insert_or_assign(kind, buckets_.back().index).first;
    }
    Bucket& bucket = buckets_[static_cast<std::size_t>(found->second)];
    std::int64_t& end = used[static_cast<std::size_t>(found->second)];
    const std::int64_t offset = round_up(end, kAlignElems);
    bucket.segments.push_back({static_cast<int>(i), offset, param.numel});
    end = offset + param.numel;
    places_[i] = {bucket.index, offset};
    for (const int unit : param.units) {
      if (std::find(bucket.units.begin(), bucket.units.end(), unit) == bucket.units.end()) {
        bucket.units.push_back(unit);
      }
    }
  }

  unit_buckets_.resize(static_cast<std::size_t>(units));
  for (Bucket& bucket : buckets_) {
    const std::int64_t elems = used[static_cast<std::size_t>(bucket.index)];
    const std::int64_t per_rank = (elems + world_size_ - 1) / world_size_;
    bucket.shard_elems = round_up(per_rank, kAlignElems);
    bucket.padded_elems = bucket.shard_elems * world_size_;
    bucket.label = make_label(bucket, params);
    std::sort(bucket.units.begin(), bucket.units.end());
    padded_elems_ += bucket.padded_elems;
    for (const int unit : bucket.units) {
      unit_buckets_[static_cast<std::size_t>(unit)].push_back(bucket.index);
    }
  }
}

const std::vector<int>& Layout::unit_buckets(int unit) const {
  static const std::vector<int> kNone;  // units behind the last one with parameters
  return unit < static_cast<int>(unit_buckets_.size())
             ? unit_buckets_[static_cast<std::size_t>(unit)]
             : kNone;
}

std::vector<Piece> Layout::pieces(int bucket, std::int64_t begin, std::int64_t end) const {
  std::vector<Piece> found;
  for (const Segment& segment : this->bucket(bucket).segments) {
    const std::int64_t from = std::max(begin, segment.offset);
    const std::int64_t to = std::min(end, segment.offset + segment.elems);
    if (from < to) found.push_back({segment.param, from, from - segment.offset, to - from});
  }
  return found;
}

}  // namespace zero
