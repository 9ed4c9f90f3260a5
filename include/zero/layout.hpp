// Where every element of every parameter lives: pure arithmetic, the same on all ranks.
//
// Parameters are packed in registration order into buckets. A bucket is one flat range of one dtype
// that cuts into world_size equal, aligned shards; rank r owns shard r of every bucket. Each
// parameter starts at an aligned offset, so that models may use vector loads on their weights. Gaps
// and the padding at the end hold zeros for ever. Offsets are stored here and recomputed nowhere
// else. Stages differ in what stays resident, not in the layout; at stage 3 buckets do not cross
// units, so that a unit is gathered alone.
//
// Thread-safety: immutable after construction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zero/dtype.hpp"

namespace zero {

// What the layout needs to know of a parameter.
struct LayoutParam {
  std::string name;
  std::int64_t numel = 0;
  DType dtype = DType::kFloat32;
  bool trainable = true;   // registered with requires_grad
  std::vector<int> units;  // that use it, ascending; more than one: tied
};

struct LayoutOptions {
  int world_size = 1;
  std::int64_t bucket_elems = 500'000'000;  // a larger parameter gets a bucket of its own
  bool by_unit = false;                     // stage 3
  // With by_unit: parameters of at most this many elements stay gathered and share buckets, ...
  std::int64_t persistence_threshold_elems = 0;
  // ... in registration order, as long as they are together at most this many elements.
  std::int64_t model_persistence_threshold_elems = INT64_MAX;
};

// A parameter's place in its bucket.
struct Segment {
  int param = 0;
  std::int64_t offset = 0;  // elements from the start of the bucket
  std::int64_t elems = 0;
};

struct Bucket {
  int index = 0;
  DType dtype = DType::kFloat32;
  bool trainable = true;
  bool persistent = false;        // stays gathered at stage 3
  std::vector<int> units;         // that use any of its parameters, ascending
  std::vector<Segment> segments;  // ascending offsets
  std::int64_t shard_elems = 0;
  std::int64_t padded_elems = 0;  // world_size * shard_elems
  std::string label;              // "bucket 3 (h0.qkv.weight ... h0.fc.bias)"
};

// Part of a parameter inside a range of its bucket.
struct Piece {
  int param = 0;
  std::int64_t bucket_offset = 0;  // of its first element
  std::int64_t param_offset = 0;   // of the same element
  std::int64_t elems = 0;
};

struct Place {
  int bucket = 0;
  std::int64_t offset = 0;
};

class Layout {
 public:
  // Shards and parameters start at multiples of this many elements: 16 bytes in 16-bit types.
  static constexpr std::int64_t kAlignElems = 8;

  Layout() = default;
  Layout(const std::vector<LayoutParam>& params, const LayoutOptions& options);

  const std::vector<Bucket>& buckets() const { return buckets_; }
  const Bucket& bucket(int index) const { return buckets_[static_cast<std::size_t>(index)]; }
  Place place(int param) const { return places_[static_cast<std::size_t>(param)]; }
  // Buckets with a parameter that the unit uses, ascending.
  const std::vector<int>& unit_buckets(int unit) const;
  // The parts of parameters inside elements [begin, end) of a bucket, ascending. Empty parameters
  // have none.
  std::vector<Piece> pieces(int bucket, std::int64_t begin, std::int64_t end) const;

  int world_size() const { return world_size_; }
  std::int64_t model_elems() const { return model_elems_; }    // as registered
  std::int64_t padded_elems() const { return padded_elems_; }  // of all buckets

 private:
  int world_size_ = 1;
  std::int64_t model_elems_ = 0;
  std::int64_t padded_elems_ = 0;
  std::vector<Bucket> buckets_;
  std::vector<Place> places_;
  std::vector<std::vector<int>> unit_buckets_;
};

}  // namespace zero
