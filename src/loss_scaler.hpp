// Dynamic loss scaling for fp16, as the host sees it: kernels/loss_scale_math.hpp made from a
// configuration.
//
// Thread-safety: none; the same calls on every rank keep the ranks equal.
#pragma once

#include <cstdint>

#include "kernels/loss_scale_math.hpp"
#include "zero/config.hpp"

namespace zero {

class LossScaler {
 public:
  // Scale 1 for ever, for dtypes that need none.
  LossScaler() = default;
  explicit LossScaler(const LossScaleSettings& settings);
  explicit LossScaler(const kernels::LossScale& state) : state_(state) {}

  const kernels::LossScale& state() const { return state_; }
  double scale() const { return state_.scale; }
  bool dynamic() const { return state_.dynamic; }
  // Would an overflow now have to end the run, because the scale cannot fall any further?
  bool exhausted() const { return kernels::is_exhausted(state_); }
  // Counts a step. REQUIRES: !(overflow && exhausted()).
  void update(bool overflow) { kernels::count_step(state_, overflow); }

 private:
  kernels::LossScale state_;
};

}  // namespace zero
