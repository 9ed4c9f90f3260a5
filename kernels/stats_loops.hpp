// The exact sum of squares and the largest magnitude of a range, in plain integers.
#pragma once

#include "kernels/host_kernels.hpp"
#include "kernels/reduce_math.hpp"

namespace zero::kernels {

inline constexpr int kBins = 256;       // one per exponent field
inline constexpr int kBinTables = 4;    // neighbours often share an exponent: four adders in flight
inline constexpr int kBinRoom = 65536;  // squares below 2^48 that surely fit 64 bits

struct SquareBins {
  // Rows are a cache line longer than needed: the same bin of two tables must not lie a multiple of
  // 4 KiB apart, which processors mistake for the same address.
  std::uint64_t table[kBinTables][kBins + 8];
};

// Adds the bins to the digits and clears them. The bin of infinities and NaN is dropped.
static inline void flush_bins(SquareBins* bins, std::uint64_t* digits) {
  for (std::uint32_t e = 0; e < kBins - 1; ++e) {
    for (auto& table : bins->table) {
      if (table[e] != 0) add_at_bit(digits, table[e], square_position(e));
    }
  }
  *bins = SquareBins{};
}

template <class G>
ZERO_MATH std::uint32_t abs_bits_of(G g) {
  return std::bit_cast<std::uint32_t>(to_float(g)) & kAbsMask;
}

// At most kBinRoom elements into cleared bins; returns the largest magnitude's bits.
template <class G>
static std::uint32_t bin_squares(const G* grad, std::int64_t elems, SquareBins* bins) {
  std::uint32_t largest[kBinTables] = {};
  std::int64_t i = 0;
  for (; i + kBinTables <= elems; i += kBinTables) {
    for (int t = 0; t < kBinTables; ++t) {
      const std::uint32_t bits = abs_bits_of(grad[i + t]);
      largest[t] = bits > largest[t] ? bits : largest[t];
      bins->table[t][exponent_field(bits)] += mantissa_square(bits);
    }
  }
  for (; i < elems; ++i) {
    const std::uint32_t bits = abs_bits_of(grad[i]);
    largest[0] = bits > largest[0] ? bits : largest[0];
    bins->table[0][exponent_field(bits)] += mantissa_square(bits);
  }
  for (const std::uint32_t other : largest) largest[0] = other > largest[0] ? other : largest[0];
  return largest[0];
}

template <class G>
static void stats_of(const G* grad, std::int64_t elems, GradStats* stats) {
  SquareBins bins{};
  for (std::int64_t begin = 0; begin < elems; begin += kBinRoom) {
    const std::int64_t count = elems - begin < kBinRoom ? elems - begin : kBinRoom;
    const std::uint32_t largest = bin_squares(grad + begin, count, &bins);
    if (largest > stats->max_abs_bits) stats->max_abs_bits = largest;
    flush_bins(&bins, stats->sum_squares.data());
    normalise_digits(stats->sum_squares.data(), GradStats::kDigits);
  }
}

static inline void stats_in_bins(ConstView grad, GradStats* stats) {
  switch (grad.dtype) {
    case DType::kFloat32:
      return stats_of(static_cast<const float*>(grad.data), grad.elems, stats);
    case DType::kFloat16:
      return stats_of(static_cast<const fp16*>(grad.data), grad.elems, stats);
    case DType::kBFloat16:
      return stats_of(static_cast<const bf16*>(grad.data), grad.elems, stats);
  }
}

template <class G>
static std::uint32_t largest_of(const G* grad, std::int64_t elems) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < elems; ++i) {
    const std::uint32_t bits = abs_bits_of(grad[i]);
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

static inline std::uint32_t largest_magnitude(ConstView grad) {
  switch (grad.dtype) {
    case DType::kFloat32:
      return largest_of(static_cast<const float*>(grad.data), grad.elems);
    case DType::kFloat16:
      return largest_of(static_cast<const fp16*>(grad.data), grad.elems);
    case DType::kBFloat16:
      return largest_of(static_cast<const bf16*>(grad.data), grad.elems);
  }
  return 0;
}

}  // namespace zero::kernels
