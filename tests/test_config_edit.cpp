// set(), merge() and load().
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/config_fixtures.hpp"

namespace zero {
namespace {

using config_test::parse;

template <class Change>
std::string refused(Config& config, Change change) {
  const std::string json = config.json();
  const auto warnings = config.warnings();
  const int stage = config.zero.stage;
  try {
    change();
  } catch (const ConfigError& error) {
    EXPECT_EQ(config.json(), json);
    EXPECT_EQ(config.warnings(), warnings);
    EXPECT_EQ(config.zero.stage, stage);
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

TEST(ConfigEdit, SetsValuesAsIfTheFileHadThem) {
  Config config = parse("{\"gradient_clipping\": 2}");
  config.set("zero_optimization.stage", "2");
  EXPECT_EQ(config.zero.stage, 2);
  config.set("zero_optimization.stage", "3");
  EXPECT_EQ(config.zero.stage, 3);
  EXPECT_TRUE(config.zero.overlaps());  // follows the stage again
  config.set("optimizer.type", "SGD");  // a word that is no JSON
  EXPECT_EQ(config.optimizer.kind, OptimizerKind::kSgd);
  config.set("optimizer.type", "\"AdamW\"");
  config.set("optimizer.params.betas", "[0.5, 0.25]");
  EXPECT_EQ(config.optimizer.beta2, 0.25);
  config.set("runtime", "{\"reproducible\": true}");
  EXPECT_TRUE(config.runtime.reproducible);
  EXPECT_EQ(config.gradient_clipping, 2.0);
  EXPECT_EQ(config.json(), parse(config.json()).json());
  EXPECT_CONTAINS(config.json(), "\"stage\": 3");
}

TEST(ConfigEdit, SetReplacesTheKeyUnderItsOtherName) {
  Config config = parse(
      "{\"zero_optimization\": {\"prefetch_bucket_size\": 5}, \"bfloat16\": {\"enabled\": true}}");
  config.set("zero_optimization.stage3_prefetch_bucket_size", "6");
  EXPECT_EQ(config.zero.prefetch_bucket_size, 6);
  config.set("bf16.enabled", "false");
  EXPECT_EQ(config.bf16_enabled, false);
  config.merge("{\"bf16\": {\"enabled\": true}}");
  EXPECT_EQ(config.bf16_enabled, true);
}

TEST(ConfigEdit, AllOtherNamesOfAKeyAreReplaced) {
  const Config both = parse(
      "{\"zero_optimization\": {\"stage\": 3, \"prefetch_bucket_size\": 5, "
      "\"stage3_prefetch_bucket_size\": 5}, \"bfloat16\": {\"enabled\": true}, "
      "\"bf16\": {\"enabled\": true}}");
  for (const char* name : {"stage3_prefetch_bucket_size", "prefetch_bucket_size"}) {
    Config config = both;
    config.set(std::string("zero_optimization.") + name, "6");
    EXPECT_EQ(config.zero.prefetch_bucket_size, 6) << name;
    config = both;
    config.merge(std::string("{\"zero_optimization\": {\"") + name + "\": 7}}");
    EXPECT_EQ(config.zero.prefetch_bucket_size, 7) << name;
    EXPECT_EQ(config.zero.stage, 3) << name;
  }
  for (const std::string section : {"bf16", "bfloat16"}) {
    Config config = both;
    config.set(section + ".enabled", "false");
    EXPECT_EQ(config.bf16_enabled, false) << section;
    config = both;
    config.set(section, "{\"enabled\": false}");
    EXPECT_EQ(config.bf16_enabled, false) << section;
    config = both;
    config.merge("{\"" + section + "\": {\"enabled\": false}}");
    EXPECT_EQ(config.bf16_enabled, false) << section;
    EXPECT_EQ(config_test::warns(config, "old name"), section == "bfloat16");
  }
  // set() replaces a whole section, merge() only what the patch gives.
  Config config = parse("{\"fp16\": {\"enabled\": true, \"hysteresis\": 5}}");
  config.set("fp16", "{\"enabled\": true}");
  EXPECT_EQ(config.loss_scale.hysteresis, 2);
}

TEST(ConfigEdit, APatchThatContradictsItselfIsRefusedAsAFileIs) {
  for (const std::string file :
       {"{}", "{\"zero_optimization\": {\"prefetch_bucket_size\": 3}}",
        "{\"zero_optimization\": {\"stage3_prefetch_bucket_size\": 3}}",
        "{\"bf16\": {\"enabled\": true}}", "{\"bfloat16\": {\"enabled\": true}}"}) {
    Config config = parse(file);
    const auto merge = [&](const char* patch) {
      return refused(config, [&] { config.merge(patch); });
    };
    EXPECT_CONTAINS(merge("{\"zero_optimization\": {\"prefetch_bucket_size\": 1, "
                          "\"stage3_prefetch_bucket_size\": 2}}"),
                    "contradicts");
    EXPECT_CONTAINS(merge("{\"zero_optimization\": {\"stage3_prefetch_bucket_size\": 2, "
                          "\"prefetch_bucket_size\": 1}}"),
                    "contradicts");
    EXPECT_CONTAINS(merge("{\"bf16\": {\"enabled\": true}, \"bfloat16\": {\"enabled\": false}}"),
                    "contradicts");
    EXPECT_CONTAINS(merge("{\"bfloat16\": {\"enabled\": false}, \"bf16\": {\"enabled\": true}}"),
                    "contradicts");
    EXPECT_CONTAINS(refused(config,
                            [&] {
                              config.set("zero_optimization",
                                         "{\"prefetch_bucket_size\": 1, "
                                         "\"stage3_prefetch_bucket_size\": 2}");
                            }),
                    "contradicts");
    config.merge("{\"bf16\": {\"enabled\": false}, \"bfloat16\": {\"enabled\": false}}");
    EXPECT_EQ(config.bf16_enabled, false);
  }
}

TEST(ConfigEdit, AMovedFromConfigIsStillOne) {
  Config config = parse("{\"zero_optimization\": {\"stage\": 1}, \"train_batch_size\": 8}");
  const Config taken = std::move(config);
  EXPECT_EQ(taken.zero.stage, 1);
  // NOLINTBEGIN(bugprone-use-after-move): that is what is tested.
  config.resolve_batch(2);
  EXPECT_EQ(config.micro_batch_size, 4);
  config.set("zero_optimization.stage", "2");
  EXPECT_EQ(config.zero.stage, 2);
  EXPECT_EQ(config.train_batch_size, 8);
  Config assigned;
  assigned = std::move(config);
  EXPECT_EQ(config.json(), assigned.json());
  config.merge("{\"zero_optimization\": {\"stage\": 3}}");
  EXPECT_EQ(config.zero.stage, 3);
  EXPECT_EQ(assigned.zero.stage, 2);
  // NOLINTEND(bugprone-use-after-move)
}

TEST(ConfigEdit, AMovedFromConfigKeepsItsFacts) {
  Facts facts;
  facts.warmup_min_lr = {0.5};
  Config config = Config::parse(R"({"optimizer": {"type": "Adam"}, "scheduler": {"type": "WarmupLR",
      "params": {"warmup_min_lr": "auto"}}})",
                                "file.json", facts);
  const Config taken = std::move(config);
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  config.set("gradient_clipping", "1");
  EXPECT_EQ(config.scheduler->warmup_min_lr, std::vector<double>{0.5});
}

TEST(ConfigEdit, ANumberBeyondADoubleIsTooLarge) {
  Config config;
  const std::string message = refused(config, [&] { config.set("optimizer.params.lr", "1e400"); });
  EXPECT_CONTAINS(message, "optimizer.params.lr");
  EXPECT_CONTAINS(message, "1e400 is too large");
  EXPECT_CONTAINS(refused(config, [&] { config.set("optimizer.params.betas", "[0.9, 1e400]"); }),
                  "1e400 is too large");
}

TEST(ConfigEdit, ABadSetIsRefusedAndChangesNothing) {
  Config config = parse("{\"zero_optimization\": {\"stage\": 1}}");
  const auto set = [&](const char* path, const char* value) {
    return refused(config, [&] { config.set(path, value); });
  };
  EXPECT_CONTAINS(set("zero_optimization.stage", "4"), "set(zero_optimization.stage):1:1");
  EXPECT_CONTAINS(set("zero_optimization.stge", "1"), "nearest is zero_optimization.stage");
  EXPECT_CONTAINS(set("zero_optimization.stage.x", "1"), "is not an object");
  EXPECT_CONTAINS(set("zero_optimization", "{bad"), "is not an object");
  for (const char* path : {"", ".", "a.", ".a", "a..b"}) {
    EXPECT_CONTAINS(set(path, "1"), "is no path") << path;
  }
  std::string deep = "_x";
  for (int i = 0; i < 100; ++i) deep += "._x";
  EXPECT_CONTAINS(set(deep.c_str(), "1"), "is no path");
  EXPECT_CONTAINS(set("fp16", "{\"enabled\": true, \"enabled\": true}"), "duplicate");
}

TEST(ConfigEdit, MergesObjectsDeeply) {
  Config config = parse(
      "{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 1, \"eps\": 0.5}}, "
      "\"gradient_clipping\": 0}");
  config.merge("{ // patch\n\"optimizer\": {\"params\": {\"lr\": 2}}, \"train_batch_size\": 8}");
  EXPECT_EQ(config.optimizer.lr, 2.0);
  EXPECT_EQ(config.optimizer.eps, 0.5);
  EXPECT_EQ(config.train_batch_size, 8);
  EXPECT_EQ(config.gradient_clipping, 0.0);
  config.merge("{\"train_batch_size\": null}");
  EXPECT_EQ(config.train_batch_size, std::nullopt);
  config.merge("{}");
  EXPECT_EQ(config.optimizer.lr, 2.0);
}

TEST(ConfigEdit, ABadMergeIsRefusedAndChangesNothing) {
  Config config = parse("{\"zero_optimization\": {\"stage\": 1}}");
  const auto merge = [&](const char* patch) {
    return refused(config, [&] { config.merge(patch); });
  };
  EXPECT_CONTAINS(merge("[1]"), "not a JSON object");
  EXPECT_CONTAINS(merge("{\"fp16\": {}, \"fp16\": {}}"), "duplicate");
  EXPECT_CONTAINS(merge("{"), "not JSON");
  EXPECT_CONTAINS(merge("{\"zero_optimization\": 1}"), "zero_optimization");
  // Each half is fine, together they are not.
  config.merge("{\"fp16\": {\"enabled\": true}}");
  EXPECT_CONTAINS(merge("{\"bf16\": {\"enabled\": true}}"), "bf16");
  // The old part is told by its own place.
  EXPECT_CONTAINS(merge("{\"stage\": 1}"), "merged JSON:1:2");
}

TEST(ConfigEdit, ACopyIsAValue) {
  Config config = parse("{\"zero_optimization\": {\"stage\": 1}}");
  Config copy = config;
  copy.set("zero_optimization.stage", "2");
  EXPECT_EQ(config.zero.stage, 1);
  EXPECT_EQ(config.json(), parse("{\"zero_optimization\": {\"stage\": 1}}").json());
}

TEST(ConfigEdit, WhatResolveBatchSettledIsLostBySet) {
  Config config = parse("{\"train_batch_size\": 8}");
  config.resolve_batch(2);
  EXPECT_EQ(config.micro_batch_size, 4);
  config.set("train_batch_size", "16");
  EXPECT_EQ(config.micro_batch_size, std::nullopt);
  config.resolve_batch(2);
  EXPECT_EQ(config.micro_batch_size, 8);
}

TEST(ConfigLoad, ErrorsNameTheFile) {
  const std::string folder = ::testing::TempDir();
  const auto load = [](const std::string& path) {
    try {
      Config::load(path);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_CONTAINS(load(folder + "no_such_file.json"), "no_such_file.json");
  EXPECT_CONTAINS(load(folder), "cannot be read");
  const std::string path = folder + "zero_test_config.json";
  std::ofstream(path) << "{\n  \"stge\": 1\n}\n";
  EXPECT_CONTAINS(load(path), path + ":2:3: stge: unknown key");
  std::ofstream(path) << std::string((std::size_t{16} << 20) + 1, ' ');
  EXPECT_CONTAINS(load(path), "longer than 16777216 bytes");
  std::ofstream(path) << "{\"gradient_clipping\": 3}";
  EXPECT_EQ(Config::load(path).gradient_clipping, 3.0);
  std::remove(path.c_str());
}

// The files that come with the library, with the values their names promise.
TEST(ConfigLoad, ReadyFiles) {
  const auto folder = std::filesystem::path(__FILE__).parent_path().parent_path() / "configs";
  const auto load = [&](const std::string& name) {
    Config config = Config::load((folder / (name + ".json")).string());
    EXPECT_TRUE(config.warnings().empty())
        << name << ": " << ::testing::PrintToString(config.warnings());
    EXPECT_EQ(config.optimizer.kind, OptimizerKind::kAdam) << name;
    EXPECT_TRUE(config.optimizer.decoupled_decay) << name;
    EXPECT_EQ(config.optimizer.lr, 3e-3) << name;
    EXPECT_EQ(config.optimizer.beta1, 0.9) << name;
    EXPECT_EQ(config.optimizer.beta2, 0.95) << name;
    EXPECT_EQ(config.optimizer.weight_decay, 0.1) << name;
    EXPECT_EQ(config.gradient_clipping, 1.0) << name;
    config.resolve_batch(2, 8);  // the caller brings the micro-batch
    EXPECT_EQ(config.train_batch_size, 16) << name;
    return config;
  };
  for (int stage = 0; stage <= 3; ++stage) {
    EXPECT_EQ(load("stage" + std::to_string(stage)).zero.stage, stage);
  }
  EXPECT_TRUE(load("budget").runtime.choose_stage);
  EXPECT_EQ(load("budget").runtime.memory_budget, std::int64_t{24} << 30);
  EXPECT_EQ(load("budget").runtime.reserved, std::int64_t{8} << 30);
  EXPECT_EQ(load("bf16").bf16_enabled, true);
  EXPECT_EQ(load("bf16").grad_accum_dtype, DType::kFloat32);
  EXPECT_EQ(load("fp16").fp16_enabled, true);
  EXPECT_EQ(load("fp16").loss_scale.loss_scale, 0.0);
  EXPECT_TRUE(load("reproducible").runtime.reproducible);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") ++files;
  }
  EXPECT_EQ(files, 8u) << "a file in configs/ without a check here";
}

}  // namespace
}  // namespace zero
