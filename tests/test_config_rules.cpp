// What keys mean beyond their own type: spellings, other names, precision, optimizer, stages.
#include "tests/config_fixtures.hpp"

namespace zero {
namespace {

using config_test::contains;
using config_test::nested;
using config_test::parse;
using config_test::refusal;

TEST(ConfigRules, WholeNumbersInAnySpelling) {
  for (const char* spelt : {"5e8", "5E+8", "500000000.0", "500000000", "\"5e8\""}) {
    const Config config = parse(nested("zero_optimization.reduce_bucket_size", spelt));
    EXPECT_EQ(config.zero.reduce_bucket_size, 500000000) << spelt;
    EXPECT_EQ(config_test::warns(config, "zero_optimization.reduce_bucket_size"),
              contains(spelt, "\""))
        << spelt;
  }
}

std::string schedule(const std::string& type, const std::string& params) {
  return R"({"optimizer": {"type": "AdamW"}, "scheduler": {"type": ")" + type +
         R"(", "params": {)" + params + "}}}";
}

TEST(ConfigRules, AScheduleTakesItsOwnParametersOnly) {
  const std::string cosine =
      refusal(schedule("WarmupCosineLR", R"("total_num_steps": 10, "warmup_max_lr": 0.1)"));
  EXPECT_CONTAINS(cosine, "scheduler.params.warmup_max_lr: WarmupCosineLR has no such parameter");
  EXPECT_CONTAINS(cosine, "warmup_num_steps, warmup_type, total_num_steps, warmup_min_ratio");
  EXPECT_CONTAINS(refusal(schedule("LRRangeTest", R"("cycle_min_lr": 0.1)")),
                  "scheduler.params.cycle_min_lr: LRRangeTest has no such parameter");
}

TEST(ConfigRules, WhatAScheduleNeedsIsAskedForByName) {
  for (const char* type : {"WarmupDecayLR", "WarmupCosineLR"}) {
    for (const char* params : {"", R"("total_num_steps": null)"}) {
      EXPECT_CONTAINS(refusal(schedule(type, params)),
                      "scheduler.params.total_num_steps: is missing, and " + std::string(type));
    }
  }
  const std::string cycle = refusal(R"({"optimizer": {"type": "AdamW"},
                                        "scheduler": {"type": "OneCycle"}})");
  EXPECT_CONTAINS(cycle, "scheduler.params.cycle_min_lr: is missing");
  EXPECT_CONTAINS(cycle, "scheduler.params.cycle_max_lr: is missing");
  EXPECT_CONTAINS(refusal(schedule("StepLR", "")), "not built here");
}

TEST(ConfigRules, ReproducibleSumsAreNotThoseOfNccl) {
  EXPECT_CONTAINS(refusal(R"({"runtime": {"nccl_reduction": true, "reproducible": true}})"),
                  "runtime.nccl_reduction: is true, and so is runtime.reproducible");
  EXPECT_TRUE(parse(R"({"runtime": {"nccl_reduction": true, "reproducible": false}})")
                  .runtime.nccl_reduction);
  EXPECT_FALSE(parse(R"({"runtime": {"nccl_reduction": false, "reproducible": true}})")
                   .runtime.nccl_reduction);
}

TEST(ConfigRules, GradientsAreNotScaledBeforeSumsOfNccl) {
  const std::string both = R"({"prescale_gradients": true, "runtime": {"nccl_reduction": true}})";
  EXPECT_CONTAINS(refusal(both), "prescale_gradients: is not built for runtime.nccl_reduction");
  parse(R"({"prescale_gradients": false, "runtime": {"nccl_reduction": true}})");
  parse(R"({"prescale_gradients": true, "runtime": {"nccl_reduction": false}})");
}

TEST(ConfigRules, ScheduleNotes) {
  EXPECT_FALSE(parse(R"({"optimizer": {"type": "AdamW"}, "scheduler": null})").scheduler);
  const Config untyped = parse(R"({"optimizer": {"type": "AdamW"}, "scheduler": {}})");
  EXPECT_FALSE(untyped.scheduler.has_value());
  EXPECT_WARNS(untyped, "scheduler");
  const std::string cycle = R"("cycle_min_lr": 0.1, "cycle_max_lr": 0.2)";
  EXPECT_WARNS(parse(schedule("OneCycle", cycle)), "scheduler.params.cycle_momentum");
  EXPECT_FALSE(
      config_test::warns(parse(schedule("OneCycle", cycle + R"(, "cycle_momentum": false)")),
                         "scheduler.params.cycle_momentum"));
  Config sgd = parse(R"({"optimizer": {"type": "SGD"}, "scheduler": {"type": "OneCycle",
                         "params": {"cycle_min_lr": 0.1, "cycle_max_lr": 0.2}}})");
  EXPECT_FALSE(sgd.scheduler->cycle_momentum);
  EXPECT_WARNS(sgd, "scheduler.params.cycle_momentum");
  EXPECT_WARNS(parse(schedule("WarmupDecayLR", R"("total_num_steps": 5)")),
               "scheduler.params.total_num_steps");
  EXPECT_WARNS(parse(schedule("OneCycle", cycle + R"(, "decay_lr_rate": 0.5)")),
               "scheduler.params.decay_lr_rate");
}

