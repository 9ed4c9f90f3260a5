#include "src/loss_scaler.hpp"

#include <cmath>

namespace zero {

LossScaler::LossScaler(const LossScaleSettings& settings) {
  state_.dynamic = settings.loss_scale == 0.0;
  state_.consecutive_hysteresis = settings.consecutive_hysteresis;
  state_.hysteresis = settings.hysteresis;
  state_.hysteresis_left = settings.hysteresis;
  state_.window = settings.loss_scale_window;
  state_.minimum = settings.min_loss_scale;
  state_.scale =
      state_.dynamic ? std::ldexp(1.0, settings.initial_scale_power) : settings.loss_scale;
}

}  // namespace zero
