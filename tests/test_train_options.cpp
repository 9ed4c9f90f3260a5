// What follows from flags and file together.
#include <gtest/gtest.h>

#include <fstream>

#include "tools/train_options.hpp"
#include "zero/error.hpp"

namespace {

train::Setup resolved(std::vector<const char*> flags) {
  flags.insert(flags.begin(), {"zero-train", "--data", "text"});
  train::Options options;
  const auto code =
      train::parse_command_line(static_cast<int>(flags.size()), flags.data(), options);
  EXPECT_FALSE(code.has_value());
  return train::resolve(options);
}

std::string file_with(const std::string& text) {
  const std::string path = testing::TempDir() + "train_options.json";
  std::ofstream(path) << text;
  return path;
}

TEST(TrainOptions, DefaultsAreThoseOfStage2Json) {
  const train::Setup setup = resolved({});
  EXPECT_EQ(setup.config.zero.stage, 2);
  EXPECT_EQ(setup.config.optimizer.lr, 3e-3);
  EXPECT_EQ(setup.config.optimizer.beta2, 0.95);
  EXPECT_EQ(setup.config.gradient_clipping, 1.0);
  EXPECT_EQ(setup.config.accumulation_steps, 1);
  EXPECT_EQ(setup.shape.micro_batch, 16);
  EXPECT_EQ(setup.dtype, zero::DType::kFloat32);
}

TEST(TrainOptions, FlagsOverrideTheFile) {
  const std::string path = file_with(R"({"fp16": {"enabled": true},
    "zero_optimization": {"stage": 1}, "train_micro_batch_size_per_gpu": 3})");
  const char* config = path.c_str();
  EXPECT_EQ(resolved({"--config", config}).dtype, zero::DType::kFloat16);
  EXPECT_EQ(resolved({"--config", config}).shape.micro_batch, 3);
  EXPECT_EQ(resolved({"--config", config, "--stage", "3"}).config.zero.stage, 3);
  EXPECT_EQ(resolved({"--config", config, "--micro-batch", "5"}).shape.micro_batch, 5);
  for (const auto& [flag, dtype] :
       {std::pair{"bf16", zero::DType::kBFloat16}, std::pair{"fp32", zero::DType::kFloat32}}) {
    const train::Setup setup = resolved({"--config", config, "--dtype", flag});
    EXPECT_EQ(setup.dtype, dtype);
    EXPECT_EQ(setup.config.fp16_enabled, false);
    EXPECT_EQ(setup.config.bf16_enabled, dtype == zero::DType::kBFloat16);
  }
}

TEST(TrainOptions, ASetThatAsksForAnotherDtypeIsRefusedUnderAnyName) {
  const auto contradicts = [](const char* dtype, const char* assignment, const char* config) {
    try {
      std::vector<const char*> flags = {"--dtype", dtype, "--set", assignment};
      if (config != nullptr) flags.insert(flags.end(), {"--config", config});
      resolved(flags);
    } catch (const zero::ConfigError& error) {
      return std::string(error.what()) ==
             std::string("--set ") + assignment + " contradicts --dtype " + dtype;
    }
    return false;
  };
  const std::string path = file_with(R"({"bf16": {"enabled": true}, "gradient_clipping": 1})");
  for (const char* config : {static_cast<const char*>(nullptr), path.c_str()}) {
    EXPECT_TRUE(contradicts("fp32", "bfloat16.enabled=true", config));
    EXPECT_TRUE(contradicts("fp32", "bf16.enabled=true", config));
    EXPECT_TRUE(contradicts("fp16", "bfloat16={\"enabled\": true}", config));
    EXPECT_TRUE(contradicts("fp32", "fp16={\"enabled\": true}", config));
    EXPECT_TRUE(contradicts("bf16", "fp16.enabled=true", config));
    EXPECT_TRUE(contradicts("bf16", "bf16.enabled=false", config));
    EXPECT_FALSE(contradicts("bf16", "bf16.enabled=true", config));
    EXPECT_FALSE(contradicts("bf16", "fp16.enabled=false", config));
    EXPECT_FALSE(contradicts("fp32", "bfloat16.enabled=false", config));
    EXPECT_FALSE(contradicts("fp32", "gradient_clipping=2", config));
    EXPECT_FALSE(contradicts("fp16", "fp16={\"loss_scale\": 128}", config));
  }
  const train::Setup setup = resolved(
      {"--config", path.c_str(), "--dtype", "fp16", "--set", "fp16={\"loss_scale\": 128}"});
  EXPECT_EQ(setup.dtype, zero::DType::kFloat16);
  EXPECT_EQ(setup.config.loss_scale.loss_scale, 128.0);
}

