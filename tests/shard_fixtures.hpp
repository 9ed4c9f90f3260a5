// Shards cut into pieces, for the tests of kernels that work on them.
#pragma once

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/kernels.hpp"
#include "tests/kernel_fixtures.hpp"

namespace zero::kernels {

// Pieces and gaps one after the other, over `elems` elements.
struct Pieces {
  std::vector<ShardPiece> table;
  std::int64_t elems = 0;

  Pieces& piece(std::int64_t count, std::int32_t param) {
    table.push_back({elems, elems + count, param, 0});
    elems += count;
    return *this;
  }
  Pieces& gap(std::int64_t count) {
    elems += count;
    return *this;
  }
  PieceTable view() const { return {table.data(), static_cast<std::int64_t>(table.size())}; }
};

inline constexpr std::int32_t kShardParams = 8;

// Every awkward length, with and without gaps, parameters out of order and in several pieces.
inline Pieces awkward_pieces(bool gaps) {
  Pieces p;
  std::int32_t k = 0;
  for (const std::int64_t count :
       {0, 1, 7, 8, 9, 1, 1, 1, 2, 3, 4, 5, 255, 256, 257, 0, 0, 1023, 1025, 2048, 4100, 3, 2600}) {
    if (gaps) p.gap(k % 4 == 0 ? 0 : k % 3 + k % 7);
    p.piece(count, k * 5 % kShardParams);
    ++k;
  }
  return gaps ? p.gap(11) : p;
}

// Other numbers for each parameter; every third one is inactive.
inline std::vector<UpdateConstants> shard_constants(UpdateConstants::Rule rule) {
  std::vector<UpdateConstants> constants;
  for (std::int32_t param = 0; param < kShardParams; ++param) {
    constants.push_back(make_update_constants(
        {rule, 1e-2 * (param + 1), 0.9, 0.95, 1e-6, 0.1 * param, true, param + 1, 0.37}));
    constants.back().active = param % 3 != 2;
  }
  return constants;
}

template <class T>
std::vector<T> numbers(std::size_t count, std::uint32_t seed, float scale = 1.0f) {
  Random random(seed);
  std::vector<T> values(count);
  for (T& value : values) value = from_float<T>(random.uniform() * scale);
  return values;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// A gradient from element `first_elem` of the pieces on, and the parameter to be named.
struct BadCase {
  std::string name;
  Pieces pieces;
  std::int64_t first_elem;
  std::int32_t fallback;
  std::vector<float> grad;
  std::uint64_t bad;
};

// By hand: parameters 4, 2, 4, 7 with gaps between, and 6 for the gaps.
inline std::vector<BadCase> bad_cases() {
  const Pieces pieces =
      Pieces().piece(12, 4).gap(3).piece(0, 0).piece(5, 2).piece(20000, 4).gap(9).piece(30000, 7);
  const struct {
    std::vector<std::int64_t> at;  // in the range of the pieces
    std::uint64_t bad;
  } rows[] = {
      {{}, kNoBadParam}, {{10}, 4},    {{11, 50028}, 4}, {{12}, 6},    {{14}, 6},
      {{15}, 2},         {{19}, 2},    {{20}, 4},        {{20019}, 4}, {{20020}, 6},
      {{20028}, 6},      {{20029}, 7}, {{50028}, 7},     {{50029}, 6}, {{10, 50028, 17, 30000}, 2},
      {{50028, 12}, 6}};
  constexpr std::int64_t kFirst = 10;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::vector<BadCase> cases;
  for (const auto& row : rows) {
    BadCase c{"bad at", pieces, kFirst, 6, std::vector<float>(50020, 1.0f), row.bad};
    for (std::size_t k = 0; k < row.at.size(); ++k) {
      c.name += " " + std::to_string(row.at[k]);
      c.grad[static_cast<std::size_t>(row.at[k] - kFirst)] = k % 3 == 0   ? kInf
                                                             : k % 3 == 1 ? kNan
                                                                          : -kInf;
    }
    cases.push_back(std::move(c));
  }
  return cases;
}

// The arrays of a shard on the host.
template <class G, class P>
struct ShardArrays {
  std::vector<float> master, exp_avg, exp_avg_sq;
  std::vector<G> grad;
  std::vector<P> params;

  explicit ShardArrays(std::size_t count)
      : master(numbers<float>(count, 1)),
        exp_avg(numbers<float>(count, 2, 1e-2f)),
        exp_avg_sq(numbers<float>(count, 3, 1e-4f)),
        grad(numbers<G>(count, 4)),
        params(numbers<P>(count, 5)) {
    for (float& value : exp_avg_sq) value = value < 0 ? -value : value;
  }
  UpdateRange range(std::size_t begin, std::size_t end, bool has_params) {
    return {master.data() + begin,
            exp_avg.data() + begin,
            exp_avg_sq.data() + begin,
            {grad.data() + begin, *kDTypeOf<G>, static_cast<std::int64_t>(end - begin)},
            has_params ? params.data() + begin : nullptr,
            *kDTypeOf<P>};
  }
  // Piece by piece, through the kernel for one range.
  void update_pieces(const Pieces& pieces, const std::vector<UpdateConstants>& constants,
                     bool has_params) {
    ImmediateStream stream;
    for (const ShardPiece& piece : pieces.table) {
      const UpdateConstants& c = constants[static_cast<std::size_t>(piece.param)];
      if (!c.active) continue;
      update(range(static_cast<std::size_t>(piece.begin), static_cast<std::size_t>(piece.end),
                   has_params),
             c, stream);
    }
  }
  bool operator==(const ShardArrays& other) const {
    return same_bits(master, other.master) && same_bits(exp_avg, other.exp_avg) &&
           same_bits(exp_avg_sq, other.exp_avg_sq) && same_bits(params, other.params);
  }
};

}  // namespace zero::kernels
