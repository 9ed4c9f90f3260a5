// Runs written by hand, read and compared; the script that gnuplot gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/mem_format.hpp"
#include "tools/mem_report.hpp"
#include "zero/error.hpp"

namespace {

using testing::HasSubstr;

// Categories hold base, base + 1, ...; peaks are ten times that.
std::string line(const std::string& head, int base) {
  std::string text = "{" + head;
  const auto add = [&](const std::string& name, int bytes) {
    text += ",\"" + name + "\":{\"current\":" + std::to_string(bytes) +
            ",\"peak\":" + std::to_string(10 * bytes) + "}";
  };
  for (int c = 0; c < zero::kCategoryCount; ++c) {
    add(std::string(zero::category_name(static_cast<zero::Category>(c))), base + c);
  }
  add("total", 8 * base + 28);
  return text + "}\n";
}
std::string plan(int base, int ranks = 1) {
  return line("\"type\":\"plan\",\"ranks\":" + std::to_string(ranks), base);
}
std::string memory(int rank, int base) {
  return line("\"type\":\"memory\",\"rank\":" + std::to_string(rank), base);
}

mem::Run read(const std::string& text) {
  std::istringstream in(text);
  return mem::read_run(in, "run.jsonl");
}
std::string refusal(const std::string& text) {
  try {
    read(text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "not refused";
}

const std::string kStep = "{\"type\":\"step\",\"step\":1,\"loss\":\"nan\"}\n";
const std::string kFinal = "{\"type\":\"final\",\"val_loss\":5.5}\n";

TEST(MemReport, EqualRunsAreSaidToBeEqual) {
  const mem::Run run = read(kStep + plan(100, 2) + memory(1, 100) + memory(0, 100) + kFinal);
  ASSERT_EQ(run.ranks.size(), 2u);
  EXPECT_EQ(run.plan.categories[3].current_bytes, 103);
  EXPECT_EQ(run.plan.categories[7].peak_bytes, 1070);
  EXPECT_EQ(run.ranks[1].total.peak_bytes, 8280);
  EXPECT_TRUE(mem::differences(run).empty());
  const std::string text = mem::report_text(run);
  EXPECT_THAT(text, HasSubstr("ranks 0 to 1\n"));
  EXPECT_THAT(text, HasSubstr("planned = measured on 2 ranks"));
  EXPECT_EQ(mem::report_json(run)["equal"], true);
  EXPECT_EQ(mem::report_chart("run", run).bars.size(), 3u);
}

TEST(MemReport, DifferencesNameRankAndCategory) {
  mem::Run run = read(plan(100, 3) + memory(0, 100) + memory(1, 100) + memory(2, 100) + kFinal);
  run.ranks[1].categories[5].peak_bytes += 24;    // bucket
  run.ranks[1].categories[0].current_bytes -= 4;  // params
  run.ranks[2].total.peak_bytes += 1;
  const auto found = mem::differences(run);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(mem::to_string(found[0]),
            "rank 1, params, now: planned 100 bytes, measured 96: 4 too few");
  EXPECT_EQ(mem::to_string(found[1]),
            "rank 1, bucket, peak: planned 1050 bytes, measured 1074: 24 too many");
  EXPECT_EQ(mem::to_string(found[2]),
            "rank 2, total, peak: planned 8280 bytes, measured 8281: 1 too many");
  const std::string text = mem::report_text(run);
  for (const char* part :
       {"rank 0\n", "rank 1\n", "rank 2\n", "+24\n", "-4 ", "MEASURED DIFFERS"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  const auto json = mem::report_json(run);
  EXPECT_EQ(json["equal"], false);
  EXPECT_EQ(json["differences"].size(), 3u);
  EXPECT_EQ(json["differences"][1]["category"], "bucket");
  EXPECT_EQ(json["ranks"][1]["memory"]["bucket"]["difference"]["peak"], 24);
  EXPECT_EQ(json["ranks"][1]["memory"]["bucket"]["planned"]["peak"], 1050);
}

TEST(MemReport, RanksThatHoldTheSameShareATable) {
  mem::Run run =
      read(plan(1, 4) + memory(0, 1) + memory(1, 1) + memory(2, 2) + memory(3, 1) + kFinal);
  const std::string text = mem::report_text(run);
  EXPECT_THAT(text, HasSubstr("ranks 0 to 1, 3\n"));
  EXPECT_THAT(text, HasSubstr("rank 2\n"));
}

TEST(MemReport, WhatIsNoRunIsRefusedWithItsLine) {
  const std::string good = plan(1) + memory(0, 1) + kFinal;
  EXPECT_EQ(refusal(good), "not refused");
  EXPECT_EQ(refusal(good.substr(0, good.size() - 1)), "not refused");  // no newline at the end
  EXPECT_THAT(refusal(""), HasSubstr("run.jsonl: the file is empty"));
  EXPECT_THAT(refusal("hello\n"), HasSubstr("run.jsonl:1: no JSON"));
  EXPECT_THAT(refusal(kStep + "\n" + good), HasSubstr("run.jsonl:2: no JSON"));
  EXPECT_THAT(refusal("[1]\n"), HasSubstr("run.jsonl:1: no object with a \"type\""));
  EXPECT_THAT(refusal("{\"type\":3}\n"), HasSubstr("run.jsonl:1: no object with a \"type\""));
  EXPECT_THAT(refusal(good.substr(0, good.size() - 9)), HasSubstr("run.jsonl:3: the line is cut"));
  EXPECT_THAT(refusal(kStep), HasSubstr("no line of type \"memory\""));
  EXPECT_THAT(refusal(plan(1)), HasSubstr("no line of type \"memory\""));
  EXPECT_THAT(refusal(memory(0, 1)), HasSubstr("no line of type \"plan\""));
  EXPECT_THAT(refusal(good + plan(1)), HasSubstr("run.jsonl:4: a second plan"));
  EXPECT_THAT(refusal(good + memory(0, 1)), HasSubstr("run.jsonl:4: rank 0 is there twice"));
  EXPECT_THAT(refusal(good + kFinal), HasSubstr("run.jsonl:4: a second final line"));
  EXPECT_THAT(refusal(good + memory(2, 1)),
              HasSubstr("the memory of rank 2 is there, the plan is for 1 rank"));
}

TEST(MemReport, ARunCutBetweenLinesIsRefused) {
  const std::string two = kStep + plan(1, 3) + memory(0, 1) + memory(1, 1);
  EXPECT_EQ(refusal(two + memory(2, 1) + kFinal), "not refused");
  EXPECT_THAT(refusal(two), HasSubstr("the memory of rank 2 is missing, the plan is for 3 ranks"));
  EXPECT_THAT(refusal(two + memory(2, 1)), HasSubstr("no line of type \"final\""));
  EXPECT_THAT(refusal(plan(1, 2) + memory(1, 1) + kFinal),
              HasSubstr("the memory of rank 0 is missing"));
}

TEST(MemReport, ThePlanSaysForHowManyRanks) {
  const std::string rest = memory(0, 1) + kFinal;
  EXPECT_THAT(refusal(line("\"type\":\"plan\"", 1) + rest),
              HasSubstr("run.jsonl:1: \"ranks\" is missing: written by an older zero-train"));
  EXPECT_THAT(refusal(plan(1, 0) + rest), HasSubstr("run.jsonl:1: \"ranks\" is 0"));
  EXPECT_THAT(refusal(plan(1, -1) + rest), HasSubstr("run.jsonl:1: \"ranks\" is -1"));
  EXPECT_THAT(refusal(plan(1, 2147483647) + rest), HasSubstr("the memory of rank 1 is missing"));
}

TEST(MemReport, FiguresMustBeWholeAndThere) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = plan(1) + memory(0, 1) + kFinal;
    text.replace(text.rfind(from), from.size(), to);
    return refusal(text);
  };
  EXPECT_THAT(with("\"bucket\"", "\"backet\""), HasSubstr("run.jsonl:2: \"bucket\" is missing"));
  EXPECT_THAT(with("\"current\":6", "\"curent\":6"),
              HasSubstr("run.jsonl:2: \"bucket.current\" is missing"));
  EXPECT_THAT(with("\"current\":6", "\"current\":-6"), HasSubstr("\"bucket.current\" is -6"));
  EXPECT_THAT(with("\"current\":6", "\"current\":6.5"), HasSubstr("\"bucket.current\" is 6.5"));
  EXPECT_THAT(with("\"current\":6", "\"current\":18446744073709551615"), HasSubstr("whole number"));
  EXPECT_THAT(with("\"rank\":0", "\"rank\":\"0\""), HasSubstr("\"rank\" is \"0\""));
  EXPECT_THAT(with("\"total\":{\"current\":36,\"peak\":360}", "\"total\":36"),
              HasSubstr("\"total.current\" is missing"));
}

TEST(MemPlot, OnlySvgAndPng) {
  EXPECT_EQ(mem::image_format("a b.svg"), mem::ImageFormat::kSvg);
  EXPECT_EQ(mem::image_format("x.png"), mem::ImageFormat::kPng);
  for (const char* bad : {"", "svg", "x.pdf", "x.svg.gz", "x"}) {
    EXPECT_THROW(mem::image_format(bad), zero::ConfigError) << bad;
  }
}

TEST(MemFormat, WhatIsNoUtf8BecomesReplacementCharacters) {
  // First and last character of each length, and the neighbours that are none (RFC 3629).
  for (const char* good :
       {"", "a b", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xef\xbf\xbd", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(mem::valid_utf8(good), good);
  }
  const auto replaced = [](int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += "\xef\xbf\xbd";
    return out;
  };
  EXPECT_EQ(mem::valid_utf8("a\xff"
                            "b"),
            "a" + replaced(1) + "b");
  EXPECT_EQ(mem::valid_utf8("\x80"), replaced(1));
  EXPECT_EQ(mem::valid_utf8("\xc1\xbf"), replaced(2));
  EXPECT_EQ(mem::valid_utf8("\xe0\x9f\xbf"), replaced(3));  // longer than it must be
  EXPECT_EQ(mem::valid_utf8("\xed\xa0\x80"), replaced(3));  // half of a pair in UTF-16
  EXPECT_EQ(mem::valid_utf8("\xef\xbf\xbe"), replaced(1));  // U+FFFE, none in XML
  EXPECT_EQ(mem::valid_utf8("a\xef\xbf\xbf\xef\xbf\xbe"), "a" + replaced(2));
  EXPECT_EQ(mem::valid_utf8("\xf0\x8f\xbf\xbf"), replaced(4));
  EXPECT_EQ(mem::valid_utf8("\xf4\x90\x80\x80"), replaced(4));  // beyond U+10FFFF
  EXPECT_EQ(mem::valid_utf8("\xc3"
                            "A\xc3\xa9\xe2\x82"),
            replaced(1) + "A\xc3\xa9" + replaced(1));  // cut off
  EXPECT_EQ(mem::valid_utf8("a\"\\\n\x01/"), "a\"\\\n\x01/");
}

TEST(MemPlot, TitlesAreUtf8) {
  mem::Chart chart;
  chart.title = "caf\xe9.jsonl";
  EXPECT_THAT(mem::gnuplot_script(chart, mem::ImageFormat::kSvg),
              HasSubstr("set title 'caf\xef\xbf\xbd.jsonl'"));
}

TEST(MemPlot, TheScriptHoldsTheDataAndQuotesTheTitle) {
  mem::Chart chart;
  chart.title = "it's `touch x` \"$(touch y)\"\nset output 'z'";
  chart.bars.push_back(
      {"stage 3\n8 ranks", {1'000'000'000, 0, 0, 0, 0, 0, 0, 5}, 0, 1'000'000'005});
  const std::string script = mem::gnuplot_script(chart, mem::ImageFormat::kSvg);
  EXPECT_THAT(script, HasSubstr("set title 'it''s `touch x` \"$(touch y)\" set output ''z'''\n"));
  EXPECT_THAT(script, HasSubstr("\"stage 3\\n8 ranks\" 1.000000000 0.000000000"));
  EXPECT_THAT(script, HasSubstr("0.000000005 0.000000000 1.000000005 \"1.00\"\n"));
  EXPECT_THAT(script, testing::Not(HasSubstr("activations")));
  EXPECT_THAT(script, testing::Not(HasSubstr("budget")));
  chart.bars[0].activation_bytes = 1;
  chart.budget_bytes = 2'000'000'000;
  const std::string more = mem::gnuplot_script(chart, mem::ImageFormat::kPng);
  EXPECT_THAT(more, HasSubstr("title 'activations'"));
  EXPECT_THAT(more, HasSubstr("2.000000000 with lines"));
  EXPECT_THAT(more, HasSubstr("set terminal pngcairo"));
}

}  // namespace