TEST(TrainOptions, TheBatchTripleIsSettled) {
  const std::string path = file_with(R"({"train_batch_size": 24})");
  const train::Setup total = resolved({"--config", path.c_str(), "--ranks", "3"});
  EXPECT_EQ(total.shape.micro_batch, 8);
  EXPECT_EQ(total.config.accumulation_steps, 1);
  const train::Setup both =
      resolved({"--config", path.c_str(), "--ranks", "3", "--micro-batch", "2"});
  EXPECT_EQ(both.config.accumulation_steps, 4);
  EXPECT_EQ(resolved({"--ranks", "4", "--accumulation", "3"}).config.train_batch_size, 192);
  EXPECT_THROW(resolved({"--config", path.c_str(), "--ranks", "5"}), zero::ConfigError);
}

// Written as a file, read again, and compared field by field.
TEST(TrainOptions, TheSettingsInForceAreThoseOfTheConfig) {
  for (const std::string& text :
       {std::string("{}"), std::string(R"({"train_batch_size": 64, "gradient_accumulation_steps": 4,
          "gradient_clipping": 0.1, "optimizer": {"type": "AdamW", "params": {"lr": 0.3,
          "betas": [0.8, 0.7], "eps": 1e-5, "weight_decay": 0.2, "bias_correction": false}},
          "fp16": {"enabled": true, "loss_scale": 2, "initial_scale_power": 3, "hysteresis": 4,
          "loss_scale_window": 5, "consecutive_hysteresis": true, "min_loss_scale": 0.5},
          "data_types": {"grad_accum_dtype": "fp32"}, "zero_optimization": {"stage": 3,
          "reduce_bucket_size": 6, "allgather_bucket_size": 7, "overlap_comm": false,
          "stage3_prefetch_bucket_size": 8, "stage3_param_persistence_threshold": 9,
          "stage3_model_persistence_threshold": 10}, "runtime": {"timeout_s": 11.5,
          "reserved": "12kB", "memory_budget": "13MB", "reproducible": true}})"),
        std::string(R"({"optimizer": {"type": "Adam", "params": {"adam_w_mode": false}},
          "bf16": {"enabled": true}, "runtime": {"memory_budget": 14, "choose_stage": true}})"),
        std::string(R"({"optimizer": {"type": "Adam"}, "scheduler": {"type": "WarmupDecayLR",
          "params": {"total_num_steps": 9, "warmup_min_lr": 0.25, "warmup_max_lr": [0.5, 0.75],
          "warmup_num_steps": 3, "warmup_type": "linear"}}})"),
        std::string(R"({"optimizer": {"type": "Adam"}, "scheduler": {"type": "WarmupLR"}})"),
        std::string(R"({"optimizer": {"type": "Adam"}, "scheduler": {"type": "WarmupCosineLR",
          "params": {"total_num_steps": 9, "warmup_min_ratio": 0.5, "cos_min_ratio": 0.25}}})"),
        std::string(R"({"optimizer": {"type": "Adam"}, "scheduler": {"type": "OneCycle", "params": {
          "cycle_min_lr": 1, "cycle_max_lr": [2, 3], "cycle_first_step_size": 4,
          "cycle_second_step_size": 5, "cycle_first_stair_count": 6, "cycle_second_stair_count": 7,
          "decay_step_size": 8, "decay_lr_rate": 9, "cycle_momentum": true, "cycle_min_mom": 0.1,
          "cycle_max_mom": 0.2, "decay_mom_rate": 0.3}}})"),
        std::string(R"({"optimizer": {"type": "Adam"}, "scheduler": {"type": "LRRangeTest",
          "params": {"lr_range_test_min_lr": 0.5, "lr_range_test_step_size": 2,
          "lr_range_test_step_rate": 3, "lr_range_test_staircase": true}}})"),
        std::string(R"({"optimizer": {"type": "SGD", "params": {"weight_decay": 0.5}},
          "zero_optimization": {"stage": 3}})")}) {
    const std::string path = file_with(text);
    const zero::Config a = resolved({"--config", path.c_str(), "--ranks", "4"}).config;
    const std::string written = train::settings_in_force(a);
    const zero::Config b = zero::Config::parse(written);
    EXPECT_EQ(a.train_batch_size, b.train_batch_size) << written;
    EXPECT_EQ(a.micro_batch_size, b.micro_batch_size);
    EXPECT_EQ(a.accumulation_steps, b.accumulation_steps);
    EXPECT_EQ(a.gradient_clipping, b.gradient_clipping);
    EXPECT_EQ(a.scheduler, b.scheduler);
    EXPECT_EQ(a.optimizer.kind, b.optimizer.kind);
    EXPECT_EQ(a.optimizer.decoupled_decay, b.optimizer.decoupled_decay);
    EXPECT_EQ(a.optimizer.bias_correction, b.optimizer.bias_correction);
    EXPECT_EQ(a.optimizer.lr, b.optimizer.lr);
    EXPECT_EQ(a.optimizer.beta1, b.optimizer.beta1);
    EXPECT_EQ(a.optimizer.beta2, b.optimizer.beta2);
    EXPECT_EQ(a.optimizer.eps, b.optimizer.eps);
    EXPECT_EQ(a.optimizer.weight_decay, b.optimizer.weight_decay);
    EXPECT_EQ(a.fp16_enabled.value_or(false), b.fp16_enabled);
    EXPECT_EQ(a.bf16_enabled.value_or(false), b.bf16_enabled);
    EXPECT_EQ(a.grad_accum_dtype, b.grad_accum_dtype);
    EXPECT_EQ(a.loss_scale.loss_scale, b.loss_scale.loss_scale);
    EXPECT_EQ(a.loss_scale.initial_scale_power, b.loss_scale.initial_scale_power);
    EXPECT_EQ(a.loss_scale.loss_scale_window, b.loss_scale.loss_scale_window);
    EXPECT_EQ(a.loss_scale.hysteresis, b.loss_scale.hysteresis);
    EXPECT_EQ(a.loss_scale.consecutive_hysteresis, b.loss_scale.consecutive_hysteresis);
    EXPECT_EQ(a.loss_scale.min_loss_scale, b.loss_scale.min_loss_scale);
    EXPECT_EQ(a.zero.stage, b.zero.stage);
    EXPECT_EQ(a.zero.reduce_bucket_size, b.zero.reduce_bucket_size);
    EXPECT_EQ(a.zero.allgather_bucket_size, b.zero.allgather_bucket_size);
    EXPECT_EQ(a.zero.overlaps(), b.zero.overlap_comm);
    EXPECT_EQ(a.zero.prefetch_bucket_size, b.zero.prefetch_bucket_size);
    EXPECT_EQ(a.zero.param_persistence_threshold, b.zero.param_persistence_threshold);
    EXPECT_EQ(a.zero.model_persistence_threshold, b.zero.model_persistence_threshold);
    EXPECT_EQ(a.runtime.reproducible, b.runtime.reproducible);
    EXPECT_EQ(a.runtime.timeout_s.value_or(300), b.runtime.timeout_s);
    EXPECT_EQ(a.runtime.memory_budget, b.runtime.memory_budget);
    EXPECT_EQ(a.runtime.reserved, b.runtime.reserved);
    EXPECT_EQ(a.runtime.choose_stage, b.runtime.choose_stage);
  }
}

TEST(TrainOptions, SetTakesAnyValueAndRefusesAMissingOne) {
  EXPECT_EQ(resolved({"--set", "gradient_clipping=0.25"}).config.gradient_clipping, 0.25);
  EXPECT_EQ(resolved({"--set", "zero_optimization.stage=1", "--set", "gradient_clipping=0"})
                .config.zero.stage,
            1);
  EXPECT_THROW(resolved({"--set", "gradient_clipping"}), zero::ConfigError);
  EXPECT_THROW(resolved({"--heads", "5"}), std::invalid_argument);
}

}  // namespace
