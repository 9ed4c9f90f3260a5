// Rows against the formulas of the ZeRO paper (Rajbhandari et al. 2020, figure 1); tables; fits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/mem_fit.hpp"
#include "tools/mem_format.hpp"
#include "tools/mem_plan.hpp"
#include "zero/error.hpp"

namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using zero::Category;

mem::Subject subject_of(const std::string& params, const std::string& dtype,
                        const std::string& activations = "0") {
  mem::ModelOptions options;
  options.params = params;
  options.dtype = dtype;
  options.activations = activations;
  return mem::resolve(options);
}

TEST(MemFormat, Gigabytes) {
  EXPECT_EQ(mem::gigabytes(0), "0");
  EXPECT_EQ(mem::gigabytes(1), "0.000000001");
  EXPECT_EQ(mem::gigabytes(616), "0.000000616");
  EXPECT_EQ(mem::gigabytes(1'234'567), "0.00123");
  EXPECT_EQ(mem::gigabytes(999'999'999), "1.000");
  EXPECT_EQ(mem::gigabytes(1'875'000'001), "1.88");
  EXPECT_EQ(mem::gigabytes(16'640'625'000), "16.6");
  EXPECT_EQ(mem::gigabytes(120'000'000'000), "120.0");
  EXPECT_EQ(mem::gigabytes(-1'500'000'000), "-1.50");
}

TEST(MemFormat, Grouped) {
  EXPECT_EQ(mem::grouped(0), "0");
  EXPECT_EQ(mem::grouped(999), "999");
  EXPECT_EQ(mem::grouped(1000), "1,000");
  EXPECT_EQ(mem::grouped(-123456), "-123,456");
  EXPECT_EQ(mem::grouped(7'500'000'000), "7,500,000,000");
}

TEST(MemFormat, Tables) {
  mem::TextTable table({"name", "x"});
  table.add({"a", "100"});
  table.add({"longer", ""});
  EXPECT_EQ(table.text("  "),
            "  name      x\n"
            "  a       100\n"
            "  longer\n");
}

TEST(MemPlan, ModelStatesAndTrafficAreThePapersFormulas) {
  const std::int64_t p = 32 * 512 * 1000;  // no padding up to 64 ranks; beyond the persistence size
  for (const std::string dtype : {"bf16", "fp16", "fp32"}) {
    const bool half = dtype != "fp32";
    for (const int n : {1, 8, 64}) {
      const auto rows = mem::plan_rows(subject_of(std::to_string(p), dtype), {0, 1, 2, 3}, {n});
      ASSERT_EQ(rows.size(), 4u);
      const std::int64_t mixed[] = {16 * p, 4 * p + 12 * p / n, 2 * p + 14 * p / n, 16 * p / n};
      const std::int64_t plain[] = {16 * p, 8 * p + 8 * p / n, 4 * p + 12 * p / n, 16 * p / n};
      for (const mem::Row& row : rows) {
        EXPECT_EQ(row.plan.model_state_bytes(), (half ? mixed : plain)[row.stage]);
        EXPECT_EQ(row.padding_elems(), 0);
        const std::int64_t volumes = row.stage == 3 ? 3 : 2;
        EXPECT_EQ(row.plan.traffic_per_step.model_bytes(),
                  volumes * (half ? 2 : 4) * p / n * (n - 1));
      }
    }
  }
}

TEST(MemPlan, TheFigureOfThePaper) {
  const mem::Subject subject = subject_of("7.5e9", "bf16");
  const std::string text = mem::plan_text(subject, mem::plan_rows(subject, {0, 1, 2, 3}, {64}));
  EXPECT_THAT(text, ContainsRegex("\n0 +64 +120\\.0 "));
  EXPECT_THAT(text, ContainsRegex("\n1 +64 +31\\.4 "));
  EXPECT_THAT(text, ContainsRegex("\n2 +64 +16\\.6 "));
  EXPECT_THAT(text, ContainsRegex("\n3 +64 +1\\.88 "));
  EXPECT_THAT(text, HasSubstr("7,500,000,000 elements in 32 units"));
  // 128e9 at 64 ranks, 1e12 at 1024: the same formulas, rounded as printed.
  const mem::Subject large = subject_of("128e9", "bf16");
  const std::string at64 = mem::plan_text(large, mem::plan_rows(large, {1, 3}, {64}));
  EXPECT_THAT(at64, ContainsRegex("\n1 +64 +536\\.0 "));
  EXPECT_THAT(at64, ContainsRegex("\n3 +64 +32\\.0 "));
  const mem::Subject trillion = subject_of("1e12", "bf16");
  const std::string at1024 = mem::plan_text(trillion, mem::plan_rows(trillion, {2, 3}, {1024}));
  EXPECT_THAT(at1024, ContainsRegex("\n2 +1024 +2013\\.7 "));
  EXPECT_THAT(at1024, ContainsRegex("\n3 +1024 +15\\.6 "));
}

TEST(MemPlan, GatherBuffersOfAPresetAreThoseOfItsLargestUnit) {
  mem::ModelOptions options;
  options.preset = "llama-7b";
  options.dtype = "bf16";
  const auto rows = mem::plan_rows(mem::resolve(options), {3}, {8});
  // A block without its norms, which stay gathered; the default window prefetches no whole block.
  const std::int64_t block = 4 * 4096 * 4096 + 3 * 4096 * 11008;
  EXPECT_EQ(rows[0].plan.trained.account(Category::kGather).peak_bytes, 2 * block);
}

TEST(MemPlan, MoreRanksThanElements) {
  for (const char* params : {"1", "31", "33"}) {
    const auto rows = mem::plan_rows(subject_of(params, "bf16"), {0, 1, 2, 3}, {1, 7, 100});
    ASSERT_EQ(rows.size(), 12u);
    for (const mem::Row& row : rows) {
      EXPECT_EQ(row.refusal, "");
      EXPECT_EQ(row.plan.model_elems, std::stoi(params));
      EXPECT_GE(row.padding_elems(), 0);
      EXPECT_EQ((row.padding_elems() + std::stoi(params)) % (8 * row.ranks), 0);
    }
  }
}

TEST(MemPlan, RowsComeByRanksThenStageAndOnceIfAskedTwice) {
  const auto rows = mem::plan_rows(subject_of("1000", "fp32"), {3, 0, 0, 3}, {2, 1, 2});
  std::vector<std::pair<int, int>> order;
  for (const mem::Row& row : rows) order.emplace_back(row.ranks, row.stage);
  EXPECT_THAT(order, testing::ElementsAre(std::pair(2, 3), std::pair(2, 0), std::pair(1, 3),
                                          std::pair(1, 0)));
}

TEST(MemPlan, ActivationsAreAColumnAndPartOfThePeakOnly) {
  const mem::Subject with = subject_of("1e6", "bf16", "2GB");
  const mem::Subject without = subject_of("1e6", "bf16");
  const auto rows = mem::plan_rows(with, {2}, {4});
  const auto bare = mem::plan_rows(without, {2}, {4});
  EXPECT_EQ(rows[0].peak_bytes(), bare[0].peak_bytes() + 2'000'000'000);
  EXPECT_EQ(rows[0].plan.model_state_bytes(), bare[0].plan.model_state_bytes());
  EXPECT_THAT(mem::plan_table(rows), HasSubstr("activations"));
  EXPECT_THAT(mem::plan_table(rows), HasSubstr("  2.00  "));
  EXPECT_THAT(mem::plan_table(bare), testing::Not(HasSubstr("activations")));
}

TEST(MemPlan, JsonHoldsEveryByte) {
  const mem::Subject subject = subject_of("1e6", "bf16", "7");
  const auto rows = mem::plan_rows(subject, {3}, {4});
  const auto json = nlohmann::json::parse(mem::plan_json(subject, rows).dump());
  EXPECT_EQ(json["model"]["elems"], 1'000'000);
  const auto& plan = json["plans"][0];
  EXPECT_EQ(plan["stage"], 3);
  EXPECT_EQ(plan["ranks"], 4);
  std::int64_t states = 0;
  for (int c = 0; c < zero::kCategoryCount; ++c) {
    const auto category = static_cast<Category>(c);
    const auto& account = plan["memory"][std::string(zero::category_name(category))];
    EXPECT_EQ(account["current"], rows[0].plan.trained.account(category).current_bytes);
    EXPECT_EQ(account["peak"], rows[0].plan.trained.account(category).peak_bytes);
    if (c < 5) states += account["current"].get<std::int64_t>();
  }
  EXPECT_EQ(plan["model_states_bytes"], states);
  EXPECT_EQ(plan["activations_bytes"], 7);
  EXPECT_EQ(plan["peak_bytes"], plan["memory"]["total"]["peak"].get<std::int64_t>() + 7);
  EXPECT_EQ(plan["received_per_step"]["model_bytes"], rows[0].plan.traffic_per_step.model_bytes());
  EXPECT_EQ(plan["padding_elems"], rows[0].padding_elems());
}

TEST(MemPlan, WhatOneRowRefusesLeavesTheOthers) {
  mem::Subject subject = subject_of("1000", "fp32");
  subject.config.set("train_batch_size", "8");
  const auto rows = mem::plan_rows(subject, {1}, {8, 3});
  EXPECT_EQ(rows[0].refusal, "");
  EXPECT_THAT(rows[1].refusal, HasSubstr("train_batch_size 8"));
  EXPECT_THAT(mem::plan_text(subject, rows), HasSubstr("stage 1 on 3 ranks is refused: "));
  EXPECT_THAT(mem::plan_table(rows), ContainsRegex("\n1 +3 +refused\n"));
  EXPECT_EQ(mem::plan_json(subject, rows)["plans"][1]["refused"], rows[1].refusal);
  EXPECT_EQ(mem::plan_chart(subject, rows).bars.size(), 1u);
  EXPECT_THROW(mem::plan_rows(subject, {0, 1}, {3}), zero::ConfigError);
}

TEST(MemPlan, AccumulationIsPlanned) {
  mem::Subject subject = subject_of("1e6", "bf16");
  const std::int64_t once =
      mem::plan_rows(subject, {2}, {4})[0].plan.traffic_per_step.model_bytes();
  subject.config.set("gradient_accumulation_steps", "3");
  // Stage 2 reduces every micro-step: 3 volumes of gradients and one of parameters, for 1 and 1.
  EXPECT_EQ(mem::plan_rows(subject, {2}, {4})[0].plan.traffic_per_step.model_bytes(), 2 * once);
}

TEST(MemFit, TheStageIsTheLowestThatFits) {
  const std::int64_t p = 32 * 512 * 1000;
  const mem::Subject subject = subject_of(std::to_string(p), "bf16", "1MB");
  const auto rows = mem::plan_rows(subject, {0, 1, 2, 3}, {8});
  for (const mem::Row& row : rows) {
    const auto result = mem::fit_budget(subject, std::to_string(row.peak_bytes()), 8);
    EXPECT_TRUE(result.fit.fits);
    EXPECT_LE(result.row.stage, row.stage);
    EXPECT_LE(result.row.peak_bytes(), row.peak_bytes());
    const std::string text = mem::fit_text(subject, result);
    EXPECT_THAT(text, HasSubstr("stage " + std::to_string(result.row.stage) + " fits: peak " +
                                std::to_string(result.row.peak_bytes()) + " bytes"));
    EXPECT_THAT(text, HasSubstr(result.fit.json));
    for (const std::string& reason : result.fit.reasons) EXPECT_THAT(text, HasSubstr(reason));
  }
  // One byte less than stage 0 needs, which has no size to lower: stage 1.
  const auto result = mem::fit_budget(subject, std::to_string(16 * p + 1'000'000), 8);
  EXPECT_EQ(result.row.stage, 1);
  EXPECT_EQ(mem::fit_json(subject, result)["stage"], 1);
  EXPECT_EQ(mem::fit_json(subject, result)["patch"]["zero_optimization"]["stage"], 1);
  EXPECT_EQ(mem::fit_json(subject, result)["budget_bytes"], 16 * p + 1'000'000);
}

TEST(MemFit, NothingFits) {
  const mem::Subject subject = subject_of("1e8", "bf16");
  for (const char* budget : {"0", "1kB"}) {
    const auto result = mem::fit_budget(subject, budget, 64);
    EXPECT_FALSE(result.fit.fits);
    EXPECT_THAT(mem::fit_text(subject, result), HasSubstr("NOTHING FITS; the smallest is stage 3"));
    EXPECT_EQ(mem::fit_json(subject, result)["fits"], false);
    EXPECT_EQ(mem::fit_chart(subject, result).budget_bytes, zero::parse_bytes(budget));
  }
  EXPECT_THROW(mem::fit_budget(subject, "lots", 2), zero::ConfigError);
  EXPECT_THROW(mem::fit_budget(subject, "-5", 2), zero::ConfigError);
}

}  // namespace
