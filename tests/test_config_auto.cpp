// "auto" and the facts that settle it.
#include "src/config_schema.hpp"
#include "tests/config_fixtures.hpp"

namespace zero {
namespace {

using config_test::contains;
using config_test::effective;
using config_test::nested;
using config_test::parse;
using config_test::refusal;

std::string schedule(const std::string& type, const std::string& params) {
  return R"({"optimizer": {"type": "AdamW", "params": {"lr": 0.25}}, "scheduler": {"type": ")" +
         type + R"(", "params": {)" + params + "}}}";
}

// Each fact, the key it settles, and what comes out.
TEST(ConfigAuto, FactsSettleWhatTheyAnswer) {
  struct Case {
    const char* fact;
    const char* value;
    const char* path;
    const char* effective;
  };
  for (const Case& c : {
           Case{"lr", "2e-5", "optimizer.params.lr", "2e-05"},
           Case{"weight_decay", "0.5", "optimizer.params.weight_decay", "0.5"},
           Case{"betas", "[0.5, 0.25]", "optimizer.params.betas", "[0.5, 0.25]"},
           Case{"eps", "1e-6", "optimizer.params.eps", "1e-06"},
           Case{"clipping", "0.5", "gradient_clipping", "0.5"},
           Case{"dtype", "fp16", "fp16.enabled", "true"},
           Case{"dtype", "bf16", "fp16.enabled", "false"},
           Case{"dtype", "bf16", "bf16.enabled", "true"},
           Case{"dtype", "float32", "bf16.enabled", "false"},
           Case{"hidden_size", "1024", "zero_optimization.reduce_bucket_size", "1048576"},
           Case{"hidden_size", "1024", "zero_optimization.stage3_prefetch_bucket_size", "943718"},
           Case{"hidden_size", "1024", "zero_optimization.stage3_param_persistence_threshold",
                "10240"},
           Case{"hidden_size", "1", "zero_optimization.stage3_prefetch_bucket_size", "0"},
           Case{"hidden_size", "3000000000", "zero_optimization.reduce_bucket_size",
                "9000000000000000000"},
       }) {
    SCOPED_TRACE(std::string(c.fact) + " " + c.value);
    Facts facts;
    facts.set(c.fact, c.value);
    const Config config = parse(nested(c.path, "\"auto\""), facts);
    EXPECT_EQ(effective(config, c.path).value, c.effective);
    EXPECT_EQ(effective(config, c.path).origin, std::string("fact ") + c.fact);
    EXPECT_NO_WARNING(config, "\"auto\"");
  }
}

TEST(ConfigAuto, FactsOfSchedules) {
  Facts facts;
  facts.set("warmup_min_lr", "0.125");
  facts.set("warmup_max_lr", "[0.5, 0.75]");
  facts.set("warmup_steps", "7");
  facts.set("total_steps", "1e3");
  const Config config =
      parse(schedule("WarmupDecayLR", R"("warmup_min_lr": "auto", "warmup_max_lr": "auto",
                                   "warmup_num_steps": "auto", "total_num_steps": "auto")"),
            facts);
  EXPECT_EQ(config.scheduler->warmup_min_lr, std::vector<double>{0.125});
  EXPECT_EQ(config.scheduler->warmup_max_lr, (std::vector<double>{0.5, 0.75}));
  EXPECT_EQ(config.scheduler->warmup_num_steps, 7);
  EXPECT_EQ(config.scheduler->total_num_steps, 1000);
}

TEST(ConfigAuto, WhatChangesTheResultIsRefusedAllAtOnceWithItsFact) {
  const std::string message = refusal(R"({"gradient_clipping": "auto",
    "optimizer": {"type": "Adam", "params": {"lr": "auto", "betas": "auto", "eps": "auto",
                  "weight_decay": "auto", "bias_correction": "auto"}},
    "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": "auto",
                  "total_num_steps": "auto"}},
    "runtime": {"reproducible": "auto"}})");
  EXPECT_CONTAINS(message, "9 problems");
  for (const char* part :
       {"gradient_clipping: \"auto\" is not settled", "the fact clipping", "params.lr: \"auto\"",
        "the fact lr", "params.betas: ", "params.eps: ", "params.weight_decay: ",
        "bias_correction: \"auto\" cannot be settled", "the fact warmup_steps",
        "the fact total_steps", "runtime.reproducible: \"auto\""}) {
    EXPECT_CONTAINS(message, part);
  }
}

