#include "zero/lr_schedule.hpp"

#include <string>
#include <utility>

#include "src/lr_schedule_checks.hpp"
#include "zero/error.hpp"

namespace zero {

namespace detail {

void refuse(std::string_view key, std::string_view problem) {
  throw ConfigError(concat("scheduler.params.", key, " ", problem));
}

void require_steps(std::string_view key, std::int64_t steps, std::int64_t at_least) {
  if (steps >= at_least) return;
  refuse(key, concat("is ", steps, "; valid: an integer, ", at_least, " or more"));
}

double checked(std::string_view key, double value, const ScheduleRange& range) {
  if (!range.contains(value)) refuse(key, concat("is ", value, "; valid: ", range.words));
  return value;
}

std::vector<double> per_group(std::string_view key, const std::vector<double>& values,
                              std::size_t groups, const ScheduleRange& range) {
  if (values.empty()) {
    refuse(key, concat("is missing; valid: ", range.words, ", or a list of one per param group"));
  }
  if (values.size() != 1 && values.size() != groups) {
    refuse(key, concat("is a list of ", values.size(), " values, and there ",
                       groups == 1 ? "is 1 param group" : concat("are ", groups, " param groups"),
                       "; valid: a number, or a list of one number per param group"));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string element = values.size() == 1 ? std::string(key) : concat(key, "[", i, "]");
    checked(element, values[i], range);
  }
  return values.size() == groups ? values : std::vector<double>(groups, values[0]);
}

void require_same_groups(std::size_t made_for, std::size_t given) {
  if (made_for == given) return;
  throw UsageError(
      concat("LrSchedule::apply: ", given, " param groups; the schedule was made for ", made_for));
}

namespace {

class FunctionSchedule final : public LrSchedule {
 public:
  explicit FunctionSchedule(std::function<double(std::int64_t, int)> lr) : lr_(std::move(lr)) {}

  void apply(std::int64_t t, std::span<ParamGroup> groups) const override {
    std::vector<double> lrs;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const double lr = lr_(t, static_cast<int>(i));
      if (!kRate.contains(lr)) {
        throw UsageError(concat("the function of the lr schedule gives ", lr, " for param group ",
                                i, " at t = ", t, "; valid: ", kRate.words));
      }
      lrs.push_back(lr);
    }
    for (std::size_t i = 0; i < groups.size(); ++i) groups[i].lr = lrs[i];
  }

 private:
  std::function<double(std::int64_t, int)> lr_;
};

}  // namespace
}  // namespace detail

std::unique_ptr<LrSchedule> make_lr_schedule(const SchedulerSettings& settings,
                                             std::span<const ParamGroup> initial_groups) {
  const std::string& type = settings.type;
  if (type == "WarmupLR" || type == "WarmupDecayLR" || type == "WarmupCosineLR") {
    return detail::make_warmup_schedule(settings, initial_groups);
  }
  if (type == "OneCycle") return detail::make_one_cycle(settings, initial_groups);
  if (type == "LRRangeTest") return detail::make_range_test(settings, initial_groups);
  throw ConfigError(detail::concat("scheduler.type is \"", type, "\"; valid: WarmupLR, ",
                                   "WarmupDecayLR, WarmupCosineLR, OneCycle, LRRangeTest"));
}

std::unique_ptr<LrSchedule> make_lr_schedule(std::function<double(std::int64_t t, int group)> lr) {
  if (!lr) throw UsageError("make_lr_schedule: the function is empty; valid: one to call");
  return std::make_unique<detail::FunctionSchedule>(std::move(lr));
}

}  // namespace zero
