// The layout against a checker that knows only what a layout promises, not how it is made.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "zero/layout.hpp"

namespace zero {
namespace {

constexpr std::int64_t kAlign = 8;

LayoutParam param(std::string name, std::int64_t numel, std::vector<int> units = {0},
                  DType dtype = DType::kFloat32, bool trainable = true) {
  return {std::move(name), numel, dtype, trainable, std::move(units)};
}

LayoutOptions options(int world_size, std::int64_t bucket_elems = 500'000'000, bool by_unit = false,
                      std::int64_t persistence = 0) {
  LayoutOptions o;
  o.world_size = world_size;
  o.bucket_elems = bucket_elems;
  o.by_unit = by_unit;
  o.persistence_threshold_elems = persistence;
  return o;
}

// Everything that holds of every layout, without touching single elements: works at any size.
void check_ranges(const std::vector<LayoutParam>& params, const LayoutOptions& o) {
  const Layout layout(params, o);
  ASSERT_EQ(layout.world_size(), o.world_size);
  std::vector<int> seen(params.size(), 0);
  std::int64_t model = 0;
  std::int64_t padded = 0;
  std::map<int, std::vector<int>> unit_buckets;
  for (std::size_t b = 0; b < layout.buckets().size(); ++b) {
    const Bucket& bucket = layout.buckets()[b];
    SCOPED_TRACE(bucket.label);
    ASSERT_EQ(bucket.index, static_cast<int>(b));
    ASSERT_FALSE(bucket.segments.empty());
    EXPECT_EQ(bucket.shard_elems % kAlign, 0);
    EXPECT_EQ(bucket.padded_elems, bucket.shard_elems * o.world_size);
    std::int64_t end = 0;
    std::int64_t held = 0;
    int last_param = -1;
    std::set<int> units;
    for (const Segment& segment : bucket.segments) {
      const LayoutParam& p = params[static_cast<std::size_t>(segment.param)];
      ++seen[static_cast<std::size_t>(segment.param)];
      EXPECT_GT(segment.param, last_param) << "registration order";
      last_param = segment.param;
      EXPECT_EQ(segment.elems, p.numel);
      EXPECT_EQ(segment.offset % kAlign, 0);
      EXPECT_GE(segment.offset, end) << p.name << " overlaps";
      EXPECT_LT(segment.offset - end, kAlign) << "a gap before " << p.name;
      end = segment.offset + segment.elems;
      held += segment.elems;
      EXPECT_EQ(layout.place(segment.param).bucket, bucket.index);
      EXPECT_EQ(layout.place(segment.param).offset, segment.offset);
      EXPECT_EQ(p.dtype, bucket.dtype);
      EXPECT_EQ(p.trainable, bucket.trainable);
      if (o.by_unit && !bucket.persistent) {
        EXPECT_EQ(p.units, params[static_cast<std::size_t>(bucket.segments[0].param)].units)
            << "the bucket crosses units";
      }
      if (bucket.persistent) {
        EXPECT_TRUE(o.by_unit);
        EXPECT_LE(p.numel, o.persistence_threshold_elems);
      }
      units.insert(p.units.begin(), p.units.end());
    }
    EXPECT_EQ(bucket.units, std::vector<int>(units.begin(), units.end()));
    for (const int unit : units) unit_buckets[unit].push_back(bucket.index);
    EXPECT_LE(end, bucket.padded_elems);
    // No more padding than alignment of the shards asks for.
    EXPECT_LT(bucket.padded_elems - end, kAlign * o.world_size + o.world_size);
    // Only a parameter alone (beside empty ones) is larger than the limit; the gaps before
    // parameters count, that before the last one need not.
    const std::int64_t largest =
        std::max_element(bucket.segments.begin(), bucket.segments.end(),
                         [](const Segment& a, const Segment& c) { return a.elems < c.elems; })
            ->elems;
    if (held > o.bucket_elems) {
      EXPECT_EQ(held, largest);
    }
    if (held > largest) {
      EXPECT_LT(end, o.bucket_elems + kAlign);
    }
    model += held;
    padded += bucket.padded_elems;
  }
  for (std::size_t i = 0; i < params.size(); ++i) {
    EXPECT_EQ(seen[i], 1) << params[i].name << " is in " << seen[i] << " buckets";
  }
  EXPECT_EQ(layout.model_elems(), model);
  EXPECT_EQ(layout.padded_elems(), padded);
  for (const auto& [unit, buckets] : unit_buckets) EXPECT_EQ(layout.unit_buckets(unit), buckets);
  EXPECT_TRUE(layout.unit_buckets(1 << 20).empty());
}

// Element by element: each is in one place and one rank's shard, and pieces() finds it there.
void check_elements(const std::vector<LayoutParam>& params, const LayoutOptions& o) {
  check_ranges(params, o);
  const Layout layout(params, o);
  std::set<std::pair<int, std::int64_t>> taken;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const Place place = layout.place(static_cast<int>(i));
    for (std::int64_t e = 0; e < params[i].numel; ++e) {
      ASSERT_TRUE(taken.insert({place.bucket, place.offset + e}).second)
          << params[i].name << " element " << e;
    }
  }
  std::set<std::pair<int, std::int64_t>> found;  // of all ranks
  for (const Bucket& bucket : layout.buckets()) {
    for (int rank = 0; rank < o.world_size; ++rank) {
      const std::int64_t begin = rank * bucket.shard_elems;
      std::int64_t at = begin;
      for (const Piece& piece : layout.pieces(bucket.index, begin, begin + bucket.shard_elems)) {
        EXPECT_GT(piece.elems, 0);
        EXPECT_GE(piece.bucket_offset, at);
        at = piece.bucket_offset + piece.elems;
        EXPECT_EQ(piece.bucket_offset - piece.param_offset, layout.place(piece.param).offset);
        EXPECT_LE(piece.param_offset + piece.elems,
                  params[static_cast<std::size_t>(piece.param)].numel);
        for (std::int64_t e = piece.bucket_offset; e < at; ++e) {
          EXPECT_TRUE(found.insert({bucket.index, e}).second) << "owned by two ranks";
        }
      }
      EXPECT_LE(at, begin + bucket.shard_elems);
    }
  }
  EXPECT_EQ(found, taken);
}

TEST(Layout, EmptyModel) {
  check_elements({}, options(3));
  EXPECT_EQ(Layout({}, options(3)).padded_elems(), 0);
}

TEST(Layout, AwkwardSizesAtEveryWorldSize) {
  std::vector<LayoutParam> params;
  for (const std::int64_t numel : {0, 1, 7, 8, 9, 0, 15, 16, 17, 63, 64, 65, 1, 0}) {
    params.push_back(
        param("p" + std::to_string(params.size()), numel, {static_cast<int>(params.size()) / 4}));
  }
  for (const int world_size : {1, 2, 3, 4, 5, 8, 9, 64, 1000}) {
    for (const std::int64_t bucket : {1, 8, 63, 64, 65, 100, 1'000'000}) {
      for (const bool by_unit : {false, true}) {
        SCOPED_TRACE(::testing::Message() << "world size " << world_size << ", bucket " << bucket
                                          << ", by unit " << by_unit);
        check_elements(params, options(world_size, bucket, by_unit, 0));
        check_elements(params, options(world_size, bucket, by_unit, 15));
      }
    }
  }
}

TEST(Layout, RandomModels) {
  std::uint32_t state = 1;
  const auto next = [&](std::uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<int>((state >> 16) % below);
  };
  for (int model = 0; model < 150; ++model) {
    SCOPED_TRACE(::testing::Message() << "model " << model);
    std::vector<LayoutParam> params;
    int unit = 0;
    for (int i = next(20); i >= 0; --i) {
      if (next(3) == 0) ++unit;
      std::vector<int> units = {unit};
      if (next(5) == 0) units.push_back(unit + 1 + next(3));  // tied
      params.push_back(param("p" + std::to_string(i), next(50), units, static_cast<DType>(next(3)),
                             next(4) != 0));
    }
    LayoutOptions o = options(1 + next(9), 1 + next(120), next(2) == 0, next(30));
    if (next(2) == 0) o.model_persistence_threshold_elems = next(100);
    check_elements(params, o);
  }
}

TEST(Layout, ExactlyTheBucketLimitFits) {
  const std::vector<LayoutParam> params = {param("a", 16), param("b", 16), param("c", 1)};
  EXPECT_EQ(Layout(params, options(1, 33)).buckets().size(), 1u);
  EXPECT_EQ(Layout(params, options(1, 32)).buckets().size(), 2u);
  EXPECT_EQ(Layout(params, options(1, 31)).buckets().size(), 2u);  // a | b c
  EXPECT_EQ(Layout(params, options(1, 16)).buckets().size(), 3u);
  EXPECT_EQ(Layout(params, options(1, 1)).buckets().size(), 3u);
}

TEST(Layout, ABucketIsNoLargerThanWhatItHolds) {
  EXPECT_EQ(Layout({param("a", 5)}, options(1)).padded_elems(), 8);
  EXPECT_EQ(Layout({param("a", 5)}, options(4)).padded_elems(), 32);
  EXPECT_EQ(Layout({param("a", 0)}, options(4)).padded_elems(), 0);
}

TEST(Layout, KindsAreNeverMixed) {
  std::vector<LayoutParam> params;
  for (int i = 0; i < 12; ++i) {
    params.push_back(param("p" + std::to_string(i), 3, {0}, static_cast<DType>(i % 3), i % 2 == 0));
  }
  check_elements(params, options(2));
  // Kinds that alternate share their buckets all the same: two of each of six kinds.
  EXPECT_EQ(Layout(params, options(2)).buckets().size(), 6u);
}

TEST(Layout, BucketsKeepToUnitsAtStage3) {
  const std::vector<LayoutParam> params = {param("a", 10, {0}), param("b", 10, {0}),
                                           param("c", 10, {1}), param("tied", 10, {0, 1}),
                                           param("d", 10, {1})};
  check_elements(params, options(2, 1000, true));
  const Layout layout(params, options(2, 1000, true));
  EXPECT_EQ(layout.place(0).bucket, layout.place(1).bucket);
  EXPECT_EQ(layout.place(2).bucket, layout.place(4).bucket);
  EXPECT_EQ(layout.buckets().size(), 3u);
  EXPECT_EQ(layout.unit_buckets(0), (std::vector<int>{0, 2}));
  EXPECT_EQ(layout.unit_buckets(1), (std::vector<int>{1, 2}));
  EXPECT_EQ(Layout(params, options(2, 1000, false)).buckets().size(), 1u);
}

TEST(Layout, TheThresholdItselfIsPersistent) {
  const std::vector<LayoutParam> params = {param("below", 9, {0}), param("at", 10, {1}),
                                           param("above", 11, {2})};
  check_elements(params, options(2, 1000, true, 10));
  const Layout layout(params, options(2, 1000, true, 10));
  EXPECT_TRUE(layout.bucket(layout.place(0).bucket).persistent);
  EXPECT_EQ(layout.place(0).bucket, layout.place(1).bucket);
  EXPECT_FALSE(layout.bucket(layout.place(2).bucket).persistent);
  // At the other stages everything is resident, and the word means nothing.
  const Layout whole(params, options(2, 1000, false, 10));
  for (const Bucket& bucket : whole.buckets()) {
    EXPECT_FALSE(bucket.persistent);
  }
}

TEST(Layout, NothingIsPersistentAtThresholdZeroButTheEmpty) {
  const Layout layout({param("one", 1), param("none", 0)}, options(2, 1000, true, 0));
  EXPECT_FALSE(layout.bucket(layout.place(0).bucket).persistent);
}

TEST(Layout, TheModelThresholdBoundsAllPersistentOnes) {
  const std::vector<LayoutParam> params = {param("a", 4, {0}), param("b", 4, {1}),
                                           param("c", 4, {2})};
  for (const auto& [limit, count] : std::map<std::int64_t, int>{
           {0, 0}, {3, 0}, {4, 1}, {7, 1}, {8, 2}, {11, 2}, {12, 3}, {INT64_MAX, 3}}) {
    LayoutOptions o = options(2, 1000, true, 10);
    o.model_persistence_threshold_elems = limit;
    check_elements(params, o);
    const Layout layout(params, o);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(layout.bucket(layout.place(i).bucket).persistent, i < count)
          << "limit " << limit << ", parameter " << i;
    }
  }
}

