// What holds for every schedule: no state but t, functions of the user, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/lr_schedule_fixtures.hpp"
#include "zero/error.hpp"

namespace zero {
namespace {

using ::testing::HasSubstr;

std::vector<SchedulerSettings> one_of_each() {
  std::vector<SchedulerSettings> all = {of_type("WarmupLR"), of_type("WarmupDecayLR"),
                                        of_type("WarmupCosineLR"), cycle(50, 30),
                                        of_type("LRRangeTest")};
  for (SchedulerSettings& s : all) {
    s.warmup_num_steps = 20;
    s.total_num_steps = 90;
    s.cycle_momentum = true;
    s.decay_step_size = 10;
    s.decay_lr_rate = 0.1;
  }
  return all;
}

// A resume makes the schedule anew and gives it t; the groups are what they were then.
TEST(LrSchedule, AnyTimeGivesTheSameWhateverWasBefore) {
  for (const SchedulerSettings& settings : one_of_each()) {
    const auto used = run(settings, kOwn, 120);
    for (const std::int64_t t : {60, -1, 119 - 1, 0, 19, 20, 79, 80}) {
      std::vector<ParamGroup> groups = groups_with_lr({7, 8, 9});
      make_lr_schedule(settings, groups_with_lr(kOwn))->apply(t, groups);
      EXPECT_EQ(groups, used[static_cast<std::size_t>(t + 1)]) << settings.type << ", t " << t;
    }
  }
}

TEST(LrSchedule, TakesOnlyTheGroupsItWasMadeFor) {
  for (const SchedulerSettings& settings : one_of_each()) {
    const auto schedule = make_lr_schedule(settings, groups_with_lr(kOwn));
    std::vector<ParamGroup> groups = groups_with_lr({1, 2});
    EXPECT_THROW(schedule->apply(0, groups), UsageError) << settings.type;
    EXPECT_EQ(groups, groups_with_lr({1, 2}));
  }
}

TEST(LrSchedule, OfAFunction) {
  const auto schedule = make_lr_schedule(
      [](std::int64_t t, int group) { return static_cast<double>(t + 2) / (group + 1); });
  std::vector<ParamGroup> groups = groups_with_lr({1, 1});
  schedule->apply(-1, groups);
  EXPECT_EQ(groups, groups_with_lr({1, 0.5}));
  schedule->apply(6, groups);
  EXPECT_EQ(groups, groups_with_lr({8, 4}));
}

TEST(LrSchedule, OfAFunctionThatGivesNoRate) {
  for (const double bad : {-1e-9, 4e38, std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN()}) {
    const auto schedule =
        make_lr_schedule([=](std::int64_t, int group) { return group == 1 ? bad : 0.5; });
    std::vector<ParamGroup> groups = groups_with_lr({1, 1});
    try {
      schedule->apply(41, groups);
      ADD_FAILURE() << bad;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("param group 1 at t = 41"));
    }
    EXPECT_EQ(groups, groups_with_lr({1, 1}));
  }
  EXPECT_THROW(make_lr_schedule(std::function<double(std::int64_t, int)>()), UsageError);
}

// ---- Errors

std::string refusal(const SchedulerSettings& settings, const Lists& own = {0.5, 0.25}) {
  try {
    make_lr_schedule(settings, groups_with_lr(own));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(LrScheduleErrors, Type) {
  EXPECT_EQ(refusal(of_type("Linear")),
            "scheduler.type is \"Linear\"; valid: WarmupLR, WarmupDecayLR, WarmupCosineLR, "
            "OneCycle, LRRangeTest");
}

TEST(LrScheduleErrors, MissingTotal) {
  for (const char* type : {"WarmupDecayLR", "WarmupCosineLR"}) {
    EXPECT_THAT(refusal(of_type(type)),
                HasSubstr("scheduler.params.total_num_steps is missing; " + std::string(type)));
  }
  EXPECT_EQ(refusal(of_type("WarmupLR")), "accepted");
}

TEST(LrScheduleErrors, MissingCycleRates) {
  SchedulerSettings s = of_type("OneCycle");
  EXPECT_THAT(refusal(s), HasSubstr("scheduler.params.cycle_min_lr is missing; valid: a number"));
  s.cycle_min_lr = {0.1};
  EXPECT_THAT(refusal(s), HasSubstr("scheduler.params.cycle_max_lr is missing; valid: a number"));
}

TEST(LrScheduleErrors, WarmupType) {
  for (const SchedulerSettings& good : one_of_each()) {
    SchedulerSettings s = good;
    s.warmup_type = "cubic";
    if (s.type.starts_with("Warmup")) {
      EXPECT_EQ(refusal(s), "scheduler.params.warmup_type is \"cubic\"; valid: log, linear");
    } else {
      EXPECT_EQ(refusal(s), "accepted");  // no parameter of this type
    }
  }
}

// Every number just outside its range is refused by name and value, and just inside accepted.
struct Bound {
  const char* type;
  const char* key;
  std::function<void(SchedulerSettings&, double)> set;
  double bad;
  double good;
};

TEST(LrScheduleErrors, Ranges) {
  const auto list = [](Lists SchedulerSettings::*member) {
    return [member](SchedulerSettings& s, double x) { s.*member = {x}; };
  };
  const auto number = [](double SchedulerSettings::*member) {
    return [member](SchedulerSettings& s, double x) { s.*member = x; };
  };
  const auto steps = [](auto SchedulerSettings::*member) {
    return [member](SchedulerSettings& s, double x) { s.*member = static_cast<std::int64_t>(x); };
  };
  using S = SchedulerSettings;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Bound> bounds = {
      {"WarmupLR", "warmup_num_steps", steps(&S::warmup_num_steps), -1, 0},
      {"WarmupDecayLR", "warmup_num_steps", steps(&S::warmup_num_steps), -7, 0},
      {"WarmupCosineLR", "warmup_num_steps", steps(&S::warmup_num_steps), -1, 0},
      {"WarmupDecayLR", "total_num_steps", steps(&S::total_num_steps), 0, 1},
      {"WarmupCosineLR", "total_num_steps", steps(&S::total_num_steps), -2, 1},
      {"WarmupLR", "warmup_min_lr", list(&S::warmup_min_lr), -0.5, 0},
      {"WarmupLR", "warmup_max_lr", list(&S::warmup_max_lr), 3.5e38, 3.4e38},
      {"WarmupDecayLR", "warmup_max_lr", list(&S::warmup_max_lr), nan, 1},
      {"WarmupCosineLR", "warmup_min_ratio", list(&S::warmup_min_ratio), -0.5, 0},
      {"WarmupCosineLR", "cos_min_ratio", number(&S::cos_min_ratio), -0.5, 0},
      {"OneCycle", "cycle_min_lr", list(&S::cycle_min_lr), -1, 0},
      {"OneCycle", "cycle_max_lr", list(&S::cycle_max_lr), -1, 0},
      {"OneCycle", "cycle_first_step_size", steps(&S::cycle_first_step_size), 0, 1},
      {"OneCycle", "cycle_second_step_size", steps(&S::cycle_second_step_size), -1, 0},
      {"OneCycle", "cycle_first_stair_count", steps(&S::cycle_first_stair_count), -1, 0},
      {"OneCycle", "cycle_second_stair_count", steps(&S::cycle_second_stair_count), -1, 0},
      {"OneCycle", "decay_step_size", steps(&S::decay_step_size), -1, 0},
      {"OneCycle", "decay_lr_rate", number(&S::decay_lr_rate), -0.5, 0},
      {"OneCycle", "cycle_min_mom", list(&S::cycle_min_mom), 1, 0.999},
      {"OneCycle", "cycle_max_mom", list(&S::cycle_max_mom), -0.1, 0},
      {"OneCycle", "decay_mom_rate", number(&S::decay_mom_rate), nan, -0.5},
      {"LRRangeTest", "lr_range_test_min_lr", list(&S::lr_range_test_min_lr), -1, 0},
      {"LRRangeTest", "lr_range_test_step_size", steps(&S::lr_range_test_step_size), 0, 1},
      {"LRRangeTest", "lr_range_test_step_rate", number(&S::lr_range_test_step_rate), -1, 0},
  };
  for (const Bound& bound : bounds) {
    for (SchedulerSettings s : one_of_each()) {
      if (s.type != bound.type) continue;
      EXPECT_EQ(refusal(s), "accepted") << bound.type;
      bound.set(s, bound.good);
      EXPECT_EQ(refusal(s), "accepted") << bound.type << ' ' << bound.key;
      bound.set(s, bound.bad);
      const std::string start =
          detail::concat("scheduler.params.", bound.key, " is ", bound.bad, "; valid: ");
      EXPECT_THAT(refusal(s), ::testing::StartsWith(start)) << bound.type;
    }
  }
}

TEST(LrScheduleErrors, ListsThatFitNoGroups) {
  const std::vector<std::pair<const char*, Lists SchedulerSettings::*>> lists = {
      {"WarmupLR warmup_min_lr", &SchedulerSettings::warmup_min_lr},
      {"WarmupLR warmup_max_lr", &SchedulerSettings::warmup_max_lr},
      {"WarmupDecayLR warmup_min_lr", &SchedulerSettings::warmup_min_lr},
      {"WarmupDecayLR warmup_max_lr", &SchedulerSettings::warmup_max_lr},
      {"WarmupCosineLR warmup_min_ratio", &SchedulerSettings::warmup_min_ratio},
      {"OneCycle cycle_min_lr", &SchedulerSettings::cycle_min_lr},
      {"OneCycle cycle_max_lr", &SchedulerSettings::cycle_max_lr},
      {"OneCycle cycle_min_mom", &SchedulerSettings::cycle_min_mom},
      {"OneCycle cycle_max_mom", &SchedulerSettings::cycle_max_mom},
      {"LRRangeTest lr_range_test_min_lr", &SchedulerSettings::lr_range_test_min_lr}};
  for (const auto& [where, member] : lists) {
    const std::string type = std::string(where).substr(0, std::string(where).find(' '));
    const std::string key = std::string(where).substr(type.size() + 1);
    for (SchedulerSettings s : one_of_each()) {
      if (s.type != type) continue;
      for (const std::size_t length : {1U, 2U}) {
        s.*member = Lists(length, 0.5);
        EXPECT_EQ(refusal(s), "accepted") << where;
      }
      s.*member = {0.5, 0.5, 0.5};
      EXPECT_EQ(refusal(s), "scheduler.params." + key +
                                " is a list of 3 values, and there are 2 param groups; valid: a "
                                "number, or a list of one number per param group");
      EXPECT_THAT(refusal(s, {0.5}), HasSubstr("there is 1 param group;"));
      s.*member = {0.5, -2};
      EXPECT_THAT(refusal(s), HasSubstr("scheduler.params." + key + "[1] is -2; valid: "));
    }
  }
}

TEST(LrScheduleErrors, MomentumThatGrowsToOne) {
  SchedulerSettings s = cycle(2, 2);
  s.cycle_momentum = true;
  s.decay_step_size = 1;
  s.decay_mom_rate = 0.05;
  const auto schedule = make_lr_schedule(s, groups_with_lr({0.5}));
  std::vector<ParamGroup> groups = groups_with_lr({0.5});
  schedule->apply(5, groups);  // 0.9 x 1.1
  const std::vector<ParamGroup> before = groups;
  try {
    schedule->apply(6, groups);  // 0.9 x 1.15
    ADD_FAILURE();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("scheduler.params.decay_mom_rate is 0.05: after 7 updates "
                                        "it takes beta1 of param group 0 to 1.035"));
  }
  EXPECT_EQ(groups, before);
}

}  // namespace
}  // namespace zero
