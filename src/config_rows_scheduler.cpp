// Rows of "scheduler": the schedules of DeepSpeed 0.19 and their parameters (zero/lr_schedule.hpp
// has the formulas). A parameter sets a field of Config::scheduler, which is there if a type is
// given.
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
  rows.push_back({.path = "scheduler.type",
                  .type = Type::kWord,
                  .words = {kWarmup, kDecay, kCosine, kOneCycle, kRangeTest},
                  .not_built = {"StepLR", "MultiStepLR", "LambdaLR", "ExponentialLR", "CyclicLR",
                                "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "OneCycleLR",
                                "LinearLR", "PolynomialLR", "ReduceLROnPlateau"},
                  .nullable = true,
                  .about = "The schedule.",
                  .default_text = "none: rates stay as they are set",
                  .set = [](Config& c, const Value& v) { c.scheduler.emplace().type = word(v); }});
  rows.push_back({.path = "scheduler.params", .about = "Parameters of the schedule."});
}

void add_warmup_rows(std::vector<SchemaRow>& rows) {
  rows.push_back({.path = "scheduler.params.warmup_min_lr",
                  .type = Type::kNumbers,
                  .default_value = std::vector<double>{0.0},
                  .range = kFiniteFloat,
                  .of_types = {kWarmup, kDecay},
                  .about = "Rate that the warm-up starts from.",
                  .set = [](Config& c, const Value& v) {
                    if (c.scheduler) c.scheduler->warmup_min_lr = pair(v);
                  }});
  rows.push_back({.path = "scheduler.params.warmup_max_lr",
                  .type = Type::kNumbers,
                  .range = kFiniteFloat,
                  .nullable = true,
                  .of_types = {kWarmup, kDecay},
                  .about = "Rate that the warm-up ends at.",
                  .default_text = "WarmupLR: each group's own lr; WarmupDecayLR: 0.001",
                  .set = [](Config& c, const Value& v) {
                    if (c.scheduler) c.scheduler->warmup_max_lr = pair(v);
                  }});
  rows.push_back({.path = "scheduler.params.warmup_num_steps",
                  .type = Type::kInteger,
                  .default_value = std::int64_t{1000},
                  .range = kNotNegative,
                  .of_types = {kWarmup, kDecay, kCosine},
                  .about = "Updates from the minimum to the maximum; 0 and 1 count as 2.",
                  .set = [](Config& c, const Value& v) {
                    if (c.scheduler) c.scheduler->warmup_num_steps = integer(v);
                  }});
  rows.push_back({.path = "scheduler.params.warmup_type",
                  .type = Type::kWord,
                  .default_value = std::string("log"),
                  .words = {"log", "linear"},
                  .of_types = {kWarmup, kDecay, kCosine},
                  .about = "The rate rises with the logarithm of the update, or evenly.",
                  .set = [](Config& c, const Value& v) {
                    if (c.scheduler) c.scheduler->warmup_type = word(v);
                  }});
  rows.push_back({.path = "scheduler.params.total_num_steps",
                  .type = Type::kInteger,
                  .range = kPositive,
                  .nullable = true,
                  .of_types = {kDecay, kCosine},
                  .about = "Updates of the whole training; from there on the rate stays.",
                  .default_text = "required",
                  .set = [](Config& c, const Value& v) {
                    if (c.scheduler) c.scheduler->total_num_steps = integer(v);
                  }});
  rows.push_back({.path = "scheduler.params.warmup_min_ratio",
                  .type = Type::kNumbers,
                  .default_value = std::vector<double>{0.0},
                  .range = kFiniteFloat,
                  .of_types = {kCosine},
                  .about = "Part of each group's lr that the warm-up starts from.",
                  .set = [](Config& c, const Value& v) {
                    if (c.scheduler) c.scheduler->warmup_min_ratio = pair(v);
                  }});
  rows.push_back({.path = "scheduler.params.cos_min_ratio",
                  .type = Type::kNumber,
                  .default_value = 1e-4,
                  .range = kFiniteFloat,
                  .of_types = {kCosine},
                  .about = "Part of each group's lr that the cosine ends at.",
                  .set = [](Config& c, const Value& v) {
                    if (c.scheduler) c.scheduler->cos_min_ratio = number(v);
                  }});
}

