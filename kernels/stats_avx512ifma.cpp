// The exact sum of squares by 52-bit multiply-adds (AVX-512 IFMA).
//
// Within a window of 29 neighbouring exponents a mantissa can be shifted to a common unit and still
// fit the 52 bits of a multiplicand. VPMADD52 then adds the low and the high 52 bits of its exact
// square to two 64-bit sums, which have room for 4096 of them. The window is laid by the largest
// exponent of the chunk before, with room above; a chunk that does not fit is done again. What lies
// below the window, 2^-24 times smaller or less, is rare and goes to the bins.
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/host_kernels.hpp"

#if defined(__x86_64__)
#include "kernels/intrinsics.hpp"
#if defined(__clang__)
#pragma clang attribute push(                                                               \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512ifma,avx2,fma,f16c"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512ifma,avx2,fma,f16c")
#endif

#include "kernels/stats_loops.hpp"
#include "kernels/vector_avx512.hpp"

namespace zero::kernels {
namespace {

constexpr std::int64_t kChunk = 2048;
constexpr std::uint32_t kWindow = 29;  // exponents: 24 + 28 bits fit 52
constexpr std::uint32_t kRoom = 4;     // exponents left free above the largest

// The window for chunks like one whose largest exponent field is `top`. Never field 0: what is
// subnormal has no hidden bit, and must lie below the window.
ZERO_MATH std::uint32_t window_base(std::uint32_t top) {
  const std::uint32_t end = top + kRoom + 1;
  return end < kWindow + 1 ? 1 : end - kWindow;
}

struct Extent {
  std::uint32_t largest;
  bool below_window;  // something, apart from zero, lies below it
};

template <class G>
ZERO_MATH __m512i abs_lanes(const G* grad) {
  return _mm512_and_si512(_mm512_castps_si512(load<Avx512>(grad).v), _mm512_set1_epi32(kAbsMask));
}

// Adds the squares of kChunk elements to the digits if all are finite and fit below the end of the
// window that starts at exponent field `base` >= 1. Zeros, subnormals and what else lies below the
// window shift out to nothing.
template <class G>
static Extent add_window(const G* grad, std::uint32_t base, std::uint64_t* digits) {
  const __m512i mantissa_mask = _mm512_set1_epi32(kMantissaMask);
  const __m512i hidden = _mm512_set1_epi32(kHiddenBit);
  const __m512i first_field = _mm512_set1_epi32(static_cast<int>(base));
  const __m512i one = _mm512_set1_epi32(1);
  const __m512i even = _mm512_set1_epi64(0xffffffff);
  __m512i low[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  __m512i high[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  __m512i largest = _mm512_setzero_si512();
  __m512i smallest = _mm512_set1_epi32(-1);  // of bits - 1, so that zero counts as large
  for (std::int64_t i = 0; i < kChunk; i += 16) {
    __builtin_prefetch(reinterpret_cast<const char*>(grad + i) + 2048);
    const __m512i bits = abs_lanes(grad + i);
    largest = _mm512_max_epu32(largest, bits);
    smallest = _mm512_min_epu32(smallest, _mm512_sub_epi32(bits, one));
    const __m512i mantissa = _mm512_or_si512(_mm512_and_si512(bits, mantissa_mask), hidden);
    // Negative below the window: as an unsigned shift that is too far, and gives zero.
    const __m512i shift = _mm512_sub_epi32(_mm512_srli_epi32(bits, 23), first_field);
    const __m512i x0 =
        _mm512_sllv_epi64(_mm512_and_si512(mantissa, even), _mm512_and_si512(shift, even));
    const __m512i x1 =
        _mm512_sllv_epi64(_mm512_srli_epi64(mantissa, 32), _mm512_srli_epi64(shift, 32));
    low[0] = _mm512_madd52lo_epu64(low[0], x0, x0);
    high[0] = _mm512_madd52hi_epu64(high[0], x0, x0);
    low[1] = _mm512_madd52lo_epu64(low[1], x1, x1);
    high[1] = _mm512_madd52hi_epu64(high[1], x1, x1);
  }
  const Extent extent{_mm512_reduce_max_epu32(largest),
                      _mm512_reduce_min_epu32(smallest) < (base << 23) - 1};
  // Near the top the window reaches past the largest exponent: infinities and NaN never fit.
  if (extent.largest >= kInfinityBits || exponent_field(extent.largest) >= base + kWindow) {
    return extent;
  }
  // kChunk values below 2^52 each: the sums over all lanes fit 64 bits.
  const auto sum_low =
      static_cast<std::uint64_t>(_mm512_reduce_add_epi64(_mm512_add_epi64(low[0], low[1])));
  const auto sum_high =
      static_cast<std::uint64_t>(_mm512_reduce_add_epi64(_mm512_add_epi64(high[0], high[1])));
  add_at_bit(digits, sum_low, square_position(base));
  add_at_bit(digits, sum_high, square_position(base) + 52);
  return extent;
}

// The elements below exponent field `base`, through the bins.
template <class G>
static void add_below(const G* grad, std::uint32_t base, std::uint64_t* digits) {
  SquareBins bins{};
  for (std::int64_t k = 0; k < kChunk; ++k) {
    const std::uint32_t bits = abs_bits_of(grad[k]);
    if (exponent_field(bits) < base) bins.table[0][exponent_field(bits)] += mantissa_square(bits);
  }
  flush_bins(&bins, digits);
}

template <class G>
static void stats_windowed(const G* grad, std::int64_t elems, GradStats* stats) {
  std::uint64_t* digits = stats->sum_squares.data();
  std::uint32_t base = window_base(127);
  std::int64_t i = 0;
  for (; i + kChunk <= elems; i += kChunk) {
    Extent extent = add_window(grad + i, base, digits);
    const std::uint32_t top = exponent_field(extent.largest);
    if (extent.largest >= kInfinityBits) {
      stats_of(grad + i, kChunk, stats);
      continue;
    }
    if (top >= base + kWindow) {
      base = window_base(top);
      extent = add_window(grad + i, base, digits);
    }
    if (extent.below_window) add_below(grad + i, base, digits);
    if (extent.largest > stats->max_abs_bits) stats->max_abs_bits = extent.largest;
    normalise_digits(digits, GradStats::kDigits);
    base = window_base(top);
  }
  if (i < elems) stats_of(grad + i, elems - i, stats);
}

}  // namespace

static void stats_in_windows(ConstView grad, GradStats* stats) {
  switch (grad.dtype) {
    case DType::kFloat32:
      return stats_windowed(static_cast<const float*>(grad.data), grad.elems, stats);
    case DType::kFloat16:
      return stats_windowed(static_cast<const fp16*>(grad.data), grad.elems, stats);
    case DType::kBFloat16:
      return stats_windowed(static_cast<const bf16*>(grad.data), grad.elems, stats);
  }
}

}  // namespace zero::kernels

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace zero::kernels {
GradStatsFunction grad_stats_avx512ifma() {
  return __builtin_cpu_supports("avx512ifma") ? stats_in_windows : nullptr;
}
}  // namespace zero::kernels

#else
namespace zero::kernels {
GradStatsFunction grad_stats_avx512ifma() { return nullptr; }
}  // namespace zero::kernels
#endif
