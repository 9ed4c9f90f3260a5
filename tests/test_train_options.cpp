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

TEST(TrainOptions, ProcessesAreTheRanks) {
  const auto ranks = [](std::vector<const char*> flags, int processes) {
    flags.insert(flags.begin(), {"zero-train", "--data", "text"});
    train::Options options;
    train::parse_command_line(static_cast<int>(flags.size()), flags.data(), options);
    train::take_ranks({zero::Launcher::kMpi, 0, processes}, options);
    return options.ranks;
  };
  EXPECT_EQ(ranks({}, 1), 2);
  EXPECT_EQ(ranks({"--ranks", "3"}, 1), 3);
  EXPECT_EQ(ranks({}, 4), 4);
  EXPECT_EQ(ranks({"--ranks", "4"}, 4), 4);
  EXPECT_THROW(ranks({"--ranks", "2"}, 4), zero::ConfigError);
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

TEST(TrainOptions, SetTakesAnyValueAndRefusesAMissingOne) {
  EXPECT_EQ(resolved({"--set", "gradient_clipping=0.25"}).config.gradient_clipping, 0.25);
  EXPECT_EQ(resolved({"--set", "zero_optimization.stage=1", "--set", "gradient_clipping=0"})
                .config.zero.stage,
            1);
  EXPECT_THROW(resolved({"--set", "gradient_clipping"}), zero::ConfigError);
  EXPECT_THROW(resolved({"--heads", "5"}), std::invalid_argument);
}

TEST(TrainOptions, FactsSettleAuto) {
  const std::string path = file_with(R"({"train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
    "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
    "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": "auto"}},
    "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}, "bf16": {"enabled": "auto"}})");
  const zero::Config config = resolved({"--config", path.c_str(), "--fact", "lr=0.25", "--fact",
                                        "clipping=2", "--accumulation", "3", "--micro-batch", "5",
                                        "--dtype", "bf16", "--steps", "77", "--width", "64"})
                                  .config;
  EXPECT_EQ(config.optimizer.lr, 0.25);
  EXPECT_EQ(config.gradient_clipping, 2);
  EXPECT_EQ(config.accumulation_steps, 3);
  EXPECT_EQ(config.micro_batch_size, 5);
  EXPECT_EQ(config.scheduler->total_num_steps, 77);
  EXPECT_EQ(config.zero.reduce_bucket_size, 64 * 64);
  EXPECT_EQ(config.bf16_enabled, true);
  EXPECT_THROW(resolved({"--config", path.c_str()}), zero::ConfigError);
}

TEST(TrainOptions, FactsAreHeardWithoutAFileToo) {
  EXPECT_THROW(resolved({"--fact", "nonsense=5"}), zero::ConfigError);
  EXPECT_THROW(resolved({"--fact", "lr"}), zero::ConfigError);
  EXPECT_THROW(resolved({"--fact", "lr=1", "--fact", "lr=2"}), zero::ConfigError);
  EXPECT_THROW(resolved({"--fact", "dtype=bf16", "--dtype", "fp32"}), zero::ConfigError);
  // The parameters' own type; loss scaling is the file's.
  EXPECT_EQ(resolved({"--fact", "dtype=fp16"}).dtype, zero::DType::kFloat16);
  EXPECT_EQ(resolved({"--fact", "dtype=fp16"}).config.fp16_enabled, false);
  const std::string off = file_with(R"({"fp16": {"enabled": false}})");
  EXPECT_EQ(resolved({"--config", off.c_str(), "--fact", "dtype=fp16"}).config.fp16_enabled, false);
  const auto warnings = resolved({"--fact", "lr=5"}).config.warnings();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].path, "optimizer.params.lr");
}

}  // namespace
