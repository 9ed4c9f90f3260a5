// One element of the exact sum of squares.
//
// A finite fp32 is m * 2^(e - 150) with a whole m < 2^24 and a biased exponent e >= 1 (subnormals
// have e = 1), so its square is the whole number m * m at bit 2 * (e - 1) above 2^-298, the unit of
// GradStats. Whole numbers add without rounding, hence in any order.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/number.hpp"

namespace zero::kernels {

inline constexpr std::uint32_t kAbsMask = 0x7fffffffu;
inline constexpr std::uint32_t kInfinityBits = 0x7f800000u;
inline constexpr std::uint32_t kMantissaMask = 0x007fffffu;
inline constexpr std::uint32_t kHiddenBit = 0x00800000u;

// The biased exponent field, 0 for zeros and subnormals: the bin of the square.
ZERO_MATH std::uint32_t exponent_field(std::uint32_t abs_bits) { return abs_bits >> 23; }

// m * m, below 2^48.
ZERO_MATH std::uint64_t mantissa_square(std::uint32_t abs_bits) {
  const std::uint32_t hidden = abs_bits >= kHiddenBit ? kHiddenBit : 0u;
  const std::uint64_t mantissa = (abs_bits & kMantissaMask) | hidden;
  return mantissa * mantissa;
}

// The bit, above 2^-298, at which squares of an exponent field start.
ZERO_MATH int square_position(std::uint32_t exponent) {
  return exponent == 0 ? 0 : 2 * (static_cast<int>(exponent) - 1);
}

// Adds value * 2^position to digits of 32 bits kept in 64.
ZERO_MATH void add_at_bit(std::uint64_t* digits, std::uint64_t value, int position) {
  const int digit = position / 32;
  const int shift = position % 32;
  const std::uint64_t low = value << shift;
  const std::uint64_t high = shift == 0 ? 0 : value >> (64 - shift);
  digits[digit] += low & 0xffffffffu;
  digits[digit + 1] += low >> 32;
  digits[digit + 2] += high;
}

// Carries, so that every digit but the last is below 2^32.
ZERO_MATH void normalise_digits(std::uint64_t* digits, int count) {
  for (int d = 0; d + 1 < count; ++d) {
    digits[d + 1] += digits[d] >> 32;
    digits[d] &= 0xffffffffu;
  }
}

}  // namespace zero::kernels
