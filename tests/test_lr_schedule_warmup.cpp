// The schedules that warm up against their rules, written a second time in another form, for 3,000
// updates; and against values worked by hand for the first ones and around every corner.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tests/lr_schedule_fixtures.hpp"

namespace zero {
namespace {

// How far a warm-up over `steps` is in update n, which is t + 1: both updates at the start are at
// 0.
double warmed(bool linear, double n, double steps) {
  if (n <= 1) return 0;
  return linear ? (n - 1) / steps : std::log2(n) / std::log2(steps);
}

// ---- WarmupLR

TEST(WarmupLr, LogByHand) {
  SchedulerSettings s = of_type("WarmupLR");
  s.warmup_min_lr = {1};
  s.warmup_max_lr = {4};
  s.warmup_num_steps = 8;
  // 1 + 3 log8(t + 1): two updates at the minimum, then log8 2 = 1/3, log8 4 = 2/3, log8 8 = 1.
  const Lists lrs = first_lrs(s, 12);
  EXPECT_EQ(lrs[0], 1);
  EXPECT_EQ(lrs[1], 1);
  EXPECT_NEAR(lrs[2], 2, 1e-15);
  EXPECT_NEAR(lrs[3], 1 + 3 * 0.528320833573719, 1e-14);
  EXPECT_NEAR(lrs[4], 3, 1e-15);
  EXPECT_EQ(lrs[8], 4);
  EXPECT_EQ(lrs[9], 4);
  EXPECT_EQ(lrs[11], 4);
}

TEST(WarmupLr, LinearByHand) {
  SchedulerSettings s = of_type("WarmupLR");
  s.warmup_max_lr = {0.5};
  s.warmup_num_steps = 4;
  s.warmup_type = "linear";
  expect_near(first_lrs(s, 8), {0, 0, 0.125, 0.25, 0.375, 0.5, 0.5, 0.5});
}

TEST(WarmupLr, FewStepsCountAsTwo) {
  for (const std::int64_t steps : {0, 1, 2}) {
    SchedulerSettings s = of_type("WarmupLR");
    s.warmup_max_lr = {0.5};
    s.warmup_num_steps = steps;
    expect_near(first_lrs(s, 5), {0, 0, 0.5, 0.5, 0.5});
    s.warmup_type = "linear";
    expect_near(first_lrs(s, 5), {0, 0, 0.25, 0.5, 0.5});
  }
}

TEST(WarmupLr, DefaultsAreZeroToEachGroupsOwnOverThousand) {
  expect_lr_rule(of_type("WarmupLR"), [](std::int64_t n, std::size_t g) {
    return n > 1000 ? kOwn[g] : kOwn[g] * warmed(false, static_cast<double>(n), 1000);
  });
}

TEST(WarmupLr, PerGroup) {
  SchedulerSettings s = of_type("WarmupLR");
  const Lists low = {0.1, 0.0, 3.0}, high = {0.2, 0.7, 1.0};  // the third warms downwards
  s.warmup_min_lr = low;
  s.warmup_max_lr = high;
  s.warmup_num_steps = 777;
  for (const bool linear : {false, true}) {
    s.warmup_type = linear ? "linear" : "log";
    expect_lr_rule(s, [&](std::int64_t n, std::size_t g) {
      const double part = n > 777 ? 1 : warmed(linear, static_cast<double>(n), 777);
      return high[g] * part + low[g] * (1 - part);
    });
  }
}

// ---- WarmupDecayLR

TEST(WarmupDecayLr, LinearByHand) {
  SchedulerSettings s = of_type("WarmupDecayLR");
  s.warmup_max_lr = {0.6};
  s.warmup_num_steps = 3;
  s.warmup_type = "linear";
  s.total_num_steps = 6;
  // t:                       -1  0   1    2    3    4    5    6  7
  expect_near(first_lrs(s, 9), {0, 0, 0.2, 0.4, 0.6, 0.4, 0.2, 0, 0});
}

TEST(WarmupDecayLr, EndsAtItsMinimum) {
  SchedulerSettings s = of_type("WarmupDecayLR");
  s.warmup_min_lr = {0.25};
  s.warmup_max_lr = {0.75};
  s.warmup_num_steps = 2;
  s.total_num_steps = 4;
  expect_near(first_lrs(s, 8), {0.25, 0.25, 0.75, 0.75, 0.5, 0.25, 0.25, 0.25});
}

TEST(WarmupDecayLr, DefaultMaximumIsNotTheGroups) {
  SchedulerSettings s = of_type("WarmupDecayLR");
  s.total_num_steps = 2500;
  expect_lr_rule(s, [](std::int64_t n, std::size_t) {
    if (n <= 1000) return 1e-3 * warmed(false, static_cast<double>(n), 1000);
    return n > 2500 ? 0.0 : 1e-3 * static_cast<double>(2501 - n) / 1500.0;
  });
}

TEST(WarmupDecayLr, PerGroup) {
  SchedulerSettings s = of_type("WarmupDecayLR");
  const Lists low = {0.1, 0.0, 0.3};
  s.warmup_min_lr = low;
  s.warmup_max_lr = {0.8};
  s.warmup_num_steps = 500;
  s.warmup_type = "linear";
  s.total_num_steps = 2999;
  expect_lr_rule(s, [&](std::int64_t n, std::size_t g) {
    const double t = static_cast<double>(n) - 1;
    if (n <= 501) return low[g] + std::max(0.0, t) * (0.8 - low[g]) / 500;
    return std::max(low[g], (0.8 * (2999 - t) + low[g] * (t - 500)) / 2499);
  });
}

// Shorter than its warm-up: warms up all the same, then is at the minimum.
TEST(WarmupDecayLr, TotalWithinTheWarmup) {
  SchedulerSettings s = of_type("WarmupDecayLR");
  s.warmup_max_lr = {0.4};
  s.warmup_num_steps = 4;
  s.warmup_type = "linear";
  for (const std::int64_t total : {1, 3, 4}) {
    s.total_num_steps = total;
    expect_near(first_lrs(s, 8), {0, 0, 0.1, 0.2, 0.3, 0, 0, 0});
  }
  s.total_num_steps = 5;
  expect_near(first_lrs(s, 8), {0, 0, 0.1, 0.2, 0.3, 0.4, 0, 0});
}

// ---- WarmupCosineLR

TEST(WarmupCosineLr, ByHand) {
  SchedulerSettings s = of_type("WarmupCosineLR");
  s.warmup_num_steps = 2;
  s.warmup_type = "linear";
  s.warmup_min_ratio = {0.5};
  s.cos_min_ratio = 0.2;
  s.total_num_steps = 5;
  // lr 0.5 times: 0 at first; 0.5, 0.75; then 0.2 + 0.8 (1 + cos(pi j / 3)) / 2 for j = 1, 2, 3:
  // cos = 1/2, -1/2, -1; then it stays.
  expect_near(first_lrs(s, 8), {0, 0.25, 0.375, 0.4, 0.2, 0.1, 0.1, 0.1});
}

TEST(WarmupCosineLr, DefaultsForLong) {
  SchedulerSettings s = of_type("WarmupCosineLR");
  s.total_num_steps = 2400;
  expect_lr_rule(s, [](std::int64_t n, std::size_t g) {
    if (n <= 1000) return kOwn[g] * warmed(false, static_cast<double>(n), 1000);
    if (n > 2400) return kOwn[g] * 1e-4;
    const double half = std::cos(std::acos(-1.0) / 2 * static_cast<double>(n - 1000) / 1400);
    return kOwn[g] * (1e-4 + 0.9999 * half * half);
  });
}

TEST(WarmupCosineLr, PerGroupRatios) {
  SchedulerSettings s = of_type("WarmupCosineLR");
  const Lists ratios = {0.0, 0.5, 1.0};
  s.warmup_min_ratio = ratios;
  s.cos_min_ratio = 0;
  s.warmup_num_steps = 100;
  s.total_num_steps = 3100;  // not at its end yet
  for (const bool linear : {false, true}) {
    s.warmup_type = linear ? "linear" : "log";
    expect_lr_rule(s, [&](std::int64_t n, std::size_t g) {
      if (n == 0) return 0.0;
      const double part = warmed(linear, static_cast<double>(n), 100);
      if (n <= 100) return kOwn[g] * (ratios[g] * (1 - part) + part);
      const double half = std::cos(std::acos(-1.0) / 2 * static_cast<double>(n - 100) / 3000);
      return kOwn[g] * half * half;
    });
  }
}

TEST(WarmupCosineLr, TotalWithinTheWarmup) {
  SchedulerSettings s = of_type("WarmupCosineLR");
  s.warmup_num_steps = 4;
  s.warmup_type = "linear";
  s.cos_min_ratio = 0.2;
  for (const std::int64_t total : {1, 4, 5}) {
    s.total_num_steps = total;
    expect_near(first_lrs(s, 8), {0, 0, 0.125, 0.25, 0.375, 0.1, 0.1, 0.1});
  }
}

}  // namespace
}  // namespace zero
