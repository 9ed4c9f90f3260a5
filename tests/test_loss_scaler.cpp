// The loss scale against tables worked by hand from the rules of DeepSpeed's DynamicLossScaler.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "src/loss_scaler.hpp"

namespace zero {
namespace {

LossScaleSettings small(std::int64_t window, int hysteresis, bool consecutive = false) {
  LossScaleSettings settings;
  settings.initial_scale_power = 4;  // 16
  settings.loss_scale_window = window;
  settings.hysteresis = hysteresis;
  settings.consecutive_hysteresis = consecutive;
  return settings;
}

// Runs steps ('.': clean, 'X': overflow) and gives the scale after each.
std::vector<double> run(LossScaler& scaler, const std::string& steps) {
  std::vector<double> scales;
  for (const char step : steps) {
    scaler.update(step == 'X');
    scales.push_back(scaler.scale());
  }
  return scales;
}

std::vector<double> scales_of(const LossScaleSettings& settings, const std::string& steps) {
  LossScaler scaler(settings);
  return run(scaler, steps);
}

using Scales = std::vector<double>;

TEST(LossScaler, IsOneWithoutSettings) {
  LossScaler scaler;
  EXPECT_EQ(run(scaler, "..X.X"), (Scales{1, 1, 1, 1, 1}));
  EXPECT_FALSE(scaler.exhausted());
}

TEST(LossScaler, FixedNeverMovesNorEnds) {
  LossScaleSettings settings = small(1, 1);
  settings.loss_scale = 24;
  LossScaler scaler(settings);
  EXPECT_EQ(scaler.scale(), 24);
  EXPECT_EQ(run(scaler, "...XXXX..."), Scales(10, 24));
  EXPECT_FALSE(scaler.exhausted());
}

TEST(LossScaler, StartsAtTheInitialPower) {
  EXPECT_EQ(LossScaler(LossScaleSettings{}).scale(), 65536);
  LossScaleSettings settings;
  settings.initial_scale_power = 0;
  EXPECT_EQ(LossScaler(settings).scale(), 1);
}

// First growth on clean step window + 1, then on every window-th.
TEST(LossScaler, GrowsAfterTheWindowAndOne) {
  EXPECT_EQ(scales_of(small(3, 1), "..........."),
            (Scales{16, 16, 16, 32, 32, 32, 64, 64, 64, 128, 128}));
  EXPECT_EQ(scales_of(small(1, 1), "...."), (Scales{16, 32, 64, 128}));
}

TEST(LossScaler, AnOverflowStartsTheWindowAnew) {
  // Three clean, overflow (16 -> 8), then four clean until growth.
  EXPECT_EQ(scales_of(small(3, 1), "...X....."), (Scales{16, 16, 16, 8, 8, 8, 8, 16, 16}));
  // The step that would have grown overflows instead.
  EXPECT_EQ(scales_of(small(2, 1), "..X..."), (Scales{16, 16, 8, 8, 8, 16}));
}

TEST(LossScaler, HysteresisForgivesAllButTheLast) {
  EXPECT_EQ(scales_of(small(100, 2), "XX"), (Scales{16, 8}));
  // Used up it stays so: every further overflow halves.
  EXPECT_EQ(scales_of(small(100, 3), "XXXXX"), (Scales{16, 16, 8, 4, 2}));
  // Clean steps do not refill it ...
  EXPECT_EQ(scales_of(small(100, 2), "X..X.X"), (Scales{16, 16, 16, 8, 8, 4}));
}

TEST(LossScaler, GrowthRefillsHysteresis) {
  // X uses the one forgiven overflow; three clean steps grow and refill; X is forgiven again.
  EXPECT_EQ(scales_of(small(2, 2), "X...XX"), (Scales{16, 16, 16, 32, 32, 16}));
}

TEST(LossScaler, AForgivenOverflowStartsTheWindowAnewToo) {
  EXPECT_EQ(scales_of(small(2, 2), "..X..."), (Scales{16, 16, 16, 16, 16, 32}));
}

TEST(LossScaler, ConsecutiveHysteresisIsRefilledByACleanStep) {
  EXPECT_EQ(scales_of(small(100, 2, true), "X.X.X"), (Scales{16, 16, 16, 16, 16}));
  EXPECT_EQ(scales_of(small(100, 2, true), "XX.XX"), (Scales{16, 8, 8, 8, 4}));
}

TEST(LossScaler, FallsToTheMinimumAndNotBelow) {
  LossScaleSettings settings = small(100, 1);
  settings.min_loss_scale = 3;
  LossScaler scaler(settings);
  EXPECT_EQ(run(scaler, "XXX"), (Scales{8, 4, 3}));
  EXPECT_TRUE(scaler.exhausted());
}

TEST(LossScaler, TheMinimumMayBeAFraction) {
  LossScaleSettings settings = small(100, 1);
  settings.initial_scale_power = 0;
  settings.min_loss_scale = 0.25;
  LossScaler scaler(settings);
  EXPECT_FALSE(scaler.exhausted());
  EXPECT_EQ(run(scaler, "XX"), (Scales{0.5, 0.25}));
  EXPECT_TRUE(scaler.exhausted());
}

// At the minimum an overflow still uses up hysteresis before it ends the run.
TEST(LossScaler, IsExhaustedOnlyWhenHysteresisIsUsedUp) {
  LossScaleSettings settings = small(2, 2);
  settings.initial_scale_power = 0;
  LossScaler scaler(settings);
  EXPECT_FALSE(scaler.exhausted());
  scaler.update(true);
  EXPECT_TRUE(scaler.exhausted());
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_EQ(run(scaler, "..."), (Scales{1, 1, 2}));  // grown: there is room again
  EXPECT_FALSE(scaler.exhausted());
  EXPECT_EQ(run(scaler, "XX"), (Scales{2, 1}));
  EXPECT_TRUE(scaler.exhausted());
}

TEST(LossScaler, NeverBecomesInfiniteAsFp32) {
  LossScaleSettings settings = small(1, 1);
  settings.initial_scale_power = 120;
  LossScaler scaler(settings);
  run(scaler, std::string(40, '.'));
  EXPECT_EQ(scaler.scale(), 0x1p127);
  EXPECT_TRUE(std::isfinite(static_cast<float>(scaler.scale())));
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 0x1p126);
}

// An independent statement of the rule, over every sequence of eight steps.
TEST(LossScaler, EverySequenceFollowsTheRule) {
  for (int window : {1, 2, 3}) {
    for (int hysteresis : {1, 2, 3}) {
      for (const bool consecutive : {false, true}) {
        for (unsigned bits = 0; bits < 256; ++bits) {
          LossScaler scaler(small(window, hysteresis, consecutive));
          double scale = 16;
          int clean = 0;  // since the last overflow
          int left = hysteresis;
          for (int step = 0; step < 8; ++step) {
            const bool overflow = ((bits >> step) & 1) != 0;
            const bool falls = left == 1;
            if (scaler.exhausted()) {
              ASSERT_TRUE(scale == 1 && falls);
              if (overflow) break;
            } else {
              ASSERT_FALSE(scale == 1 && falls);
            }
            if (overflow) {
              falls ? scale /= 2 : --left;
              clean = 0;
            } else {
              ++clean;
              if (consecutive) left = hysteresis;
              if (clean > window && (clean - 1) % window == 0) {
                scale *= 2;
                left = hysteresis;
              }
            }
            scaler.update(overflow);
            ASSERT_EQ(scaler.scale(), scale) << "window " << window << ", hysteresis " << hysteresis
                                             << ", bits " << bits << ", step " << step;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace zero
