// Dynamic loss scaling for fp16: the state machine, nothing else.
//
// Rules as DeepSpeed 0.19's DynamicLossScaler (semantics of hysteresis, window and minimum as in
// the README). Thread-safety: none; the same calls on every rank keep the ranks equal.
#pragma once

#include <cstdint>

#include "zero/config.hpp"

namespace zero {

class LossScaler {
 public:
  // Scale 1 for ever, for dtypes that need none.
  LossScaler() = default;
  explicit LossScaler(const LossScaleSettings& settings);

  double scale() const { return scale_; }
  // Would an overflow now have to end the run, because the scale cannot fall any further?
  bool exhausted() const;
  // Counts a step. REQUIRES: !(overflow && exhausted()).
  void update(bool overflow);

 private:
  bool dynamic_ = false;
  LossScaleSettings settings_;
  double scale_ = 1.0;
  std::int64_t iteration_ = 0;
  std::int64_t last_overflow_ = -1;
  int hysteresis_left_ = 1;
};

}  // namespace zero
