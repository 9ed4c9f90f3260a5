// Learning rate schedules: what the param groups are set to between updates.
//
// A schedule is a function of t, the number of applied updates minus 1, and of the groups it was
// made for. There is no other state: a checkpoint needs t alone. At the start t is -1, after the
// k-th applied update k - 1, so the first update runs at the value of t = -1 and the second at that
// of t = 0. Skipped steps do not move t.
//
// The rules are those of DeepSpeed 0.19.8 (deepspeed/runtime/lr_schedules.py). K is
// max(2, warmup_num_steps); g(t) is ln(t + 1) / ln K (log) or t / K (linear) for t < K.
//
//   WarmupLR        min + (max - min) g up to K, then max. t = -1: min.
//   WarmupDecayLR   the same up to K, then min + (max - min) max(0, (total - t) / (total - K)).
//   WarmupCosineLR  the group's lr times r + (1 - r) g up to K, r = warmup_min_ratio; then times
//                   c + (1 - c) (1 + cos(pi p)) / 2, c = cos_min_ratio and
//                   p = min(1, (t - K + 1) / (total - K)). t = -1: 0.
//   OneCycle        up from min to max over cycle_first_step_size updates, down over
//                   cycle_second_step_size, each in stairs if a stair count is given; then, d
//                   updates later, min / (1 + decay_lr_rate d / decay_step_size). With
//                   cycle_momentum beta1 goes the other way, from cycle_max_mom to cycle_min_mom
//                   and back, then to cycle_max_mom (1 + decay_mom_rate d / decay_step_size);
//                   at t = -1 it is cycle_min_mom, and beta2 is 0.99 throughout.
//   LRRangeTest     min (1 + lr_range_test_step_rate n), n = (t + 1) / lr_range_test_step_size,
//                   rounded down with lr_range_test_staircase.
//
// Where total is at most K, total - K counts as 1.
//
// Thread-safety: schedules are immutable; const calls from many threads are fine. Host only,
// nothing blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "zero/param_spec.hpp"
#include "zero/scheduler_settings.hpp"

namespace zero {

// To plug a schedule of one's own, derive from this or use make_lr_schedule() with a function.
class LrSchedule {
 public:
  virtual ~LrSchedule() = default;
  // Sets what the schedule governs, and leaves the rest of each group alone. Must be a pure
  // function of t and of what the schedule was made from: a resume calls it with the t of the
  // checkpoint, and all ranks must get the same values. REQUIRES: t >= -1, and the groups it was
  // made for. Throws UsageError for another number of groups, ConfigError where the parameters lead
  // to a value no group can have at this t; the groups are then as they were.
  virtual void apply(std::int64_t t, std::span<ParamGroup> groups) const = 0;
};

// The schedule of a configuration. `initial_groups` are the groups as registered, before any
// schedule has changed them; their number is the length that lists must have (or 1). Throws
// ConfigError naming scheduler.params.KEY, the value, and what is valid. Parameters of other types
// of schedule are not looked at.
std::unique_ptr<LrSchedule> make_lr_schedule(const SchedulerSettings& settings,
                                             std::span<const ParamGroup> initial_groups);

// A schedule from a function that gives the lr of a group at t. apply() throws UsageError where it
// gives a value that is no lr (negative, not finite, beyond fp32), and leaves the groups alone.
// Throws UsageError for an empty function.
std::unique_ptr<LrSchedule> make_lr_schedule(std::function<double(std::int64_t t, int group)> lr);

}  // namespace zero
