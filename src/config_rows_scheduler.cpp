// Rows of "scheduler": the schedules of DeepSpeed 0.19 and their parameters (zero/lr_schedule.hpp
// has the formulas). A parameter sets a field of Config::scheduler, which is there if a type is
// given.
#include "src/config_access.hpp"
#include "src/config_rows.hpp"

namespace zero::detail {
namespace {

using Type = ValueType;

const char* const kWarmup = "WarmupLR";
const char* const kDecay = "WarmupDecayLR";
const char* const kCosine = "WarmupCosineLR";
const char* const kOneCycle = "OneCycle";
const char* const kRangeTest = "LRRangeTest";

void add_type_rows(std::vector<SchemaRow>& rows) {
  rows.push_back({.path = "scheduler",
                  .nullable = true,
                  .about = "Changes learning rates (and OneCycle beta1) from update to update."});
  rows.push_back(
      {.path = "scheduler.type",
       .type = Type::kWord,
       .words = {kWarmup, kDecay, kCosine, kOneCycle, kRangeTest},
       .not_built = {"StepLR", "MultiStepLR", "LambdaLR", "ExponentialLR", "CyclicLR",
                     "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "OneCycleLR", "LinearLR",
                     "PolynomialLR", "ReduceLROnPlateau"},
       .nullable = true,
       .about = "The schedule.",
       .default_text = "none: rates stay as they are set",
       .field = {
           [](Config& c, const Value& v) { c.scheduler.emplace().type = std::get<std::string>(v); },
           [](const Config& c) { return c.scheduler ? Value(c.scheduler->type) : Value(); }}});
  rows.push_back(
      {.path = "scheduler.params", .nullable = true, .about = "Parameters of the schedule."});
  rows.push_back(default_only("scheduler.params.last_batch_iteration", Type::kInteger,
                              std::int64_t{-1}, Effect::kResult,
                              "Where DeepSpeed resumes; here a checkpoint says so.", {.low = -1}));
}

void add_warmup_rows(std::vector<SchemaRow>& rows) {
  rows.push_back(
      {.path = "scheduler.params.warmup_min_lr",
       .type = Type::kNumbers,
       .default_value = std::vector<double>{0.0},
       .range = kFiniteFloat,
       .of_types = {kWarmup, kDecay},
       .automatic = {.fact = "warmup_min_lr",
                     .from_facts = known<&Facts::warmup_min_lr>,
                     .otherwise = [](const Config&) { return Value(std::vector<double>{0.0}); }},
       .about = "Rate that the warm-up starts from.",
       .field = field<&Config::scheduler, &SchedulerSettings::warmup_min_lr>()});
  rows.push_back({.path = "scheduler.params.warmup_max_lr",
                  .type = Type::kNumbers,
                  .range = kFiniteFloat,
                  .nullable = true,
                  .of_types = {kWarmup, kDecay},
                  .automatic = {.fact = "warmup_max_lr",
                                .from_facts = known<&Facts::warmup_max_lr>,
                                .otherwise =
                                    [](const Config& c) {
                                      return Value(std::vector<double>{c.optimizer.lr});
                                    }},
                  .about = "Rate that the warm-up ends at.",
                  .default_text = "WarmupLR: each group's own lr; WarmupDecayLR: 0.001",
                  .field = field<&Config::scheduler, &SchedulerSettings::warmup_max_lr>()});
  rows.push_back({.path = "scheduler.params.warmup_num_steps",
                  .type = Type::kInteger,
                  .default_value = std::int64_t{1000},
                  .range = kNotNegative,
                  .of_types = {kWarmup, kDecay, kCosine},
                  .automatic = {.fact = "warmup_steps", .from_facts = known<&Facts::warmup_steps>},
                  .about = "Updates from the minimum to the maximum; 0 and 1 count as 2.",
                  .field = field<&Config::scheduler, &SchedulerSettings::warmup_num_steps>()});
  rows.push_back({.path = "scheduler.params.warmup_type",
                  .type = Type::kWord,
                  .default_value = std::string("log"),
                  .words = {"log", "linear"},
                  .of_types = {kWarmup, kDecay, kCosine},
                  .about = "The rate rises with the logarithm of the update, or evenly.",
                  .field = field<&Config::scheduler, &SchedulerSettings::warmup_type>()});
  rows.push_back({.path = "scheduler.params.total_num_steps",
                  .type = Type::kInteger,
                  .range = kPositive,
                  .nullable = true,
                  .of_types = {kDecay, kCosine},
                  .automatic = {.fact = "total_steps", .from_facts = known<&Facts::total_steps>},
                  .about = "Updates of the whole training; from there on the rate stays.",
                  .default_text = kRequired,
                  .field = field<&Config::scheduler, &SchedulerSettings::total_num_steps>()});
  rows.push_back({.path = "scheduler.params.warmup_min_ratio",
                  .type = Type::kNumbers,
                  .default_value = std::vector<double>{0.0},
                  .range = kFiniteFloat,
                  .of_types = {kCosine},
                  .about = "Part of each group's lr that the warm-up starts from.",
                  .field = field<&Config::scheduler, &SchedulerSettings::warmup_min_ratio>()});
  rows.push_back({.path = "scheduler.params.cos_min_ratio",
                  .type = Type::kNumber,
                  .default_value = 1e-4,
                  .range = kFiniteFloat,
                  .of_types = {kCosine},
                  .about = "Part of each group's lr that the cosine ends at.",
                  .field = field<&Config::scheduler, &SchedulerSettings::cos_min_ratio>()});
}

void add_cycle_rows(std::vector<SchemaRow>& rows) {
  rows.push_back({.path = "scheduler.params.cycle_min_lr",
                  .type = Type::kNumbers,
                  .range = kFiniteFloat,
                  .of_types = {kOneCycle},
                  .about = "Rate at both ends of the cycle.",
                  .default_text = kRequired,
                  .field = field<&Config::scheduler, &SchedulerSettings::cycle_min_lr>()});
  rows.push_back({.path = "scheduler.params.cycle_max_lr",
                  .type = Type::kNumbers,
                  .range = kFiniteFloat,
                  .of_types = {kOneCycle},
                  .about = "Rate at the peak of the cycle.",
                  .default_text = kRequired,
                  .field = field<&Config::scheduler, &SchedulerSettings::cycle_max_lr>()});
  rows.push_back({.path = "scheduler.params.cycle_first_step_size",
                  .type = Type::kInteger,
                  .default_value = std::int64_t{2000},
                  .range = kPositive,
                  .of_types = {kOneCycle},
                  .about = "Updates from the minimum to the peak.",
                  .field = field<&Config::scheduler, &SchedulerSettings::cycle_first_step_size>()});
  rows.push_back(
      {.path = "scheduler.params.cycle_second_step_size",
       .type = Type::kInteger,
       .range = kNotNegative,
       .nullable = true,
       .of_types = {kOneCycle},
       .about = "Updates from the peak back to the minimum.",
       .default_text = "as the first",
       .field = field<&Config::scheduler, &SchedulerSettings::cycle_second_step_size>()});
  rows.push_back(
      {.path = "scheduler.params.cycle_first_stair_count",
       .type = Type::kInteger,
       .default_value = std::int64_t{0},
       .range = kNotNegative,
       .of_types = {kOneCycle},
       .about = "Stairs of the first half; 0: every update is one.",
       .field = field<&Config::scheduler, &SchedulerSettings::cycle_first_stair_count>()});
  rows.push_back(
      {.path = "scheduler.params.cycle_second_stair_count",
       .type = Type::kInteger,
       .range = kNotNegative,
       .nullable = true,
       .of_types = {kOneCycle},
       .about = "Stairs of the second half; 0: every update is one.",
       .default_text = "as the first",
       .field = field<&Config::scheduler, &SchedulerSettings::cycle_second_stair_count>()});
  rows.push_back({.path = "scheduler.params.decay_step_size",
                  .type = Type::kInteger,
                  .default_value = std::int64_t{0},
                  .range = kNotNegative,
                  .of_types = {kOneCycle},
                  .about = "Updates per interval of the decay after the cycle; 0: no decay.",
                  .field = field<&Config::scheduler, &SchedulerSettings::decay_step_size>()});
  rows.push_back({.path = "scheduler.params.decay_lr_rate",
                  .type = Type::kNumber,
                  .default_value = 0.0,
                  .range = kFiniteFloat,
                  .of_types = {kOneCycle},
                  .about = "After i intervals the rate is cycle_min_lr / (1 + decay_lr_rate i).",
                  .field = field<&Config::scheduler, &SchedulerSettings::decay_lr_rate>()});
  rows.push_back(
      {.path = "scheduler.params.cycle_momentum",
       .type = Type::kBoolean,
       .default_value = true,
       .of_types = {kOneCycle},
       .about = "Cycles beta1 against the rate, and sets beta2 to 0.99, as DeepSpeed does.",
       .field = field<&Config::scheduler, &SchedulerSettings::cycle_momentum>()});
  rows.push_back({.path = "scheduler.params.cycle_min_mom",
                  .type = Type::kNumbers,
                  .default_value = std::vector<double>{0.8},
                  .range = {.low = 0, .high = 1, .below_high = true},
                  .of_types = {kOneCycle},
                  .about = "beta1 at the peak of the rate, and in the very first update.",
                  .field = field<&Config::scheduler, &SchedulerSettings::cycle_min_mom>()});
  rows.push_back({.path = "scheduler.params.cycle_max_mom",
                  .type = Type::kNumbers,
                  .default_value = std::vector<double>{0.9},
                  .range = {.low = 0, .high = 1, .below_high = true},
                  .of_types = {kOneCycle},
                  .about = "beta1 at the low ends of the rate.",
                  .field = field<&Config::scheduler, &SchedulerSettings::cycle_max_mom>()});
  rows.push_back({.path = "scheduler.params.decay_mom_rate",
                  .type = Type::kNumber,
                  .default_value = 0.0,
                  .range = {.low = -kFloatMax, .high = kFloatMax},
                  .of_types = {kOneCycle},
                  .about = "After i intervals beta1 is cycle_max_mom (1 + decay_mom_rate i); an "
                           "error where that leaves 0 to 1.",
                  .field = field<&Config::scheduler, &SchedulerSettings::decay_mom_rate>()});
}

void add_range_test_rows(std::vector<SchemaRow>& rows) {
  rows.push_back({.path = "scheduler.params.lr_range_test_min_lr",
                  .type = Type::kNumbers,
                  .default_value = std::vector<double>{1e-3},
                  .range = kFiniteFloat,
                  .of_types = {kRangeTest},
                  .about = "Rate to start from.",
                  .field = field<&Config::scheduler, &SchedulerSettings::lr_range_test_min_lr>()});
  rows.push_back(
      {.path = "scheduler.params.lr_range_test_step_size",
       .type = Type::kInteger,
       .default_value = std::int64_t{2000},
       .range = kPositive,
       .of_types = {kRangeTest},
       .about = "Updates per interval.",
       .field = field<&Config::scheduler, &SchedulerSettings::lr_range_test_step_size>()});
  rows.push_back(
      {.path = "scheduler.params.lr_range_test_step_rate",
       .type = Type::kNumber,
       .default_value = 1.0,
       .range = kFiniteFloat,
       .of_types = {kRangeTest},
       .about =
           "After i intervals the rate is lr_range_test_min_lr (1 + lr_range_test_step_rate i).",
       .field = field<&Config::scheduler, &SchedulerSettings::lr_range_test_step_rate>()});
  rows.push_back(
      {.path = "scheduler.params.lr_range_test_staircase",
       .type = Type::kBoolean,
       .default_value = false,
       .of_types = {kRangeTest},
       .about = "Whole intervals only.",
       .field = field<&Config::scheduler, &SchedulerSettings::lr_range_test_staircase>()});
}

}  // namespace

void add_scheduler_rows(std::vector<SchemaRow>& rows) {
  add_type_rows(rows);
  add_warmup_rows(rows);
  add_cycle_rows(rows);
  add_range_test_rows(rows);
}

}  // namespace zero::detail
