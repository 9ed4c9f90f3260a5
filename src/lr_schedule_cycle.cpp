// The schedules that search for a rate and use it: LRRangeTest and OneCycle.
#include <cmath>

#include "src/lr_schedule_checks.hpp"
#include "zero/error.hpp"

namespace zero::detail {
namespace {

constexpr double kCycleBeta2 = 0.99;  // what DeepSpeed sets along with a cycled beta1

class RangeTest final : public LrSchedule {
 public:
  RangeTest(const SchedulerSettings& settings, Groups initial)
      : min_(per_group("lr_range_test_min_lr", settings.lr_range_test_min_lr, initial.size(),
                       kRate)),
        step_size_(static_cast<double>(settings.lr_range_test_step_size)),
        step_rate_(checked("lr_range_test_step_rate", settings.lr_range_test_step_rate, kRate)),
        staircase_(settings.lr_range_test_staircase) {
    require_steps("lr_range_test_step_size", settings.lr_range_test_step_size, 1);
  }

  void apply(std::int64_t t, std::span<ParamGroup> groups) const override {
    require_same_groups(min_.size(), groups.size());
    const double updates = static_cast<double>(t) + 1.0;
    const double intervals = updates / step_size_;
    const double growth = 1.0 + step_rate_ * (staircase_ ? std::floor(intervals) : intervals);
    for (std::size_t i = 0; i < groups.size(); ++i) groups[i].lr = min_[i] * growth;
  }

 private:
  std::vector<double> min_;
  double step_size_;
  double step_rate_;
  bool staircase_;
};

// One half of the cycle. Everything in updates, as double: sums of sizes cannot overflow.
struct Half {
  double size;
  double stairs;  // 0: none
  // `updates` counts from the low end of the half. From 0 there to 1 at the peak.
  double height(double updates) const {
    if (stairs == 0) return updates / size;
    return std::floor(updates * stairs / size) / stairs;
  }
};

class OneCycle final : public LrSchedule {
 public:
  OneCycle(const SchedulerSettings& settings, Groups initial)
      : min_lr_(per_group("cycle_min_lr", settings.cycle_min_lr, initial.size(), kRate)),
        max_lr_(per_group("cycle_max_lr", settings.cycle_max_lr, initial.size(), kRate)),
        decay_size_(static_cast<double>(settings.decay_step_size)),
        lr_decay_(checked("decay_lr_rate", settings.decay_lr_rate, kRate)),
        with_momentum_(settings.cycle_momentum) {
    require_steps("cycle_first_step_size", settings.cycle_first_step_size, 1);
    const std::int64_t second =
        settings.cycle_second_step_size.value_or(settings.cycle_first_step_size);
    require_steps("cycle_second_step_size", second, 0);
    require_steps("cycle_first_stair_count", settings.cycle_first_stair_count, 0);
    const std::int64_t second_stairs =
        settings.cycle_second_stair_count.value_or(settings.cycle_first_stair_count);
    require_steps("cycle_second_stair_count", second_stairs, 0);
    require_steps("decay_step_size", settings.decay_step_size, 0);
    up_ = {static_cast<double>(settings.cycle_first_step_size),
           static_cast<double>(settings.cycle_first_stair_count)};
    down_ = {static_cast<double>(second), static_cast<double>(second_stairs)};
    if (!with_momentum_) return;
    min_mom_ = per_group("cycle_min_mom", settings.cycle_min_mom, initial.size(), kMomentum);
    max_mom_ = per_group("cycle_max_mom", settings.cycle_max_mom, initial.size(), kMomentum);
    mom_decay_ = settings.decay_mom_rate;
    if (!std::isfinite(mom_decay_)) {
      refuse("decay_mom_rate", concat("is ", mom_decay_, "; valid: a finite number"));
    }
  }

  void apply(std::int64_t t, std::span<ParamGroup> groups) const override {
    require_same_groups(min_lr_.size(), groups.size());
    const double updates = static_cast<double>(t) + 1.0;
    const double after = updates - (up_.size + down_.size);
    const double h = after < 0 ? height(updates) : 0.0;
    const double intervals = after > 0 && decay_size_ > 0 ? after / decay_size_ : 0.0;
    if (with_momentum_) {
      std::vector<double> beta1(groups.size());
      for (std::size_t i = 0; i < groups.size(); ++i) {
        const double cycled = max_mom_[i] - (max_mom_[i] - min_mom_[i]) * h;
        beta1[i] = t < 0 ? min_mom_[i] : cycled * (1.0 + mom_decay_ * intervals);
        if (!kMomentum.contains(beta1[i])) refuse_beta1(t, i, beta1[i]);
      }
      for (std::size_t i = 0; i < groups.size(); ++i) {
        groups[i].beta1 = beta1[i];
        groups[i].beta2 = kCycleBeta2;
      }
    }
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const double cycled = min_lr_[i] + (max_lr_[i] - min_lr_[i]) * h;
      groups[i].lr = cycled / (1.0 + lr_decay_ * intervals);
    }
  }

 private:
  double height(double updates) const {
    if (updates <= up_.size) return up_.height(updates);
    return down_.height(up_.size + down_.size - updates);
  }

  [[noreturn]] void refuse_beta1(std::int64_t t, std::size_t group, double beta1) const {
    refuse("decay_mom_rate",
           concat("is ", mom_decay_, ": after ", t + 1, " updates it takes beta1 of param group ",
                  group, " to ", beta1, "; valid for beta1: ", kMomentum.words));
  }

  std::vector<double> min_lr_, max_lr_;
  std::vector<double> min_mom_, max_mom_;
  Half up_ = {}, down_ = {};
  double decay_size_;
  double lr_decay_;
  double mom_decay_ = 0.0;
  bool with_momentum_;
};

}  // namespace

std::unique_ptr<LrSchedule> make_one_cycle(const SchedulerSettings& settings, Groups initial) {
  return std::make_unique<OneCycle>(settings, initial);
}

std::unique_ptr<LrSchedule> make_range_test(const SchedulerSettings& settings, Groups initial) {
  return std::make_unique<RangeTest>(settings, initial);
}

}  // namespace zero::detail