TEST(ConfigRules, BlanksInAKeyAreNamed) {
  EXPECT_CONTAINS(refusal("{\"zero_optimization\": {\"stage \": 1}}"),
                  "zero_optimization[\"stage \"]: unknown key (has trailing blanks)");
  EXPECT_CONTAINS(refusal("{\" fp16\": {}}"), "[\" fp16\"]: unknown key (has leading blanks)");
  EXPECT_CONTAINS(refusal("{\"\": {}}"), "(empty)");
  EXPECT_CONTAINS(refusal("{\" \": {}}"), "(only blanks)");
}

TEST(ConfigRules, AKeyInTheWrongSectionIsSentToItsOwn) {
  EXPECT_CONTAINS(refusal("{\"stage\": 1}"), "belongs at zero_optimization.stage");
  EXPECT_CONTAINS(refusal("{\"optimizer\": {\"type\": \"AdamW\", \"lr\": 1}}"),
                  "belongs at optimizer.params.lr");
  // A dotted key is one key, not a path.
  EXPECT_CONTAINS(refusal("{\"zero_optimization.stage\": 1}"), "unknown key");
}

TEST(ConfigRules, NearestKeyOfTypingErrors) {
  EXPECT_CONTAINS(refusal("{\"zero_optimization\": {\"stage3_param_persitance_threshold\": 1}}"),
                  "nearest is zero_optimization.stage3_param_persistence_threshold");
  EXPECT_CONTAINS(refusal("{\"gradient_cliping\": 1}"), "nearest is gradient_clipping");
  EXPECT_CONTAINS(refusal("{\"BF16\": {}}"), "nearest is bf16");
}

TEST(ConfigRules, OtherNamesMeanTheSame) {
  EXPECT_EQ(parse(nested("zero_optimization.prefetch_bucket_size", "7")).zero.prefetch_bucket_size,
            7);
  EXPECT_EQ(parse(nested("zero_optimization.param_persistence_threshold", "7"))
                .zero.param_persistence_threshold,
            7);
  EXPECT_EQ(parse(nested("zero_optimization.model_persistence_threshold", "7"))
                .zero.model_persistence_threshold,
            7);
  const Config old = parse("{\"bfloat16\": {\"enabled\": true}}");
  EXPECT_EQ(old.bf16_enabled, true);
  EXPECT_WARNS(old, "bfloat16: old name; write bf16");
  EXPECT_NO_WARNING(parse("{\"bf16\": {\"enabled\": true}}"), "bf16");
}

TEST(ConfigRules, TwoNamesOfOneKeyMustAgree) {
  const auto both = [](const char* one, const char* other) {
    return std::string("{\"zero_optimization\": {\"stage3_prefetch_bucket_size\": ") + one +
           ",\n\"prefetch_bucket_size\": " + other + "}}";
  };
  EXPECT_EQ(parse(both("7", "7.0")).zero.prefetch_bucket_size, 7);
  const std::string message = refusal(both("7", "8"));
  EXPECT_CONTAINS(message, "file.json:2:");
  EXPECT_CONTAINS(message, "8 contradicts zero_optimization.stage3_prefetch_bucket_size");
  EXPECT_CONTAINS(message, "7 on line 1");
  EXPECT_CONTAINS(refusal("{\"bf16\": {\"enabled\": true}, \"bfloat16\": {\"enabled\": false}}"),
                  "bfloat16.enabled: false contradicts bf16.enabled");
  EXPECT_NO_THROW(parse("{\"bf16\": {\"enabled\": true}, \"bfloat16\": {\"enabled\": true}}"));
  for (const char* text : {"{\"bf16\": null, \"bfloat16\": {\"enabled\": true}}",
                           "{\"bfloat16\": {\"enabled\": true}, \"bf16\": null}"}) {
    EXPECT_EQ(parse(text).bf16_enabled, true) << text;
  }
}

