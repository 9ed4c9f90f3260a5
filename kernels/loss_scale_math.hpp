// Dynamic loss scaling for fp16: the state machine, on the host and in a kernel alike.
//
// Rules as DeepSpeed 0.19's DynamicLossScaler (semantics of hysteresis, window and minimum as in
// the README).
#pragma once

#include <cstdint>

#include "kernels/number.hpp"

namespace zero::kernels {

// Made as it is, it stays at scale 1.
struct LossScale {
  bool dynamic = false;
  bool consecutive_hysteresis = false;
  std::int32_t hysteresis = 1;
  std::int32_t hysteresis_left = 1;
  std::int64_t window = 1;
  std::int64_t iteration = 0;
  std::int64_t last_overflow = -1;
  double minimum = 1.0;
  double scale = 1.0;
};

inline constexpr double kLossScaleFactor = 2.0;
// The scale multiplies an fp32 loss, so it has to stay finite there.
inline constexpr double kLargestLossScale = 0x1.fffffep+127;

ZERO_MATH bool falls_next(const LossScale& s) {
  return s.hysteresis == 1 || s.hysteresis_left == 1;
}

// Would an overflow now have to end the run, because the scale cannot fall any further?
ZERO_MATH bool is_exhausted(const LossScale& s) {
  return s.dynamic && falls_next(s) && s.scale <= s.minimum;
}

// Counts a step. REQUIRES: not an overflow of an exhausted scale.
ZERO_MATH void count_step(LossScale& s, bool overflow) {
  if (!s.dynamic) return;
  if (overflow) {
    if (falls_next(s)) {
      const double fallen = s.scale / kLossScaleFactor;
      s.scale = fallen < s.minimum ? s.minimum : fallen;
    } else {
      --s.hysteresis_left;
    }
    s.last_overflow = s.iteration;
  } else {
    if (s.consecutive_hysteresis) s.hysteresis_left = s.hysteresis;
    const std::int64_t stable = s.iteration - s.last_overflow - 1;
    if (stable > 0 && stable % s.window == 0) {
      s.hysteresis_left = s.hysteresis;
      if (s.scale * kLossScaleFactor <= kLargestLossScale) s.scale *= kLossScaleFactor;
    }
  }
  ++s.iteration;
}

}  // namespace zero::kernels
