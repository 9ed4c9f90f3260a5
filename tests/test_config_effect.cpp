// Walks the schema: what every key that acts does to a training. A key of class `result` changes
// the weights or is refused, one of speed and memory changes bytes or messages and not one bit of
// the weights, and no key is read and then ignored. A row without a probe fails.
//
// Keys that do not act are looked at in test_config_schema.cpp: of class `result`, they are refused
// where they are not at their default.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "src/config_schema.hpp"
#include "tests/effect_model.hpp"
#include "zero/error.hpp"

namespace zero {
namespace {

using detail::config_schema;
using detail::Effect;
using detail::SchemaRow;
using test::Effects;
using Texts = std::vector<std::string>;

constexpr DType kF32 = DType::kFloat32, kF16 = DType::kFloat16, kBf16 = DType::kBFloat16;

// One key in one surrounding, or in several: each value in each base with each type of parameters,
// against the base as it stands.
struct Probe {
  std::string path;
  Texts values;
  Texts bases = {"{}"};
  std::vector<DType> dtypes = {kF32};
  std::vector<int> loudness = {};  // see EffectModel
  std::string refusal = {};        // part of the message, where the values are refused
};

const char* const kCommon = R"({
    "train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.015625, "weight_decay": 0.125}},
    "zero_optimization": {"stage3_param_persistence_threshold": 0}})";

const char* const kTwoMicroSteps = R"({"gradient_accumulation_steps": 2})";
const char* const kAdamW = R"({"optimizer": {"type": "AdamW"}})";
const char* const kAdam = R"({"optimizer": {"type": "Adam"}})";
const char* const kL2 = R"({"optimizer": {"type": "Adam", "params": {"adam_w_mode": false}}})";
const char* const kSgd = R"({"optimizer": {"type": "SGD"}})";

const char* const kWarmup =
    R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 4}}})";
const char* const kDecay = R"({"scheduler": {"type": "WarmupDecayLR", "params": {
    "warmup_num_steps": 4, "total_num_steps": 7}}})";
const char* const kCosine = R"({"scheduler": {"type": "WarmupCosineLR", "params": {
    "warmup_num_steps": 4, "total_num_steps": 7}}})";
// Three updates up, three down, and two that decay.
const char* const kOneCycle = R"({"scheduler": {"type": "OneCycle", "params": {
    "cycle_min_lr": 0.01, "cycle_max_lr": 0.1, "cycle_first_step_size": 3,
    "decay_step_size": 1, "decay_lr_rate": 0.5}}})";
const char* const kRangeTest = R"({"scheduler": {"type": "LRRangeTest", "params": {
    "lr_range_test_step_size": 3}}})";
// The parameters of a schedule that only lacks its type.
const char* const kUntypedDecay = R"({"scheduler": {"params": {"total_num_steps": 7}}})";
const char* const kUntypedCycle =
    R"({"scheduler": {"params": {"cycle_min_lr": 0.01, "cycle_max_lr": 0.1}}})";

// Gradients of loudness 0 fit fp16 at scale 2^15, and are infinite at 2^16.
const char* const kScale15 = R"({"fp16": {"enabled": true, "initial_scale_power": 15}})";
const char* const kScale16 = R"({"fp16": {"enabled": true, "initial_scale_power": 16}})";
const char* const kNoHysteresis =
    R"({"fp16": {"enabled": true, "initial_scale_power": 15, "hysteresis": 1}})";
constexpr int kInfinite = 20;

Texts stages(int from, const std::string& more = "") {
  Texts bases;
  for (int stage = from; stage <= 3; ++stage) {
    bases.push_back(R"({"zero_optimization": {"stage": )" + std::to_string(stage) +
                    (more.empty() ? "" : ", " + more) + R"(}, "gradient_accumulation_steps": 2})");
  }
  return bases;
}