void add_cycle_rows(std::vector<SchemaRow>& rows) {
  rows.push_back({.path = "scheduler.params.cycle_min_lr",
                  .type = Type::kNumbers,
                  .range = kFiniteFloat,
                  .of_types = {kOneCycle},
                  .about = "Rate at both ends of the cycle.",
                  .default_text = "required",
                  .set = [](Config& c, const Value& v) {
                    if (c.scheduler) c.scheduler->cycle_min_lr = pair(v);
                  }});
  rows.push_back({.path = "scheduler.params.cycle_max_lr",
                  .type = Type::kNumbers,
                  .range = kFiniteFloat,
                  .of_types = {kOneCycle},
                  .about = "Rate at the peak of the cycle.",
                  .default_text = "required",
                  .set = [](Config& c, const Value& v) {
                    if (c.scheduler) c.scheduler->cycle_max_lr = pair(v);
                  }});
  rows.push_back({.path = "scheduler.params.cycle_first_step_size",
                  .type = Type::kInteger,
                  .default_value = std::int64_t{2000},
                  .range = kPositive,
                  .of_types = {kOneCycle},
                  .about = "Updates from the minimum to the peak.",
                  .set = [](Config& c, const Value& v) {
                    if (c.scheduler) c.scheduler->cycle_first_step_size = integer(v);
                  }});
  rows.push_back({.path = "scheduler.params.cycle_second_step_size",
                  .type = Type::kInteger,
                  .range = kNotNegative,
                  .nullable = true,
                  .of_types = {kOneCycle},
                  .about = "Updates from the peak back to the minimum.",
                  .default_text = "as the first",
                  .set = [](Config& c, const Value& v) {
                    if (c.scheduler) c.scheduler->cycle_second_step_size = integer(v);
                  }});
  rows.push_back({.path = "scheduler.params.cycle_first_stair_count",
                  .type = Type::kInteger,
                  .default_value = std::int64_t{0},
                  .range = kNotNegative,
                  .of_types = {kOneCycle},
                  .about = "Stairs of the first half; 0: every update is one.",
                  .set = [](Config& c, const Value& v) {
                    if (c.scheduler) c.scheduler->cycle_first_stair_count = integer(v);
                  }});
  rows.push_back({.path = "scheduler.params.cycle_second_stair_count",
                  .type = Type::kInteger,
                  .range = kNotNegative,
                  .nullable = true,
                  .of_types = {kOneCycle},
                  .about = "Stairs of the second half; 0: every update is one.",
                  .default_text = "as the first",
                  .set = [](Config& c, const Value& v) {
                    if (c.scheduler) c.scheduler->cycle_second_stair_count = integer(v);
                  }});
  rows.push_back({.path = "scheduler.params.decay_step_size",
                  .type = Type::kInteger,
                  .default_value = std::int64_t{0},
                  .range = kNotNegative,
                  .of_types = {kOneCycle},
                  .about = "Updates per interval of the decay after the cycle; 0: no decay.",
                  .set = [](Config& c, const Value& v) {
                    if (c.scheduler) c.scheduler->decay_step_size = integer(v);
                  }});
  rows.push_back({.path = "scheduler.params.decay_lr_rate",
                  .type = Type::kNumber,
                  .default_value = 0.0,
                  .range = kFiniteFloat,
                  .of_types = {kOneCycle},
                  .about = "After i intervals the rate is cycle_min_lr / (1 + decay_lr_rate i).",
                  .set = [](Config& c, const Value& v) {
                    if (c.scheduler) c.scheduler->decay_lr_rate = number(v);
                  }});
  rows.push_back(
      {.path = "scheduler.params.cycle_momentum",
       .type = Type::kBoolean,
       .default_value = true,
       .of_types = {kOneCycle},
       .about = "Cycles beta1 against the rate, and sets beta2 to 0.99, as DeepSpeed does.",
       .set = [](Config& c, const Value& v) {
         if (c.scheduler) c.scheduler->cycle_momentum = boolean(v);
       }});
  rows.push_back({.path = "scheduler.params.cycle_min_mom",
                  .type = Type::kNumbers,
                  .default_value = std::vector<double>{0.8},
                  .range = {.low = 0, .high = 1, .below_high = true},
                  .of_types = {kOneCycle},
                  .about = "beta1 at the peak of the rate, and in the very first update.",
                  .set = [](Config& c, const Value& v) {
                    if (c.scheduler) c.scheduler->cycle_min_mom = pair(v);
                  }});
  rows.push_back({.path = "scheduler.params.cycle_max_mom",
                  .type = Type::kNumbers,
                  .default_value = std::vector<double>{0.9},
                  .range = {.low = 0, .high = 1, .below_high = true},
                  .of_types = {kOneCycle},
                  .about = "beta1 at the low ends of the rate.",
                  .set = [](Config& c, const Value& v) {
                    if (c.scheduler) c.scheduler->cycle_max_mom = pair(v);
                  }});
  rows.push_back({.path = "scheduler.params.decay_mom_rate",
                  .type = Type::kNumber,
                  .default_value = 0.0,
                  .range = {.low = -kFloatMax, .high = kFloatMax},
                  .of_types = {kOneCycle},
                  .about = "After i intervals beta1 is cycle_max_mom (1 + decay_mom_rate i); an "
                           "error where that leaves 0 to 1.",
                  .set = [](Config& c, const Value& v) {
                    if (c.scheduler) c.scheduler->decay_mom_rate = number(v);
                  }});
}

