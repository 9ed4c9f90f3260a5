// What the tests of the learning rate schedules share.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "zero/lr_schedule.hpp"

namespace zero {

using Lists = std::vector<double>;
inline constexpr std::int64_t kUpdates = 3000;

inline std::vector<ParamGroup> groups_with_lr(const Lists& lrs) {
  std::vector<ParamGroup> groups;
  for (const double lr : lrs) groups.push_back({.lr = lr, .beta2 = 0.95, .weight_decay = 0.1});
  return groups;
}

inline SchedulerSettings of_type(const char* type) {
  SchedulerSettings settings;
  settings.type = type;
  return settings;
}

// The groups used in update 0, 1, ...: t is -1 for update 0.
inline std::vector<std::vector<ParamGroup>> run(const SchedulerSettings& settings,
                                                const Lists& own_lrs, std::int64_t updates) {
  std::vector<ParamGroup> groups = groups_with_lr(own_lrs);
  const auto schedule = make_lr_schedule(settings, groups);
  std::vector<std::vector<ParamGroup>> used;
  for (std::int64_t t = -1; t < updates - 1; ++t) {
    schedule->apply(t, groups);
    used.push_back(groups);
  }
  return used;
}

// lr of the first updates; one group with lr 0.5 of its own.
inline Lists first_lrs(const SchedulerSettings& settings, std::int64_t updates) {
  Lists lrs;
  for (const auto& groups : run(settings, {0.5}, updates)) lrs.push_back(groups[0].lr);
  return lrs;
}

inline Lists first_beta1s(const SchedulerSettings& settings, std::int64_t updates) {
  Lists betas;
  for (const auto& groups : run(settings, {0.5}, updates)) betas.push_back(groups[0].beta1);
  return betas;
}

inline void expect_near(const Lists& found, const Lists& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-12) << "update " << i;
  }
}

using Rule = std::function<double(std::int64_t update, std::size_t group)>;

// 3,000 updates of three groups with lr 0.5, 0.25 and 0.01 of their own.
inline const Lists kOwn = {0.5, 0.25, 0.01};
inline void expect_lr_rule(const SchedulerSettings& settings, const Rule& rule,
                           std::int64_t updates = kUpdates) {
  const auto used = run(settings, kOwn, updates);
  for (std::int64_t update = 0; update < updates; ++update) {
    for (std::size_t g = 0; g < kOwn.size(); ++g) {
      const ParamGroup& group = used[static_cast<std::size_t>(update)][g];
      ASSERT_NEAR(group.lr, rule(update, g), 1e-11 * std::abs(rule(update, g)) + 1e-15)
          << settings.type << ", update " << update << ", group " << g;
      ASSERT_EQ(group.weight_decay, 0.1);
      ASSERT_EQ(group.eps, 1e-8);
    }
  }
}

// Without momentum, between 0.1 and 0.5.
inline SchedulerSettings cycle(std::int64_t first, std::int64_t second) {
  SchedulerSettings s = of_type("OneCycle");
  s.cycle_min_lr = {0.1};
  s.cycle_max_lr = {0.5};
  s.cycle_first_step_size = first;
  s.cycle_second_step_size = second;
  s.cycle_momentum = false;
  return s;
}

}  // namespace zero
