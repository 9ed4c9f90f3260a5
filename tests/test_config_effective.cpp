// The effective configuration: what is in force, where it comes from, and that it means the same.
#include "tests/config_fixtures.hpp"

namespace zero {
namespace {

using config_test::effective;
using config_test::parse;

std::vector<std::string> lines(const Config& config) {
  std::vector<std::string> all;
  for (const EffectiveValue& value : config.effective())
    all.push_back(value.path + " " + value.value);
  return all;
}

TEST(ConfigEffective, WrittenOutItMeansTheSame) {
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
    SCOPED_TRACE(text);
    Facts facts;
    facts.world_size = 4;
    facts.micro_batch = 2;
    const Config a = Config::parse(text, "a.json", facts);
    const Config b = Config::parse(a.explained(), "b.json");
    EXPECT_EQ(lines(a), lines(b)) << a.explained();
    EXPECT_EQ(a.scheduler, b.scheduler);
    EXPECT_EQ(b.explained(), Config::parse(b.explained(), "b.json").explained());
  }
}

TEST(ConfigEffective, SaysWhereAValueComesFrom) {
  Facts facts;
  facts.lr = 0.5;
  Config config = Config::parse(R"({"optimizer": {"type": "Adam", "params": {"lr": "auto"}},
 "zero_optimization": {"prefetch_bucket_size": 5e6, "overlap_comm": null},
 "train_batch_size": 12})",
                                "some.json", facts);
  EXPECT_EQ(effective(config, "optimizer.params.lr").origin, "fact lr");
  EXPECT_EQ(effective(config, "zero_optimization.stage3_prefetch_bucket_size").origin,
            "some.json:2:24");
  EXPECT_EQ(effective(config, "zero_optimization.stage3_prefetch_bucket_size").value, "5000000");
  EXPECT_EQ(effective(config, "zero_optimization.overlap_comm").origin, "default");
  EXPECT_EQ(effective(config, "gradient_clipping").origin, "default");
  EXPECT_EQ(effective(config, "train_micro_batch_size_per_gpu").value, "null");
  config.resolve_batch(3);
  EXPECT_EQ(effective(config, "train_batch_size").origin, "some.json:3:2");
  EXPECT_EQ(effective(config, "train_micro_batch_size_per_gpu").value, "4");
  EXPECT_EQ(effective(config, "train_micro_batch_size_per_gpu").origin,
            "follows from the batch sizes");
  EXPECT_EQ(effective(config, "gradient_accumulation_steps").origin, "default");
  config.set("gradient_clipping", "2");
  EXPECT_EQ(effective(config, "gradient_clipping").origin, "set(gradient_clipping)");
  config.zero.stage = 3;
  EXPECT_EQ(effective(config, "zero_optimization.stage").origin, "set by the program");
  EXPECT_EQ(effective(config, "zero_optimization.stage").value, "3");
}

TEST(ConfigEffective, ValuesThatTheProgramSetSayItToTheEnd) {
  Config config = parse(R"({"train_micro_batch_size_per_gpu": 2})");
  config.micro_batch_size = 4;
  config.accumulation_steps = 8;
  config.resolve_batch(2);
  EXPECT_EQ(effective(config, "train_micro_batch_size_per_gpu").value, "4");
  EXPECT_EQ(effective(config, "train_micro_batch_size_per_gpu").origin, "set by the program");
  EXPECT_EQ(effective(config, "gradient_accumulation_steps").origin, "set by the program");
}

// Of a stage that is still to be chosen nobody knows whether it overlaps.
TEST(ConfigEffective, OverlapStaysOpenWithTheStage) {
  const std::string choose = R"({"runtime": {"memory_budget": 1000, "choose_stage": true})";
  EXPECT_EQ(effective(parse(choose + "}"), "zero_optimization.overlap_comm").value, "null");
  Config again = parse(parse(choose + "}").explained());
  again.zero.stage = 3;
  EXPECT_TRUE(again.zero.overlaps());
  const Config fixed = parse(choose + R"(, "zero_optimization": {"overlap_comm": false}})");
  EXPECT_EQ(effective(fixed, "zero_optimization.overlap_comm").value, "false");
  Config stage3 = parse("{}");
  stage3.zero.stage = 3;
  EXPECT_EQ(effective(stage3, "zero_optimization.overlap_comm").value, "true");
  EXPECT_EQ(effective(stage3, "zero_optimization.overlap_comm").origin, "default");
}

TEST(ConfigEffective, WhatAnotherKeyRulesOutSaysSo) {
  const Config sgd = parse(R"({"optimizer": {"type": "SGD"}, "scheduler": {"type": "OneCycle",
      "params": {"cycle_min_lr": 1, "cycle_max_lr": 2, "cycle_momentum": true}}})");
  EXPECT_EQ(effective(sgd, "scheduler.params.cycle_momentum").value, "false");
  EXPECT_EQ(effective(sgd, "scheduler.params.cycle_momentum").origin, "optimizer.type SGD");
}

TEST(ConfigEffective, HasWhatTheTypesTakeAndNothingElse) {
  const Config sgd = parse(R"({"optimizer": {"type": "SGD"}})");
  EXPECT_EQ(effective(sgd, "optimizer.params.betas").value, "(not there)");
  EXPECT_EQ(effective(sgd, "optimizer.params.momentum").value, "0");
  EXPECT_EQ(effective(sgd, "scheduler.type").value, "null");
  EXPECT_EQ(effective(sgd, "scheduler.params.warmup_num_steps").value, "(not there)");
  const Config l2 = parse(R"({"optimizer": {"type": "Adam", "params": {"adam_w_mode": false}},
                "scheduler": {"type": "LRRangeTest"}})");
  EXPECT_EQ(effective(l2, "optimizer.type").value, "\"Adam\"");
  EXPECT_EQ(effective(l2, "scheduler.params.lr_range_test_step_size").value, "2000");
  EXPECT_EQ(effective(l2, "scheduler.params.warmup_num_steps").value, "(not there)");
}

TEST(ConfigEffective, AnOriginCannotLeaveItsComment) {
  const Config config = Config::parse("{\"gradient_clipping\": 2}", "a\n\"b\": 1, //.json");
  EXPECT_EQ(lines(Config::parse(config.explained())), lines(config)) << config.explained();
}

// Every value has a row of its own, and every section one table.
TEST(ConfigReference, HasEveryEffectiveKeyOnce) {
  const std::string page = config_reference();
  for (const EffectiveValue& value : Config().effective()) {
    const std::string cell = "| `" + value.path + "`";
    const auto at = page.find(cell);
    EXPECT_NE(at, page.npos) << value.path;
    EXPECT_EQ(page.find(cell + " ", at + 1), page.npos) << value.path;
  }
  for (const char* part : {"## `zero_optimization.offload_param`", "(fact hidden_size)",
                           "`runtime.memory_budget`", "old name `bfloat16`", "| result |"}) {
    EXPECT_CONTAINS(page, part);
  }
  // Each line of a table has five cells.
  std::size_t begin = 0;
  for (std::size_t end; (end = page.find('\n', begin)) != page.npos; begin = end + 1) {
    const std::string line = page.substr(begin, end - begin);
    if (!line.starts_with("|")) continue;
    std::size_t bars = 0;
    for (std::size_t i = 0; i < line.size(); ++i)
      bars += line[i] == '|' && (i == 0 || line[i - 1] != '\\');
    EXPECT_EQ(bars, 6u) << line;
  }
}

}  // namespace
}  // namespace zero