TEST(ConfigAuto, WhatOnlyCostsTimeOrMemoryTakesItsDefaultWithANote) {
  for (const char* path :
       {"zero_optimization.reduce_bucket_size", "zero_optimization.allgather_bucket_size",
        "zero_optimization.overlap_comm", "zero_optimization.stage",
        "zero_optimization.sub_group_size", "runtime.memory_budget"}) {
    const Config config = parse(nested(path, "\"auto\""));
    EXPECT_EQ(effective(config, path).value, effective(Config(), path).value) << path;
    bool noted = false;
    for (const Remark& note : config.notes()) noted = noted || note.path == path;
    EXPECT_TRUE(noted) << path;
  }
}

TEST(ConfigAuto, TheWarmUpFollowsTheOptimizer) {
  const Config config =
      parse(schedule("WarmupLR", R"("warmup_min_lr": "auto", "warmup_max_lr": "auto")"));
  EXPECT_EQ(config.scheduler->warmup_min_lr, std::vector<double>{0});
  EXPECT_EQ(config.scheduler->warmup_max_lr, std::vector<double>{0.25});
  EXPECT_WARNS(config, "scheduler.params.warmup_max_lr: \"auto\" without the fact warmup_max_lr");
  Facts facts;
  facts.lr = 0.5;
  const Config by_fact = parse(R"({"optimizer": {"type": "Adam", "params": {"lr": "auto"}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": "auto"}}})",
                               facts);
  EXPECT_EQ(by_fact.scheduler->warmup_max_lr, std::vector<double>{0.5});
}

TEST(ConfigAuto, PrecisionStaysOpenWithoutADtype) {
  const Config config = parse(R"({"fp16": {"enabled": "auto", "hysteresis": 3}})");
  EXPECT_EQ(config.fp16_enabled, std::nullopt);
  EXPECT_EQ(effective(config, "fp16.enabled").value, "\"auto\"");
  EXPECT_WARNS(config, "fp16.enabled: \"auto\" without the fact dtype");
  EXPECT_NO_WARNING(config, "fp16: ");
  EXPECT_EQ(config.loss_scale.hysteresis, 3);
  EXPECT_NO_THROW(parse(R"({"fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}})"));
}

// True once in the file: the other one is off, whatever a fact says.
TEST(ConfigAuto, PrecisionOfTheFileWins) {
  Facts facts;
  facts.dtype = DType::kBFloat16;
  for (const char* text : {R"({"fp16": {"enabled": true}, "bf16": {"enabled": "auto"}})",
                           R"({"bf16": {"enabled": "auto"}, "fp16": {"enabled": true}})"}) {
    const Config config = parse(text, facts);
    EXPECT_EQ(config.fp16_enabled, true);
    EXPECT_EQ(config.bf16_enabled, false);
    EXPECT_WARNS(config, "fp16.enabled: the file says true; the fact dtype bf16 is not used");
  }
}

TEST(ConfigAuto, KeysOfTheLossScalePlayNoPartWithoutFp16) {
  EXPECT_WARNS(parse(R"({"fp16": {"loss_scale_window": "auto"}})"),
               "fp16.loss_scale_window: \"auto\": the default is taken, 1000");
  EXPECT_CONTAINS(refusal(R"({"fp16": {"enabled": true, "loss_scale": "auto"}})"),
                  "fp16.loss_scale: \"auto\" cannot be settled");
}

TEST(ConfigAuto, AMissingOptimizerIsTheFacts) {
  Facts facts;
  facts.lr = 0.5;
  facts.betas = {0.25, 0.75};
  const Config config = parse("{}", facts);
  EXPECT_EQ(config.optimizer.lr, 0.5);
  EXPECT_EQ(config.optimizer.beta1, 0.25);
  EXPECT_EQ(config.optimizer.eps, 1e-8);
  EXPECT_EQ(effective(config, "optimizer.params.lr").origin, "fact lr");
  EXPECT_EQ(effective(config, "optimizer.params.eps").origin, "default");
  EXPECT_WARNS(config, "optimizer: no such section: AdamW with lr 0.5");
  EXPECT_NO_WARNING(config, "rarely meant");
}

