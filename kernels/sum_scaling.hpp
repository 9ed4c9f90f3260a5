// How the divisor of a sum is applied.
#pragma once

#include <cmath>

#include "kernels/host_kernels.hpp"

namespace zero::kernels {

struct ScaledSum {
  Scaling scaling = Scaling::kDivide;
  float operand = 1;
};

inline ScaledSum scaled_sum(float divisor) {
  if (divisor == 1.0f) return {Scaling::kNone, divisor};
  int exponent = 0;
  if (std::isfinite(divisor) && std::abs(std::frexp(divisor, &exponent)) == 0.5f &&
      std::isnormal(1.0f / divisor)) {
    return {Scaling::kMultiply, 1.0f / divisor};
  }
  return {Scaling::kDivide, divisor};
}

}  // namespace zero::kernels
