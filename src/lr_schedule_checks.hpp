// What the schedules have in common: checked parameters, and who makes which.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "zero/lr_schedule.hpp"

namespace zero::detail {

using Groups = std::span<const ParamGroup>;

std::unique_ptr<LrSchedule> make_warmup_schedule(const SchedulerSettings& settings, Groups initial);
std::unique_ptr<LrSchedule> make_one_cycle(const SchedulerSettings& settings, Groups initial);
std::unique_ptr<LrSchedule> make_range_test(const SchedulerSettings& settings, Groups initial);

// The numbers a parameter takes, and how a message says so.
struct ScheduleRange {
  double low;
  double high;
  bool below_high;  // high itself is out of range
  const char* words;
  bool contains(double x) const { return x >= low && (below_high ? x < high : x <= high); }
};
// A rate, or a factor of one: becomes an fp32.
inline constexpr ScheduleRange kRate = {0.0, std::numeric_limits<float>::max(), false,
                                        "a number, 0 or more, at most 3.40282e+38"};
inline constexpr ScheduleRange kMomentum = {0.0, 1.0, true, "a number, 0 or more and below 1"};

// All throw ConfigError: scheduler.params.KEY, the value, what is valid.
[[noreturn]] void refuse(std::string_view key, std::string_view problem);
void require_steps(std::string_view key, std::int64_t steps, std::int64_t at_least);
double checked(std::string_view key, double value, const ScheduleRange& range);
// One value for each group. Refuses an empty list as a missing parameter.
std::vector<double> per_group(std::string_view key, const std::vector<double>& values,
                              std::size_t groups, const ScheduleRange& range);

// Throws UsageError unless they are equal.
void require_same_groups(std::size_t made_for, std::size_t given);

}  // namespace zero::detail
