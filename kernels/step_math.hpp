// The scalars of a step, on the host and on the device: constants of the update from settings, and
// sums of gradient statistics. Only + - * / and sqrt in double, each rounded by IEEE-754, so both
// give the same bits; pow and exp do not.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/kernels.hpp"
#include "kernels/reduce_math.hpp"

namespace zero::kernels {

// base^exponent by binary exponentiation, for 0 <= base <= 1 and exponent >= 0. Each squaring
// doubles the relative error and adds one rounding: at most about exponent * 2^-53. The error of
// 1 - base^exponent is base^exponent times that, largest where exponent is about 1 / (1 - base), so
// float constants are the correctly rounded ones but for rare neighbours of a tie.
ZERO_MATH double power(double base, std::int64_t exponent) {
  double result = 1.0;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0) result *= base;
    base *= base;
  }
  return result;
}

// See make_update_constants, which is this on the host.
ZERO_MATH UpdateConstants update_constants(const UpdateSettings& s) {
  UpdateConstants c;
  c.rule = s.rule;
  c.grad_factor = static_cast<float>(s.grad_factor);
  if (s.rule == UpdateConstants::Rule::kSgd) {
    c.step_size = static_cast<float>(s.lr);
    c.decay = static_cast<float>(s.weight_decay);
    return c;
  }
  const double correction1 = s.bias_correction ? 1.0 - power(s.beta1, s.step_count) : 1.0;
  const double correction2 = s.bias_correction ? 1.0 - power(s.beta2, s.step_count) : 1.0;
  const bool decoupled = s.rule == UpdateConstants::Rule::kAdamDecoupled;
  c.beta1 = static_cast<float>(s.beta1);
  c.one_minus_beta1 = static_cast<float>(1.0 - s.beta1);
  c.beta2 = static_cast<float>(s.beta2);
  c.one_minus_beta2 = static_cast<float>(1.0 - s.beta2);
  c.rsqrt_correction2 = static_cast<float>(1.0 / std::sqrt(correction2));
  c.eps = static_cast<float>(s.eps);
  c.step_size = static_cast<float>(s.lr / correction1);
  c.decay = static_cast<float>(decoupled ? s.lr * s.weight_decay : s.weight_decay);
  return c;
}

// Adds `other` to `stats` and does the carries: any number may be added.
ZERO_MATH void add_stats(GradStats& stats, const GradStats& other) {
  // Normalised copies are below 2^32 a digit, so the sums cannot overflow, whatever came before.
  std::uint64_t theirs[GradStats::kDigits];
  for (int d = 0; d < GradStats::kDigits; ++d) theirs[d] = other.sum_squares.data()[d];
  std::uint64_t* const mine = stats.sum_squares.data();
  normalise_digits(theirs, GradStats::kDigits);
  normalise_digits(mine, GradStats::kDigits);
  for (int d = 0; d < GradStats::kDigits; ++d) mine[d] += theirs[d];
  normalise_digits(mine, GradStats::kDigits);
  if (other.max_abs_bits > stats.max_abs_bits) stats.max_abs_bits = other.max_abs_bits;
}

// The sum of squares, correctly rounded to double. Digits may have been added plainly.
ZERO_MATH double sum_of_squares(const GradStats& stats) {
  std::uint64_t digits[GradStats::kDigits];
  for (int d = 0; d < GradStats::kDigits; ++d) digits[d] = stats.sum_squares.data()[d];
  normalise_digits(digits, GradStats::kDigits);
  // The last digit may be above 2^32: two more make room for any number of carries.
  int top = GradStats::kDigits - 1;
  while (top > 0 && digits[top] == 0) --top;
  if (digits[top] == 0) return 0.0;
  // The 64 bits from the leading one down; what is below only matters as "not zero".
  std::uint64_t window = digits[top];
  int room = 0;  // bits of `window` still to fill
  while (window >> 63 == 0) {
    window <<= 1;
    ++room;
  }
  const int exponent = 32 * top - room + 11 - 298;
  bool sticky = false;
  for (int d = top - 1; d >= 0; --d) {
    const std::uint64_t digit = digits[d];
    if (room >= 32) {
      window |= digit << (room - 32);
    } else if (room > 0) {
      window |= digit >> (32 - room);
      sticky = sticky || (digit & ((std::uint64_t{1} << (32 - room)) - 1)) != 0;
    } else {
      sticky = sticky || digit != 0;
    }
    room = room > 32 ? room - 32 : 0;
  }
  // Keep 53 of the 64 bits, to nearest, ties to even.
  const std::uint64_t kept = window >> 11;
  const std::uint64_t rest = window & 0x7ff;
  const bool up = rest > 0x400 || (rest == 0x400 && (sticky || (kept & 1) != 0));
  // -350 <= exponent <= 321: a power of two that is a normal number, so the product is exact.
  const double unit = std::bit_cast<double>(static_cast<std::uint64_t>(1023 + exponent) << 52);
  return static_cast<double>(kept + (up ? 1 : 0)) * unit;
}

}  // namespace zero::kernels
