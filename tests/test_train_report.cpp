// JSON lines read back by a JSON parser; curve, tables and durations by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/train_report.hpp"

namespace {

train::RankAccount account_of(std::int64_t base) {
  train::RankAccount a;
  for (std::size_t c = 0; c < zero::kCategoryCount; ++c) {
    a.memory[c] = {base + static_cast<std::int64_t>(c), 2 * base + static_cast<std::int64_t>(c)};
  }
  a.total = {base * 10, base * 20};
  a.traffic.at(zero::Purpose::kGradients, zero::Verb::kReduceScatter) = {3, base};
  return a;
}

TEST(TrainReport, JsonLinesHoldTheValues) {
  const std::string path = testing::TempDir() + "train_lines.json";
  {
    train::JsonLines json(path);
    train::StepLine step;
    step.step = 4;
    step.loss = 1.5;
    step.grad_norm = NAN;
    step.loss_scale = 65536;
    step.skipped = true;
    step.lr = "[0.003,0.001]";
    json.step(step);
    json.plan(3, account_of(200));
    json.memory(2, account_of(100));
    json.traffic(2, 7, account_of(100));
    json.final({2.25, 0xabcu, 7, true});
  }
  std::ifstream file(path);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[1]["type"], "plan");
  EXPECT_EQ(lines[1]["ranks"], 3);
  EXPECT_EQ(lines[1]["grads"]["current"], 201);
  EXPECT_EQ(lines[1]["total"]["peak"], 4000);
  lines.erase(lines.begin() + 1);
  EXPECT_EQ(lines[0]["type"], "step");
  EXPECT_EQ(lines[0]["loss"], 1.5);
  EXPECT_EQ(lines[0]["loss_bits"], "3ff8000000000000");
  EXPECT_EQ(lines[0]["grad_norm"], "nan");
  EXPECT_EQ(lines[0]["skipped"], true);
  EXPECT_EQ(lines[0]["lr"][1], 0.001);
  EXPECT_EQ(lines[1]["rank"], 2);
  EXPECT_EQ(lines[1]["params"]["current"], 100);
  EXPECT_EQ(lines[1]["workspace"]["peak"], 207);
  EXPECT_EQ(lines[1]["total"]["peak"], 2000);
  EXPECT_EQ(lines[2]["gradients"]["reduce_scatter"]["calls"], 3);
  EXPECT_EQ(lines[2]["params"]["all_gather"]["bytes"], 0);
  EXPECT_EQ(lines[2]["model_bytes"], 100);
  EXPECT_EQ(lines[3]["val_loss"], 2.25);
  EXPECT_EQ(lines[3]["weights_hash"], "0000000000000abc");
}

TEST(TrainReport, TheFirstDifferenceToThePlanIsNamed) {
  std::vector<train::RankAccount> ranks(3, account_of(100));
  EXPECT_EQ(train::difference(account_of(100), ranks), "");
  ranks[2].total.peak_bytes += 1;
  EXPECT_EQ(train::difference(account_of(100), ranks),
            "rank 2 holds other bytes of total than planned (now / peak): 1000 / 2001 measured, "
            "1000 / 2000 planned");
  ranks[1].memory[6].peak_bytes -= 1;
  const std::string gather = train::difference(account_of(100), ranks);
  EXPECT_NE(gather.find("rank 1 holds other bytes of gather"), std::string::npos) << gather;
}

TEST(TrainReport, AccountsSurviveTheJourneyBetweenRanks) {
  const train::RankAccount a = account_of(std::int64_t{1} << 50);
  const std::vector<double> packed = a.pack();
  ASSERT_EQ(packed.size(), train::RankAccount::kPacked);
  const train::RankAccount b = train::RankAccount::unpack(packed);
  for (std::size_t c = 0; c < zero::kCategoryCount; ++c) {
    EXPECT_EQ(a.memory[c].current_bytes, b.memory[c].current_bytes);
    EXPECT_EQ(a.memory[c].peak_bytes, b.memory[c].peak_bytes);
  }
  EXPECT_EQ(a.total.peak_bytes, b.total.peak_bytes);
  EXPECT_EQ(b.traffic.model_bytes(), std::int64_t{1} << 50);
}

TEST(TrainReport, CurveGoesFromTheHighestMeanToTheLowest) {
  EXPECT_EQ(train::loss_curve({}, 10, 4), "");
  const std::vector<double> losses = {3, 3, 2, 2, 1, 1};
  EXPECT_EQ(train::loss_curve(losses, 3, 3),
            "   3.000 |*\n"
            "   2.000 | *\n"
            "   1.000 |  *\n"
            "         +---\n"
            "          1 6  (step)\n");
  const std::vector<double> flat = {1.0};
  EXPECT_NE(train::loss_curve(flat, 64, 12).find('*'), std::string::npos);
}

TEST(TrainReport, TablesShowEveryRankUpToEightAndSayWhereTheRestIs) {
  std::vector<train::RankAccount> ranks;
  for (int r = 0; r < 9; ++r) ranks.push_back(account_of(1000 + r));
  const std::string memory = train::memory_table(account_of(7), ranks);
  for (const char* text : {"rank 0", "rank 7", "1007 / 2014", "exp_avg_sq", "ranks 8 to 8"}) {
    EXPECT_NE(memory.find(text), std::string::npos) << text << '\n' << memory;
  }
  const std::string traffic = train::traffic_table(ranks, 10);
  EXPECT_NE(traffic.find("gradients reduce_scatter"), std::string::npos);
  EXPECT_EQ(traffic.find("broadcast"), std::string::npos);
  EXPECT_NE(traffic.find("100.1"), std::string::npos);
}

TEST(TrainReport, Durations) {
  EXPECT_EQ(train::Progress::duration(0), "0:00");
  EXPECT_EQ(train::Progress::duration(65), "1:05");
  EXPECT_EQ(train::Progress::duration(7384), "2:03:04");
}

TEST(TrainReport, AFileThatCannotBeWrittenIsNamed) {
  EXPECT_THROW(train::JsonLines("/nonexistent/lines.json"), std::runtime_error);
}

}  // namespace
