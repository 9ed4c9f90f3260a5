// One element of the scaling and adding kernels.
#pragma once

#include "kernels/host_kernels.hpp"
#include "kernels/number.hpp"

namespace zero::kernels {

template <class N>
ZERO_MATH N scale_element(Scaling scaling, N sum, N operand) {
  if (scaling == Scaling::kNone) return sum;
  return scaling == Scaling::kMultiply ? sum * operand : sum / operand;
}

}  // namespace zero::kernels