TEST(ConfigRules, OnePrecision) {
  const std::string message =
      refusal("{\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}}");
  EXPECT_CONTAINS(message, "bf16");
  EXPECT_CONTAINS(message, "fp16");
  EXPECT_NO_THROW(parse("{\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": false}}"));
  EXPECT_NO_THROW(parse("{\"fp16\": {\"enabled\": false}, \"bf16\": {\"enabled\": false}}"));
}

TEST(ConfigRules, OptimizerTypes) {
  const auto of = [](const char* type) {
    return parse(std::string("{\"optimizer\": {\"type\": \"") + type + "\"}}").optimizer;
  };
  EXPECT_EQ(of("Adam").kind, OptimizerKind::kAdam);
  EXPECT_TRUE(of("Adam").decoupled_decay);
  EXPECT_TRUE(of("adamw").decoupled_decay);
  EXPECT_EQ(of("sgd").kind, OptimizerKind::kSgd);
  EXPECT_FALSE(parse("{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"adam_w_mode\": false}}}")
                   .optimizer.decoupled_decay);
  for (const char* type : {"Lamb", "OneBitAdam", "Lion", "Rprop"}) {
    const std::string message =
        refusal(std::string("{\"optimizer\": {\"type\": \"") + type + "\"}}");
    EXPECT_CONTAINS(message, type);
    EXPECT_CONTAINS(message, "AdamW, Adam, SGD");
  }
  EXPECT_CONTAINS(refusal("{\"optimizer\": {\"params\": {\"lr\": 1}}}"),
                  "optimizer.type: is missing");
}

TEST(ConfigRules, KeysOfAnotherOptimizerAreRefused) {
  const auto with = [](const char* type, const char* params) {
    return std::string("{\"optimizer\": {\"type\": \"") + type + "\", \"params\": {" + params +
           "}}}";
  };
  EXPECT_NO_THROW(parse(with("SGD", "\"lr\": 0.5, \"weight_decay\": 0.1, \"torch_adam\": true")));
  EXPECT_CONTAINS(refusal(with("SGD", "\"betas\": [0.9, 0.999]")), "optimizer.params.betas");
  EXPECT_CONTAINS(refusal(with("SGD", "\"eps\": 1e-8")), "optimizer.params.eps");
  EXPECT_CONTAINS(refusal(with("SGD", "\"bias_correction\": true")), "bias_correction");
  EXPECT_CONTAINS(refusal(with("SGD", "\"adam_w_mode\": true")), "adam_w_mode");
  EXPECT_CONTAINS(refusal(with("SGD", "\"momentum\": 0.9")), "optimizer.params.momentum");
  EXPECT_CONTAINS(refusal(with("AdamW", "\"adam_w_mode\": false")), "contradicts");
  EXPECT_NO_THROW(parse(with("AdamW", "\"adam_w_mode\": true")));
}

TEST(ConfigRules, MissingSectionsThatMatterAreWarnedOf) {
  const Config empty = parse("{}");
  EXPECT_WARNS(empty, "optimizer: ");
  EXPECT_WARNS(empty, "lr 0.001");
  EXPECT_WARNS(empty, "gradient_clipping: ");
  EXPECT_EQ(Config().warnings(), empty.warnings());
  EXPECT_EQ(Config().json(), "{}");
  const Config full = parse("{\"optimizer\": {\"type\": \"AdamW\"}, \"gradient_clipping\": 0}");
  EXPECT_TRUE(full.warnings().empty()) << ::testing::PrintToString(full.warnings());
}

TEST(ConfigRules, OverlapFollowsTheStage) {
  for (int stage = 0; stage <= 3; ++stage) {
    const std::string key = "{\"zero_optimization\": {\"stage\": " + std::to_string(stage);
    EXPECT_EQ(parse(key + "}}").zero.overlaps(), stage == 3);
    EXPECT_EQ(parse(key + ", \"overlap_comm\": null}}").zero.overlaps(), stage == 3);
    EXPECT_TRUE(parse(key + ", \"overlap_comm\": true}}").zero.overlaps());
    EXPECT_FALSE(parse(key + ", \"overlap_comm\": false}}").zero.overlaps());
  }
}

TEST(ConfigRules, KeysOfStageThreeBelowItAreNoted) {
  const std::string keys = ", \"stage3_prefetch_bucket_size\": 1, \"offload_param\": null}}";
  const std::string section = "{\"zero_optimization\": {\"stage\": ";
  EXPECT_WARNS(parse(section + "2" + keys), "stage3_prefetch_bucket_size: no effect at stage 2");
  EXPECT_NO_WARNING(parse(section + "2" + keys), "offload_param");
  EXPECT_NO_WARNING(parse(section + "3" + keys), "stage3_prefetch_bucket_size");
}