TEST(Layout, BeyondThirtyTwoBits) {
  const std::int64_t p31 = std::int64_t{1} << 31;
  const std::int64_t p33 = std::int64_t{1} << 33;
  const std::vector<LayoutParam> params = {param("a", p31 - 1), param("b", p31 + 1),
                                           param("c", p33 + 3), param("d", p33), param("e", 1)};
  for (const int world_size : {1, 3, 8, 1000}) {
    for (const std::int64_t bucket : {std::int64_t{1}, p31, p33, 4 * p33}) {
      check_ranges(params, options(world_size, bucket));
      check_ranges(params, options(world_size, bucket, true, p31));
    }
  }
  const Layout layout(params, options(3, 8 * p33));
  ASSERT_EQ(layout.buckets().size(), 1u);
  EXPECT_EQ(layout.place(1).offset, p31);
  EXPECT_EQ(layout.place(2).offset, 2 * p31 + 8);
  EXPECT_EQ(layout.place(4).offset, 2 * p31 + 8 + p33 + 8 + p33);
  EXPECT_EQ(layout.model_elems(), 2 * p31 + 2 * p33 + 4);
  const std::int64_t c = layout.place(2).offset;
  const auto pieces = layout.pieces(0, c + 2 * p31 + 5, c + p33 + 100);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].param, 2);
  EXPECT_EQ(pieces[0].bucket_offset, c + 2 * p31 + 5);
  EXPECT_EQ(pieces[0].param_offset, 2 * p31 + 5);
  EXPECT_EQ(pieces[0].elems, p33 + 3 - (2 * p31 + 5));
  EXPECT_EQ(pieces[1].param, 3);
  EXPECT_EQ(pieces[1].elems, 92);
}

TEST(Layout, PiecesOfAnyRange) {
  const Layout layout({param("a", 3), param("none", 0), param("b", 5)}, options(1));
  ASSERT_EQ(layout.buckets().size(), 1u);
  const std::int64_t b = layout.place(2).offset;
  for (std::int64_t begin = 0; begin <= b + 5; ++begin) {
    for (std::int64_t end = begin; end <= b + 5; ++end) {
      std::int64_t elems = 0;
      for (const Piece& piece : layout.pieces(0, begin, end)) elems += piece.elems;
      std::int64_t expected = 0;
      for (std::int64_t e = begin; e < end; ++e) expected += e < 3 || e >= b ? 1 : 0;
      EXPECT_EQ(elems, expected) << begin << " to " << end;
    }
  }
}

TEST(Layout, LabelsNameTheParameters) {
  const Layout layout({param("first.w", 3), param("mid", 3), param("last.b", 3)}, options(1));
  const std::string& label = layout.buckets()[0].label;
  for (const char* part : {"bucket 0", "first.w", "last.b"}) {
    EXPECT_NE(label.find(part), std::string::npos) << label;
  }
}

}  // namespace
}  // namespace zero
