// OneCycle and LRRangeTest against their rules, written a second time in another form, for 3,000
// updates and more; and against values worked by hand.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <limits>

#include "tests/lr_schedule_fixtures.hpp"

namespace zero {
namespace {

// ---- OneCycle

TEST(OneCycle, ByHand) {
  SchedulerSettings s = cycle(4, 2);
  expect_near(first_lrs(s, 9), {0.1, 0.2, 0.3, 0.4, 0.5, 0.3, 0.1, 0.1, 0.1});
  s.decay_step_size = 2;
  s.decay_lr_rate = 0.5;
  // 0.1 over 1.25, 1.5, 1.75
  expect_near(first_lrs(s, 10), {0.1, 0.2, 0.3, 0.4, 0.5, 0.3, 0.1, 0.08, 0.1 / 1.5, 0.1 / 1.75});
}

TEST(OneCycle, SecondHalfIsAsTheFirstByDefault) {
  SchedulerSettings s = cycle(2, 0);
  s.cycle_second_step_size.reset();
  expect_near(first_lrs(s, 6), {0.1, 0.3, 0.5, 0.3, 0.1, 0.1});
}

// DeepSpeed's: with no second half the update of the peak is that of the fall already.
TEST(OneCycle, SecondHalfOfNoSteps) {
  expect_near(first_lrs(cycle(4, 0), 7), {0.1, 0.2, 0.3, 0.4, 0.1, 0.1, 0.1});
}

TEST(OneCycle, StairsByHand) {
  SchedulerSettings s = cycle(4, 4);
  s.cycle_first_stair_count = 2;  // also of the second half
  expect_near(first_lrs(s, 10), {0.1, 0.1, 0.3, 0.3, 0.5, 0.3, 0.3, 0.1, 0.1, 0.1});
  s.cycle_second_stair_count = 0;
  expect_near(first_lrs(s, 10), {0.1, 0.1, 0.3, 0.3, 0.5, 0.4, 0.3, 0.2, 0.1, 0.1});
  s.cycle_second_stair_count = 1;
  expect_near(first_lrs(s, 10), {0.1, 0.1, 0.3, 0.3, 0.5, 0.1, 0.1, 0.1, 0.1, 0.1});
}

// The peak and the steps of an uneven cycle are met exactly, in spite of rounding.
TEST(OneCycle, StairsOfUnevenHalves) {
  SchedulerSettings s = cycle(1000, 700);
  s.cycle_first_stair_count = 10;
  s.cycle_second_stair_count = 7;
  s.cycle_min_lr = {0.1, 0.0, 0.5};
  s.cycle_max_lr = {0.5, 1.0, 0.1};
  const Lists low = s.cycle_min_lr, high = s.cycle_max_lr;
  expect_lr_rule(s, [&](std::int64_t n, std::size_t g) {
    double part = static_cast<double>(n / 100) / 10;  // whole stairs from below
    if (n > 1000) part = static_cast<double>((1700 - n) / 100) / 7;
    if (n >= 1700) part = 0;
    return part * high[g] + (1 - part) * low[g];
  });
}

// lr and beta1 of a whole cycle with its decay, by going along instead of by formula.
TEST(OneCycle, WalkedForLong) {
  SchedulerSettings s = cycle(800, 1200);
  s.cycle_momentum = true;
  s.cycle_min_mom = {0.85};
  s.cycle_max_mom = {0.95};
  s.decay_step_size = 400;
  s.decay_lr_rate = 0.75;
  s.decay_mom_rate = -0.125;
  const auto used = run(s, {0.5}, kUpdates);
  double lr = 0.1, mom = 0.95, decays = 0;
  for (std::int64_t n = 0; n < kUpdates; ++n) {
    const ParamGroup& group = used[static_cast<std::size_t>(n)][0];
    ASSERT_NEAR(group.lr, n <= 2000 ? lr : 0.4 / (4 + 3 * decays), 1e-11) << n;
    // The very first beta1 is the minimum.
    const double beta1 = n <= 2000 ? mom : 0.95 * (8 - decays) / 8;
    ASSERT_NEAR(group.beta1, n == 0 ? 0.85 : beta1, 1e-11) << n;
    ASSERT_EQ(group.beta2, 0.99);
    if (n < 800) lr += 0.4 / 800, mom -= 0.1 / 800;
    if (n >= 800 && n < 2000) lr -= 0.4 / 1200, mom += 0.1 / 1200;
    if (n >= 2000) decays += 1.0 / 400;
  }
}

TEST(OneCycle, MomentumByHand) {
  SchedulerSettings s = cycle(2, 2);
  s.cycle_momentum = true;  // 0.8 to 0.9, the defaults; stays at the high end without a decay
  expect_near(first_beta1s(s, 7), {0.8, 0.85, 0.8, 0.85, 0.9, 0.9, 0.9});
  s.decay_mom_rate = 0.1;  // nothing without a step size
  expect_near(first_beta1s(s, 7), {0.8, 0.85, 0.8, 0.85, 0.9, 0.9, 0.9});
  s.decay_step_size = 2;  // 0.9 times 1.05, 1.1
  expect_near(first_beta1s(s, 7), {0.8, 0.85, 0.8, 0.85, 0.9, 0.945, 0.99});
  s.cycle_first_stair_count = 1;
  expect_near(first_beta1s(s, 6), {0.8, 0.9, 0.8, 0.9, 0.9, 0.945});
}

TEST(OneCycle, MomentumIsLeftAloneIfNotCycled) {
  SchedulerSettings s = cycle(3, 5);
  s.cycle_min_mom = {3};  // not looked at
  for (const auto& groups : run(s, {0.5, 0.25}, 20)) {
    for (const ParamGroup& group : groups) {
      EXPECT_EQ(group.beta1, 0.9);
      EXPECT_EQ(group.beta2, 0.95);
    }
  }
}

TEST(OneCycle, PerGroupMomentum) {
  SchedulerSettings s = cycle(2, 2);
  s.cycle_momentum = true;
  s.cycle_min_mom = {0.5, 0.25};
  s.cycle_max_mom = {0.75, 0.75};
  const auto used = run(s, {0.5, 0.5}, 4);
  EXPECT_EQ(used[0][0].beta1, 0.5);
  EXPECT_EQ(used[0][1].beta1, 0.25);
  EXPECT_EQ(used[1][0].beta1, 0.625);
  EXPECT_EQ(used[1][1].beta1, 0.5);
}

TEST(OneCycle, DefaultsForLong) {
  SchedulerSettings s = of_type("OneCycle");  // 2,000 up and 2,000 down
  s.cycle_min_lr = {0.001};
  s.cycle_max_lr = {0.011};
  expect_lr_rule(
      s,
      [](std::int64_t n, std::size_t) {
        const auto from_peak = static_cast<double>(std::abs(2000 - n));
        return n >= 4000 ? 0.001 : (2200 - from_peak) * 5e-6;
      },
      4100);
}

// Sums of the sizes are beyond 2^63.
TEST(OneCycle, SizesBeyondCounting) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const auto schedule = make_lr_schedule(cycle(most, most), groups_with_lr({0.5}));
  std::vector<ParamGroup> groups = groups_with_lr({0.5});
  schedule->apply(most, groups);
  EXPECT_DOUBLE_EQ(groups[0].lr, 0.5);
}

// ---- LRRangeTest

TEST(LrRangeTest, ByHand) {
  SchedulerSettings s = of_type("LRRangeTest");
  s.lr_range_test_min_lr = {0.01};
  s.lr_range_test_step_size = 4;
  s.lr_range_test_step_rate = 2;
  expect_near(first_lrs(s, 6), {0.01, 0.015, 0.02, 0.025, 0.03, 0.035});
  s.lr_range_test_staircase = true;
  expect_near(first_lrs(s, 9), {0.01, 0.01, 0.01, 0.01, 0.03, 0.03, 0.03, 0.03, 0.05});
}

TEST(LrRangeTest, DefaultsForLong) {
  expect_lr_rule(of_type("LRRangeTest"),
                 [](std::int64_t n, std::size_t) { return static_cast<double>(2000 + n) / 2e6; });
}

TEST(LrRangeTest, PerGroupStairs) {
  SchedulerSettings s = of_type("LRRangeTest");
  const Lists low = {0.5, 0.25, 0.0};
  s.lr_range_test_min_lr = low;
  s.lr_range_test_step_size = 7;
  s.lr_range_test_step_rate = 0.5;
  s.lr_range_test_staircase = true;
  expect_lr_rule(s, [&](std::int64_t n, std::size_t g) {
    return low[g] * static_cast<double>(2 + n / 7) / 2;
  });
}

}  // namespace
}  // namespace zero
