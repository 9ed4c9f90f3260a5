// The schedules that warm up: WarmupLR, WarmupDecayLR, WarmupCosineLR.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "src/lr_schedule_checks.hpp"
#include "zero/error.hpp"

namespace zero::detail {
namespace {

// How far the warm-up is: from 0 to 1 over max(2, warmup_num_steps) updates.
class Warmup {
 public:
  explicit Warmup(const SchedulerSettings& settings)
      : steps_(std::max<std::int64_t>(2, settings.warmup_num_steps)),
        linear_(settings.warmup_type == "linear") {
    require_steps("warmup_num_steps", settings.warmup_num_steps, 0);
    if (!linear_ && settings.warmup_type != "log") {
      refuse("warmup_type", concat("is \"", settings.warmup_type, "\"; valid: log, linear"));
    }
  }

  bool over(std::int64_t t) const { return t >= steps_; }
  // REQUIRES: t >= 0 and not over(t).
  double progress(std::int64_t t) const {
    const double at = static_cast<double>(t);
    return linear_ ? at / steps() : std::log(at + 1.0) / std::log(steps());
  }
  double steps() const { return static_cast<double>(steps_); }

 private:
  std::int64_t steps_;
  bool linear_;
};

// Updates from the end of the warm-up to the end of the schedule, never 0.
double steps_after(const Warmup& warmup, const SchedulerSettings& settings) {
  if (!settings.total_num_steps) {
    refuse("total_num_steps", concat("is missing; ", settings.type, " needs it: an integer, 1 or ",
                                     "more, the updates of the whole training"));
  }
  require_steps("total_num_steps", *settings.total_num_steps, 1);
  return std::max(1.0, static_cast<double>(*settings.total_num_steps) - warmup.steps());
}

// WarmupLR and WarmupDecayLR: between two rates.
class WarmupRates final : public LrSchedule {
 public:
  WarmupRates(const SchedulerSettings& settings, Groups initial)
      : warmup_(settings),
        decays_(settings.type == "WarmupDecayLR"),
        min_(per_group("warmup_min_lr", settings.warmup_min_lr, initial.size(), kRate)) {
    if (decays_) {
      decay_steps_ = steps_after(warmup_, settings);
      total_ = static_cast<double>(*settings.total_num_steps);
    }
    if (!settings.warmup_max_lr.empty()) {
      max_ = per_group("warmup_max_lr", settings.warmup_max_lr, initial.size(), kRate);
    } else if (decays_) {
      max_.assign(initial.size(), 1e-3);
    } else {
      for (const ParamGroup& group : initial) max_.push_back(group.lr);
    }
  }

  void apply(std::int64_t t, std::span<ParamGroup> groups) const override {
    require_same_groups(min_.size(), groups.size());
    const double part = part_of_way(t);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      groups[i].lr = min_[i] + (max_[i] - min_[i]) * part;
    }
  }

 private:
  double part_of_way(std::int64_t t) const {
    if (t < 0) return 0.0;
    if (!warmup_.over(t)) return warmup_.progress(t);
    if (!decays_) return 1.0;
    return std::max(0.0, (total_ - static_cast<double>(t)) / decay_steps_);
  }

  Warmup warmup_;
  bool decays_;
  double decay_steps_ = 1.0;
  double total_ = 0.0;
  std::vector<double> min_;
  std::vector<double> max_;
};

// WarmupCosineLR: parts of each group's own rate.
class WarmupCosine final : public LrSchedule {
 public:
  WarmupCosine(const SchedulerSettings& settings, Groups initial)
      : warmup_(settings),
        decay_steps_(steps_after(warmup_, settings)),
        min_ratio_(per_group("warmup_min_ratio", settings.warmup_min_ratio, initial.size(), kRate)),
        end_ratio_(checked("cos_min_ratio", settings.cos_min_ratio, kRate)) {
    for (const ParamGroup& group : initial) lr_.push_back(group.lr);
  }

  void apply(std::int64_t t, std::span<ParamGroup> groups) const override {
    require_same_groups(lr_.size(), groups.size());
    for (std::size_t i = 0; i < groups.size(); ++i) groups[i].lr = lr_[i] * ratio(t, min_ratio_[i]);
  }

 private:
  double ratio(std::int64_t t, double min_ratio) const {
    if (t < 0) return 0.0;  // DeepSpeed's, whatever the ratio to start from
    if (!warmup_.over(t)) return min_ratio + (1.0 - min_ratio) * warmup_.progress(t);
    const double done = static_cast<double>(t) - warmup_.steps() + 1.0;
    // Held at its end: a cosine that goes on would rise again.
    const double wave = std::cos(std::numbers::pi * std::min(1.0, done / decay_steps_));
    return end_ratio_ + (1.0 - end_ratio_) * (1.0 + wave) / 2.0;
  }

  Warmup warmup_;
  double decay_steps_;
  std::vector<double> lr_;
  std::vector<double> min_ratio_;
  double end_ratio_;
};

}  // namespace

std::unique_ptr<LrSchedule> make_warmup_schedule(const SchedulerSettings& settings,
                                                 Groups initial) {
  if (settings.type == "WarmupCosineLR") return std::make_unique<WarmupCosine>(settings, initial);
  return std::make_unique<WarmupRates>(settings, initial);
}

}  // namespace zero::detail