TEST(ConfigAuto, TheFileWinsOverAFactWithAWarning) {
  Facts facts;
  facts.lr = 0.5;
  facts.clipping = 2;
  facts.warmup_steps = 5;
  facts.dtype = DType::kFloat32;
  facts.hidden_size = 8;
  const Config config = parse(
      R"({"optimizer": {"type": "Adam", "params": {"lr": 0.25}}, "bf16": {"enabled": true},
          "zero_optimization": {"reduce_bucket_size": 7}})",
      facts);
  EXPECT_EQ(config.optimizer.lr, 0.25);
  EXPECT_EQ(config.gradient_clipping, 1);
  EXPECT_WARNS(config, "optimizer.params.lr: the file says 0.25; the fact lr 0.5 is not used");
  EXPECT_WARNS(config,
               "gradient_clipping: the file does not give it, so it is 1; the fact "
               "clipping 2 is not used: write \"auto\"");
  EXPECT_WARNS(config, "bf16.enabled: the file says true; the fact dtype fp32 is not used");
  EXPECT_NO_WARNING(config, "warmup");       // there is no schedule
  EXPECT_NO_WARNING(config, "hidden_size");  // an answer to "auto" alone
  Facts same;
  same.lr = 0.25;
  EXPECT_NO_WARNING(parse(R"({"optimizer": {"type": "Adam", "params": {"lr": 0.25}}})", same),
                    "params.lr");
}

TEST(ConfigAuto, FactsAreChecked) {
  const auto message = [](const char* key, const char* value) {
    try {
      Facts().set(key, value);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    ADD_FAILURE() << "accepted: " << key << " " << value;
    return std::string();
  };
  EXPECT_CONTAINS(message("learning_rate", "1"), "there is no such fact; valid: micro_batch");
  EXPECT_CONTAINS(message("lr", "-1"), "fact lr: -1 is out of range; valid: a number, at least 0");
  EXPECT_CONTAINS(message("lr", "fast"), "fact lr: \"fast\" is not a number");
  EXPECT_CONTAINS(message("betas", "0.9"), "a list of two numbers");
  EXPECT_CONTAINS(message("micro_batch", "0"), "out of range");
  EXPECT_CONTAINS(message("micro_batch", "1.5"), "not whole");
  EXPECT_CONTAINS(message("dtype", "fp8"), "fact dtype: \"fp8\" is not known; valid: one of fp32");
  EXPECT_CONTAINS(message("hidden_size", "0"), "out of range");
  EXPECT_CONTAINS(message("lr", ""), "is not a number");
  Facts wild;  // set by a program, which nothing has checked
  wild.hidden_size = 4'000'000'000;
  EXPECT_CONTAINS(refusal("{}", wild), "hidden_size: 4000000000 is out of range");
  Facts nobody;
  nobody.world_size = 0;
  EXPECT_CONTAINS(refusal("{\"gradient_clipping\": -1}", nobody), "world_size: 0");
  EXPECT_CONTAINS(refusal("{\"gradient_clipping\": -1}", nobody), "gradient_clipping: -1");
  Facts negative;
  negative.lr = -1;
  EXPECT_CONTAINS(refusal(nested("optimizer.params.lr", "\"auto\""), negative),
                  "optimizer.params.lr: the fact lr: -1 is out of range");
  EXPECT_CONTAINS(refusal("{}", negative), "optimizer.params.lr: the fact lr: -1");
}

TEST(ConfigAuto, ForAPlanDefaultsWillDo) {
  Facts facts;
  facts.defaults_for_auto = true;
  Config config = parse(R"({"gradient_accumulation_steps": "auto", "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto",
    "optimizer": {"type": "Adam", "params": {"lr": "auto", "betas": "auto"}},
    "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": "auto"}}})",
                        facts);
  EXPECT_EQ(config.optimizer.lr, 1e-3);
  EXPECT_TRUE(config.scheduler->total_num_steps.has_value());
  EXPECT_NO_WARNING(config, "longer than the training");
  config.resolve_batch(3, 2);
  EXPECT_EQ(config.train_batch_size, 6);
  EXPECT_WARNS(config, "optimizer.params.lr: \"auto\" without the fact lr: the default is taken");
  // Whatever the key.
  for (const detail::SchemaRow& row : detail::config_schema()) {
    if (!is_value(row) || row.type == detail::ValueType::kText) continue;
    const bool sgd = row.of_types == std::vector<std::string>{"SGD"};
    std::string text = nested(row.path, "\"auto\"");
    if (sgd) text.replace(text.find("\"Adam\""), 6, "\"SGD\"");
    EXPECT_NO_THROW(parse(text, facts)) << text;
  }
}