std::vector<Probe> batch_probes() {
  return {
      {"train_batch_size", {"4", "8"}},
      {"train_micro_batch_size_per_gpu", {"1", "4"}, {R"({"train_batch_size": 8,
          "train_micro_batch_size_per_gpu": 2})"}},
      {"gradient_accumulation_steps", {"2", "4"}},
      {"managed_gradient_accumulation", {"false"}, {kTwoMicroSteps}},
      {"gradient_clipping", {"0", "0.5"}, {kAdamW, kSgd}},
      {.path = "communication_data_type",
       .values = {"bf16", "fp16"},
       .refusal = "communication_data_type"},
      {.path = "communication_data_type",
       .values = {"fp16"},
       .dtypes = {kBf16},
       .refusal = "communication_data_type"},
      {"data_types.grad_accum_dtype", {"fp32"}, {kTwoMicroSteps}, {kBf16, kF16}},
      {.path = "data_types.grad_accum_dtype",
       .values = {"bf16", "fp16"},
       .bases = {kTwoMicroSteps},
       .refusal = "data_types.grad_accum_dtype"},
      {"runtime.reproducible", {"true"}, {kTwoMicroSteps}},
  };
}

std::vector<Probe> optimizer_probes() {
  const Texts adam = {kAdamW, kAdam, kL2};
  return {
      {"optimizer.type", {"SGD"}},
      {"optimizer.params.lr", {"0", "0.25"}, {kAdamW, kAdam, kL2, kSgd}},
      {"optimizer.params.betas", {"[0.5, 0.999]", "[0.9, 0.5]"}, adam},
      {"optimizer.params.eps", {"1e-3"}, adam},
      {"optimizer.params.weight_decay", {"0", "0.5"}, {kAdamW, kAdam, kL2, kSgd}},
      {"optimizer.params.bias_correction", {"false"}, adam},
      {"optimizer.params.adam_w_mode", {"false"}, {kAdam}},
      {"optimizer.params.adam_w_mode", {"true"}, {kL2}},
      // AdamW is another name of that.
      {.path = "optimizer.params.adam_w_mode",
       .values = {"false"},
       .bases = {kAdamW},
       .refusal = "optimizer.params.adam_w_mode"},
  };
}

std::vector<Probe> scheduler_probes() {
  const Texts warmups = {kWarmup, kDecay, kCosine};
  return {
      {"scheduler.type", {"WarmupLR", "LRRangeTest"}},
      {"scheduler.type", {"WarmupDecayLR", "WarmupCosineLR"}, {kUntypedDecay}},
      {"scheduler.type", {"OneCycle"}, {kUntypedCycle}},
      {"scheduler.params.warmup_min_lr", {"0.001", "[0, 0.001]"}, {kWarmup, kDecay}},
      {"scheduler.params.warmup_max_lr", {"0.5", "[0.015625, 0.5]"}, {kWarmup, kDecay}},
      {"scheduler.params.warmup_num_steps", {"0", "3"}, warmups},
      {"scheduler.params.warmup_type", {"linear"}, warmups},
      {"scheduler.params.total_num_steps", {"6", "12"}, {kDecay, kCosine}},
      {"scheduler.params.warmup_min_ratio", {"0.5", "[0, 0.5]"}, {kCosine}},
      {"scheduler.params.cos_min_ratio", {"0", "0.5"}, {kCosine}},
      {"scheduler.params.cycle_min_lr", {"0.02", "[0.01, 0.02]"}, {kOneCycle}},
      {"scheduler.params.cycle_max_lr", {"0.2", "[0.1, 0.2]"}, {kOneCycle}},
      {"scheduler.params.cycle_first_step_size", {"2", "4"}, {kOneCycle}},
      {"scheduler.params.cycle_second_step_size", {"0", "2"}, {kOneCycle}},
      {"scheduler.params.cycle_first_stair_count", {"1", "2"}, {kOneCycle}},
      {"scheduler.params.cycle_second_stair_count", {"1", "2"}, {kOneCycle}},
      {"scheduler.params.decay_step_size", {"0", "2"}, {kOneCycle}},
      {"scheduler.params.decay_lr_rate", {"0", "1"}, {kOneCycle}},
      {"scheduler.params.cycle_momentum", {"false"}, {kOneCycle}},
      {"scheduler.params.cycle_min_mom", {"0.5", "[0.8, 0.5]"}, {kOneCycle}},
      {"scheduler.params.cycle_max_mom", {"0.95", "[0.9, 0.95]"}, {kOneCycle}},
      {"scheduler.params.decay_mom_rate", {"0.01", "-0.5"}, {kOneCycle}},
      {"scheduler.params.lr_range_test_min_lr", {"0.5", "[0.001, 0.5]"}, {kRangeTest}},
      {"scheduler.params.lr_range_test_step_size", {"1", "4"}, {kRangeTest}},
      {"scheduler.params.lr_range_test_step_rate", {"0", "2"}, {kRangeTest}},
      {"scheduler.params.lr_range_test_staircase", {"true"}, {kRangeTest}},
  };
}

