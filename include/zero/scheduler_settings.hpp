// "scheduler": which learning rate schedule runs, and its parameters, as the configuration has
// them.
//
// A plain value with DeepSpeed's names and defaults; nothing is checked here, make_lr_schedule()
// does that. A list has one value for every param group, or a single one that holds for all; a
// number in the file is a list of one. Steps are applied updates (a skipped step is none).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zero {

struct SchedulerSettings {
  std::string type = "WarmupLR";  // or WarmupDecayLR, WarmupCosineLR, OneCycle, LRRangeTest

  // WarmupLR, WarmupDecayLR, WarmupCosineLR
  std::int64_t warmup_num_steps = 1000;         // 0 or more; 0 and 1 count as 2
  std::string warmup_type = "log";              // or linear
  std::optional<std::int64_t> total_num_steps;  // required by WarmupDecayLR and WarmupCosineLR
  // WarmupLR, WarmupDecayLR
  std::vector<double> warmup_min_lr = {0.0};
  std::vector<double> warmup_max_lr =
      {};  // empty: WarmupLR the lr of each group, WarmupDecayLR 1e-3
  // WarmupCosineLR, as parts of each group's own lr
  std::vector<double> warmup_min_ratio = {0.0};
  double cos_min_ratio = 1e-4;

  // OneCycle
  std::vector<double> cycle_min_lr = {};  // required
  std::vector<double> cycle_max_lr = {};  // required
  std::int64_t cycle_first_step_size = 2000;
  std::optional<std::int64_t> cycle_second_step_size;    // empty: as the first
  std::int64_t cycle_first_stair_count = 0;              // 0: no stairs
  std::optional<std::int64_t> cycle_second_stair_count;  // empty: as the first
  std::int64_t decay_step_size = 0;                      // 0: no decay after the cycle
  double decay_lr_rate = 0.0;
  bool cycle_momentum = true;
  std::vector<double> cycle_min_mom = {0.8};
  std::vector<double> cycle_max_mom = {0.9};
  double decay_mom_rate = 0.0;

  // LRRangeTest
  std::vector<double> lr_range_test_min_lr = {1e-3};
  std::int64_t lr_range_test_step_size = 2000;
  double lr_range_test_step_rate = 1.0;
  bool lr_range_test_staircase = false;

  friend bool operator==(const SchedulerSettings&, const SchedulerSettings&) = default;
};

}  // namespace zero