TEST(ConfigAuto, BatchKeysFollowFromOthersOrNeedTheirFact) {
  const auto batch = [](const char* train, const char* micro, const char* accumulation) {
    std::string text = "{";
    for (const auto& [key, value] :
         {std::pair{"train_batch_size", train}, std::pair{"train_micro_batch_size_per_gpu", micro},
          std::pair{"gradient_accumulation_steps", accumulation}}) {
      if (*value != '\0') text += (text == "{" ? "\"" : ", \"") + std::string(key) + "\": " + value;
    }
    return text + "}";
  };
  const auto settled = [&](const char* train, const char* micro, const char* accumulation,
                           Facts facts = {}) {
    facts.world_size = 2;
    const Config config = parse(batch(train, micro, accumulation), facts);
    return std::vector<std::int64_t>{*config.train_batch_size, *config.micro_batch_size,
                                     *config.accumulation_steps};
  };
  const char* const kAuto = "\"auto\"";
  using Triple = std::vector<std::int64_t>;
  EXPECT_EQ(settled("24", "3", kAuto), (Triple{24, 3, 4}));
  EXPECT_EQ(settled("24", kAuto, "4"), (Triple{24, 3, 4}));
  EXPECT_EQ(settled(kAuto, "3", "4"), (Triple{24, 3, 4}));
  EXPECT_EQ(settled("24", kAuto, ""), (Triple{24, 12, 1}));
  EXPECT_EQ(settled(kAuto, "3", ""), (Triple{6, 3, 1}));
  Facts facts;
  facts.micro_batch = 3;
  EXPECT_EQ(settled(kAuto, kAuto, "4", facts), (Triple{24, 3, 4}));
  EXPECT_EQ(settled("24", kAuto, kAuto, facts), (Triple{24, 3, 4}));
  EXPECT_EQ(settled("24", kAuto, "", facts), (Triple{24, 3, 4}));
  EXPECT_EQ(settled("", "", "4", facts), (Triple{24, 3, 4}));
  facts.accumulation = 4;
  EXPECT_EQ(settled(kAuto, kAuto, kAuto, facts), (Triple{24, 3, 4}));
  EXPECT_EQ(settled("", "", "", facts), (Triple{24, 3, 4}));
  EXPECT_EQ(settled("24", kAuto, kAuto, facts), (Triple{24, 3, 4}));
  EXPECT_EQ(settled("24", "6", kAuto, facts), (Triple{24, 6, 2}));  // the file wins

  const auto unsettled = [&](const char* train, const char* micro, const char* accumulation,
                             Facts given = {}) {
    given.world_size = 2;
    return refusal(batch(train, micro, accumulation), given);
  };
  const std::string all = unsettled(kAuto, kAuto, kAuto);
  EXPECT_CONTAINS(all, "train_micro_batch_size_per_gpu is \"auto\": give the fact micro_batch");
  EXPECT_CONTAINS(all, "gradient_accumulation_steps is \"auto\": give the fact accumulation");
  EXPECT_CONTAINS(all, "world size 2");
  EXPECT_CONTAINS(unsettled("", "3", kAuto), "gradient_accumulation_steps is \"auto\"");
  EXPECT_CONTAINS(unsettled("24", "", kAuto), "gradient_accumulation_steps is \"auto\"");
  EXPECT_CONTAINS(unsettled(kAuto, "", ""), "train_batch_size is \"auto\"");
  EXPECT_CONTAINS(unsettled("", kAuto, "4"), "train_micro_batch_size_per_gpu is \"auto\"");
  EXPECT_CONTAINS(unsettled("26", kAuto, kAuto, facts), "26 is not 3 x 4 x 2 = 24");
  // In one message with all else.
  Facts world;
  world.world_size = 2;
  EXPECT_FALSE(contains(refusal("{\"train_batch_size\": 0}", world), "not given"));
  EXPECT_CONTAINS(refusal("{\"train_batch_size\": 9}", world),
                  "train_batch_size 9 (file.json:1:2)");
  const std::string both = refusal("{\"gradient_clipping\": -1}", world);
  EXPECT_CONTAINS(both, "gradient_clipping: -1");
  EXPECT_CONTAINS(both, "give train_batch_size or train_micro_batch_size_per_gpu");
}

TEST(ConfigAuto, FactsOfTheBatchThatTheFileOverrulesAreWarnedOf) {
  Facts facts;
  facts.world_size = 2;
  facts.micro_batch = 5;
  facts.accumulation = 7;
  const Config config =
      parse(R"({"train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": 4})", facts);
  EXPECT_EQ(config.train_batch_size, 24);
  EXPECT_WARNS(config,
               "train_micro_batch_size_per_gpu: settled as 3 by file.json:1:2; the fact "
               "micro_batch 5 is not used");
  EXPECT_WARNS(config,
               "gradient_accumulation_steps: settled as 4 by file.json:1:39; the fact "
               "accumulation 7 is not used");
}

}  // namespace
}  // namespace zero