std::vector<Probe> precision_probes() {
  return {
      {"fp16.enabled", {"true"}, {"{}"}, {kF16}},
      {.path = "fp16.enabled",
       .values = {"true"},
       .dtypes = {kF32, kBf16},
       .refusal = "fp16.enabled"},
      {.path = "bf16.enabled",
       .values = {"true"},
       .dtypes = {kF32, kF16},
       .refusal = "bf16.enabled"},
      // The second starts as the dynamic one, but never falls.
      {"fp16.loss_scale", {"65536", "32768"}, {kNoHysteresis}, {kF16}, {kInfinite, 1}},
      {"fp16.initial_scale_power", {"16", "20"}, {kScale15}, {kF16}},
      // After window + 1 clean steps the scale doubles, and the next step overflows.
      {"fp16.loss_scale_window", {"1", "4"}, {kScale15}, {kF16}},
      {"fp16.hysteresis", {"1", "3"}, {kScale16}, {kF16}},
      // Two overflows with a clean step between halve the scale or not; the last step shows it.
      {"fp16.consecutive_hysteresis", {"true"}, {kScale15}, {kF16}, {kInfinite, 0, kInfinite, 1}},
      // The run ends at the first overflow, at the second, or goes on with a higher scale.
      {"fp16.min_loss_scale",
       {"32768", "16384", "24576"},
       {kNoHysteresis},
       {kF16},
       {kInfinite, kInfinite}},
  };
}

std::vector<Probe> sharding_probes() {
  const std::string whole = R"("stage3_param_persistence_threshold": 100000)";
  const std::vector<DType> both = {kF32, kBf16};
  return {
      {"zero_optimization.stage", {"1", "2", "3"}, {"{}"}, both},
      {"zero_optimization.stage", {"1", "2", "3"}, {kScale16}, {kF16}, {0, 0, 0, kInfinite}},
      {"zero_optimization.stage",
       {"1", "2", "3"},
       {R"({"gradient_accumulation_steps": 2,
          "runtime": {"reproducible": true}})"},
       both},
      {"zero_optimization.reduce_bucket_size", {"1", "7", "64", "1000000"}, stages(0), both},
      {"zero_optimization.allgather_bucket_size", {"1", "7", "64", "1000000"}, stages(0), both},
      {"zero_optimization.overlap_comm", {"false", "true"}, stages(0), both},
      {"zero_optimization.stage3_prefetch_bucket_size", {"0", "20", "64"}, stages(3), both},
      {"zero_optimization.stage3_param_persistence_threshold",
       {"1", "20", "100000"},
       stages(3),
       both},
      {"zero_optimization.stage3_model_persistence_threshold", {"0", "50"}, stages(3, whole), both},
  };
}

std::vector<Probe> runtime_probes() {
  const char* const roomy = R"({"runtime": {"memory_budget": "1 GiB"}})";
  return {
      // Ranks that are threads have no NCCL; what it does with one: tests/test_nccl.cpp.
      {.path = "runtime.nccl_reduction",
       .values = {"true"},
       .bases = {"{}", R"({"runtime": {"reproducible": true}})"},
       .refusal = "runtime.nccl_reduction"},
      {"runtime.timeout_s", {"60", "1e8"}},
      {"runtime.memory_budget", {"1 GiB", "1 MB"}},
      {.path = "runtime.memory_budget", .values = {"100 B"}, .refusal = "runtime.memory_budget"},
      {"runtime.reserved", {"1 kB", "512 MiB"}, {roomy}},
      {.path = "runtime.reserved",
       .values = {"1073741823"},
       .bases = {roomy},
       .refusal = "1073741823 of them runtime.reserved"},
      {"runtime.choose_stage", {"true"}, {roomy, R"({"zero_optimization": {"stage": 3},
          "runtime": {"memory_budget": "1 GiB"}})"}},
  };
}