TEST(ConfigRules, KeysWithoutEffectAreNotedWhenTheyAskForSomething) {
  const auto zero = [](const char* text) { return nested("zero_optimization", text); };
  EXPECT_WARNS(parse(zero("{\"reduce_scatter\": false}")),
               "zero_optimization.reduce_scatter: false");
  EXPECT_NO_WARNING(parse(zero("{\"reduce_scatter\": true}")), "reduce_scatter");
  EXPECT_WARNS(parse(zero("{\"offload_optimizer\": {\"device\": \"cpu\"}}")), "offload_optimizer");
  EXPECT_NO_WARNING(parse(zero("{\"offload_optimizer\": {\"device\": \"none\"}}")), "offload");
  EXPECT_NO_WARNING(parse(zero("{\"offload_optimizer\": null}")), "offload");
  EXPECT_CONTAINS(refusal(zero("{\"offload_param\": {\"device\": \"nvme\"}}")),
                  "zero_optimization.offload_param.device: \"nvme\" is not built here");
}

TEST(ConfigRules, TheSmallestScaleIsNotAboveTheFirst) {
  EXPECT_NO_THROW(parse("{\"fp16\": {\"min_loss_scale\": 65536}}"));
  EXPECT_CONTAINS(refusal("{\"fp16\": {\"enabled\": true, \"min_loss_scale\": 65537}}"),
                  "fp16.min_loss_scale");
  EXPECT_CONTAINS(
      refusal("{\"fp16\": {\"enabled\": true, \"min_loss_scale\": 4, \"initial_scale_power\": 1}}"),
      "fp16.min_loss_scale");
  EXPECT_NO_THROW(parse("{\"fp16\": {\"initial_scale_power\": 0}}"));
  EXPECT_NO_THROW(parse("{\"fp16\": {\"min_loss_scale\": 1e6, \"loss_scale\": 128}}"));
}

// 1 / scale is an fp32 number as well.
TEST(ConfigRules, AScaleIsZeroOrHasAnInverse) {
  EXPECT_CONTAINS(refusal("{\"fp16\": {\"loss_scale\": 1e-40}}"),
                  "fp16.loss_scale: 1e-40 is out of range; valid: a number, 0 or at least "
                  "1.1754944e-38, at most 3.4028235e+38");
  EXPECT_CONTAINS(refusal("{\"fp16\": {\"min_loss_scale\": 1e-40}}"),
                  "fp16.min_loss_scale: 1e-40 is out of range");
  EXPECT_EQ(parse("{\"fp16\": {\"loss_scale\": 1.1754943508222875e-38}}").loss_scale.loss_scale,
            0x1p-126);
  EXPECT_EQ(parse("{\"fp16\": {\"loss_scale\": 0}}").loss_scale.loss_scale, 0.0);
}

TEST(ConfigRules, KeysOfFp16WithoutFp16AreNoted) {
  const Config config = parse("{\"fp16\": {\"loss_scale\": 128}}");
  EXPECT_WARNS(config, "fp16: loss_scale: no effect: fp16 is not enabled");
  EXPECT_WARNS(parse("{\"fp16\": {\"enabled\": false, \"hysteresis\": 1, \"min_loss_scale\": 2}}"),
               "fp16: hysteresis, min_loss_scale: no effect: fp16 is not enabled");
  EXPECT_NO_WARNING(parse("{\"fp16\": {\"enabled\": true, \"loss_scale\": 128}}"), "fp16");
  EXPECT_NO_WARNING(parse("{\"fp16\": {\"enabled\": false}}"), "fp16");
  EXPECT_NO_WARNING(parse("{\"fp16\": {}}"), "fp16");
}

TEST(ConfigRules, NamesOfTypes) {
  const auto dtype = [](const char* name) {
    return parse(nested("data_types.grad_accum_dtype", name)).grad_accum_dtype;
  };
  EXPECT_EQ(dtype("\"fp32\""), DType::kFloat32);
  EXPECT_EQ(dtype("\"float32\""), DType::kFloat32);
  EXPECT_EQ(dtype("\"fp16\""), DType::kFloat16);
  EXPECT_EQ(dtype("\"float16\""), DType::kFloat16);
  EXPECT_EQ(dtype("\"half\""), DType::kFloat16);
  EXPECT_EQ(dtype("\"bf16\""), DType::kBFloat16);
  EXPECT_EQ(dtype("\"bfloat16\""), DType::kBFloat16);
  EXPECT_EQ(dtype("null"), std::nullopt);
}

}  // namespace
}  // namespace zero