void add_range_test_rows(std::vector<SchemaRow>& rows) {
  rows.push_back({.path = "scheduler.params.lr_range_test_min_lr",
                  .type = Type::kNumbers,
                  .default_value = std::vector<double>{1e-3},
                  .range = kFiniteFloat,
                  .of_types = {kRangeTest},
                  .about = "Rate to start from.",
                  .set = [](Config& c, const Value& v) {
                    if (c.scheduler) c.scheduler->lr_range_test_min_lr = pair(v);
                  }});
  rows.push_back({.path = "scheduler.params.lr_range_test_step_size",
                  .type = Type::kInteger,
                  .default_value = std::int64_t{2000},
                  .range = kPositive,
                  .of_types = {kRangeTest},
                  .about = "Updates per interval.",
                  .set = [](Config& c, const Value& v) {
                    if (c.scheduler) c.scheduler->lr_range_test_step_size = integer(v);
                  }});
  rows.push_back(
      {.path = "scheduler.params.lr_range_test_step_rate",
       .type = Type::kNumber,
       .default_value = 1.0,
       .range = kFiniteFloat,
       .of_types = {kRangeTest},
       .about =
           "After i intervals the rate is lr_range_test_min_lr (1 + lr_range_test_step_rate i).",
       .set = [](Config& c, const Value& v) {
         if (c.scheduler) c.scheduler->lr_range_test_step_rate = number(v);
       }});
  rows.push_back({.path = "scheduler.params.lr_range_test_staircase",
                  .type = Type::kBoolean,
                  .default_value = false,
                  .of_types = {kRangeTest},
                  .about = "Whole intervals only.",
                  .set = [](Config& c, const Value& v) {
                    if (c.scheduler) c.scheduler->lr_range_test_staircase = boolean(v);
                  }});
}

}  // namespace

void add_scheduler_rows(std::vector<SchemaRow>& rows) {
  add_type_rows(rows);
  add_warmup_rows(rows);
  add_cycle_rows(rows);
  add_range_test_rows(rows);
}

}  // namespace zero::detail