std::vector<Probe> all_probes() {
  std::vector<Probe> all;
  for (const auto& some : {batch_probes(), optimizer_probes(), scheduler_probes(),
                           precision_probes(), sharding_probes(), runtime_probes()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

Config config_of(const std::string& base) {
  Config config = Config::parse(kCommon);
  config.merge(base);
  return config;
}

Effects train_with(Config config, const Probe& probe, const std::string& value, DType dtype) {
  Effects effects;
  try {
    config.set(probe.path, value);
  } catch (const ConfigError& error) {
    effects.refusal = error.what();
    return effects;
  }
  return test::train(config, dtype, probe.loudness);
}

// Adds to `shown` the paths of speed and memory whose change could be seen in bytes or messages.
void check(const Probe& probe, const std::string& base, DType dtype, std::set<std::string>& shown) {
  const SchemaRow& row = config_schema()[detail::row_index(probe.path)];
  const Config config = config_of(base);
  const Effects before = test::train(config, dtype, probe.loudness);
  ASSERT_EQ(before.refusal, "");
  ASSERT_EQ(before.ended_by, "");
  ASSERT_GE(before.applied, 2);
  for (const std::string& value : probe.values) {
    SCOPED_TRACE(probe.path + ": " + value);
    const Effects after = train_with(config, probe, value, dtype);
    EXPECT_EQ(after.refusal.empty(), probe.refusal.empty()) << after.refusal;
    if (!after.refusal.empty()) {
      EXPECT_NE(after.refusal.find(probe.refusal), after.refusal.npos) << after.refusal;
      shown.insert(probe.path);
      continue;
    }
    if (row.effect == Effect::kResult) {
      EXPECT_FALSE(test::same_result(before, after)) << "the key has no effect";
      continue;
    }
    EXPECT_TRUE(test::same_result(before, after)) << "the key has an effect on the result";
    EXPECT_TRUE(test::same_bits(before.norms, after.norms));
    if (before.ledger != after.ledger || before.traffic != after.traffic) shown.insert(probe.path);
  }
}

TEST(ConfigEffect, EveryKeyDoesWhatItsClassSays) {
  std::set<std::string> shown;
  for (const Probe& probe : all_probes()) {
    for (const std::string& base : probe.bases) {
      for (const DType dtype : probe.dtypes) {
        SCOPED_TRACE(base + " with parameters of " + std::string(dtype_name(dtype)));
        check(probe, base, dtype, shown);
      }
    }
  }
  for (const SchemaRow& row : config_schema()) {
    if (!is_value(row) || row.policy != detail::Policy::kActs) continue;
    if (row.effect != Effect::kSpeedOrMemory) continue;
    EXPECT_TRUE(shown.contains(row.path)) << row.path << " has no effect at all";
  }
}

// Also under every type that it belongs to.
TEST(ConfigEffect, EveryKeyThatActsHasAProbe) {
  std::map<std::string, std::set<std::string>> probed;  // types of optimizer and schedule
  for (const Probe& probe : all_probes()) {
    std::set<std::string>& types = probed[probe.path];
    for (const std::string& base : probe.bases) {
      for (const EffectiveValue& value : config_of(base).effective()) {
        if (value.path == "optimizer.type" || value.path == "scheduler.type") {
          types.insert(value.value);
        }
      }
    }
  }
  for (const SchemaRow& row : config_schema()) {
    const bool acts = is_value(row) && row.policy == detail::Policy::kActs;
    EXPECT_EQ(probed.contains(row.path), acts) << row.path;
    for (const std::string& type : row.of_types) {
      if (!acts) break;
      EXPECT_TRUE(probed[row.path].contains("\"" + type + "\"")) << row.path << " of " << type;
    }
    probed.erase(row.path);
  }
  for (const auto& [path, types] : probed) ADD_FAILURE() << "no such key: " << path;
}

}  // namespace
}  // namespace zero
