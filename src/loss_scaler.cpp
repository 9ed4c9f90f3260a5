#include "src/loss_scaler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace zero {

namespace {
constexpr double kFactor = 2.0;
}

LossScaler::LossScaler(const LossScaleSettings& settings)
    : dynamic_(settings.loss_scale == 0.0),
      settings_(settings),
      scale_(dynamic_ ? std::ldexp(1.0, settings.initial_scale_power) : settings.loss_scale),
      hysteresis_left_(settings.hysteresis) {}

bool LossScaler::exhausted() const {
  const bool would_fall = settings_.hysteresis == 1 || hysteresis_left_ == 1;
  return dynamic_ && would_fall && scale_ <= settings_.min_loss_scale;
}

void LossScaler::update(bool overflow) {
  if (!dynamic_) return;
  if (overflow) {
    if (settings_.hysteresis == 1 || hysteresis_left_ == 1) {
      scale_ = std::max(scale_ / kFactor, settings_.min_loss_scale);
    } else {
      --hysteresis_left_;
    }
    last_overflow_ = iteration_;
  } else {
    if (settings_.consecutive_hysteresis) hysteresis_left_ = settings_.hysteresis;
    const std::int64_t stable = iteration_ - last_overflow_ - 1;
    if (stable > 0 && stable % settings_.loss_scale_window == 0) {
      hysteresis_left_ = settings_.hysteresis;
      // The scale multiplies an fp32 loss, so it has to stay finite there.
      if (scale_ * kFactor <= std::numeric_limits<float>::max()) scale_ *= kFactor;
    }
  }
  ++iteration_;
}

}  // namespace zero
