// The text of a configuration: places, comments, duplicates, what is no JSON, numbers exactly.
#include <limits>

#include "src/config_json.hpp"
#include "src/config_number.hpp"
#include "tests/config_fixtures.hpp"

namespace zero {
namespace {

using config_test::parse;
using config_test::refusal;
using detail::JsonNode;
using detail::Whole;

JsonNode tree(std::string_view text) {
  detail::Problems problems;
  JsonNode node = detail::parse_json(text, "t", problems);
  problems.throw_if_any();
  return node;
}

std::string at(const detail::Place& place) { return detail::to_string(place); }

TEST(ConfigJson, EveryKeyAndValueHasItsPlace) {
  const JsonNode root = tree(
      "\n"
      " { /* \"a\": 1 */ \"a\": 12, // end\n"
      "\t\"b\\\"\\\\\" :[true,false , null,-1.5e3],\"c\":{\"d\": \"x\\ny\" }, \"\\u00e9\": "
      "\"\\\\\"\n"
      "}");
  EXPECT_EQ(at(root.place), "t:2:2");
  ASSERT_EQ(root.members.size(), 4u);
  EXPECT_EQ(at(root.members[0].place), "t:2:17");
  EXPECT_EQ(at(root.members[0].value.place), "t:2:22");
  EXPECT_EQ(root.members[0].value.text, "12");
  EXPECT_EQ(root.members[1].key, "b\"\\");
  EXPECT_EQ(at(root.members[1].place), "t:3:2");
  const JsonNode& list = root.members[1].value;
  EXPECT_EQ(at(list.place), "t:3:11");
  ASSERT_EQ(list.items.size(), 4u);
  EXPECT_EQ(at(list.items[0].place), "t:3:12");
  EXPECT_EQ(at(list.items[1].place), "t:3:17");
  EXPECT_EQ(at(list.items[2].place), "t:3:25");
  EXPECT_EQ(at(list.items[3].place), "t:3:30");
  EXPECT_EQ(list.items[3].text, "-1.5e3");
  EXPECT_EQ(at(root.members[2].value.members[0].value.place), "t:3:48");
  EXPECT_EQ(at(root.members[3].place), "t:3:58");
  EXPECT_EQ(at(root.members[3].value.place), "t:3:68");
  EXPECT_EQ(at(tree("  42").place), "t:1:3");  // a number that ends with the text
  EXPECT_EQ(tree("42").text, "42");
}

TEST(ConfigJson, WritesWhatItReads) {
  const std::string text =
      "{\n  \"a\": [1, 2e8, -0.50],\n  \"b\": {},\n  \"c\": {\n    \"d\": null,\n    \"e\": "
      "\"\\\"\\\\\\u0009\"\n  },\n  \"f\": [\n    {\n      \"g\": true\n    },\n    [false]\n  "
      "]\n}";
  EXPECT_EQ(detail::write_json(tree(text)), text);
  EXPECT_EQ(parse("{ // c\n \"_x\" : [ ] }").json(), "{\n  \"_x\": []\n}");
}

TEST(ConfigJson, WhatIsNoJsonIsRefusedWithItsPlace) {
  const struct {
    const char* text;
    const char* place;
  } kCases[] = {
      {"", "file.json:1:1: "},
      {"{\"a\": True}", "file.json:1:7: "},
      {"{\n  \"gradient_clipping\": 1\n  \"fp16\": {}\n}", "file.json:3:"},
      {"{\"gradient_clipping\": 1,}", "file.json:1:25: "},
      {"{} {}", "file.json:1:4: "},
      {"{} x", "file.json:1:4: "},
      {"{\"gradient_clipping\": 01}", "file.json:1:23: "},
      {"{\"gradient_clipping\": NaN}", "file.json:1:23: "},
      {"{'a': 1}", "file.json:1:2: "},
      {"{\"gradient_clipping\" \"x\"}", "file.json:1:22: "},
      {"{\"_a\": \"unexpected string literal", "file.json:1:33: "},
      {"{\"gradient_clipping\": 1", "file.json:1:23: "},
      {"{ /* open", "file.json:1:"},
      {"{\"gradient_clipping\": \"\xff\"}", "file.json:1:24: "},
  };
  for (const auto& c : kCases) {
    const std::string message = refusal(c.text);
    EXPECT_CONTAINS(message, c.place) << c.text;
    EXPECT_CONTAINS(message, "not JSON") << c.text;
  }
  // Beyond double: the key is named as well.
  const std::string message = refusal("{\"optimizer\": {\"params\": {\"lr\": 1e999}}}");
  EXPECT_CONTAINS(message, "file.json:1:");
  EXPECT_CONTAINS(message, "optimizer.params.lr: 1e999 is too large");
}

TEST(ConfigJson, ANulByteIsNoEndOfTheText) {
  using namespace std::string_literals;
  const struct {
    std::string text;
    const char* place;
  } kCases[] = {{"{}\0"s, "file.json:1:3: "},
                {"{}\n \0{\"nonsense\""s, "file.json:2:2: "},
                {"{\"fp16\"\0: {}}"s, "file.json:1:8: "},
                {"{} // note\0\n nonsense"s, "file.json:1:11: "},
                {"\0"s, "file.json:1:1: "}};
  for (const auto& c : kCases) {
    const std::string message = refusal(c.text);
    EXPECT_CONTAINS(message, c.place) << c.text;
    EXPECT_CONTAINS(message, "not JSON: a NUL byte") << c.text;
    EXPECT_FALSE(detail::is_json(c.text)) << c.text;
  }
}

TEST(ConfigJson, OnlyAnObjectIsAConfiguration) {
  for (const char* text : {"[]", "1", "\"x\"", "null"}) {
    EXPECT_CONTAINS(refusal(text), "file.json:1:1: ") << text;
  }
}

TEST(ConfigJson, CommentsAreAllowed) {
  const Config config = parse(
      "// one\n{ /* two\n */ \"gradient_clipping\": /**/ 2, \"_note\": {\"fp61\": 1}, \"//\": 1,\n"
      "\"//\": \"again\", \"//gradient_cliping\": 3 } // three");
  EXPECT_EQ(config.gradient_clipping, 2.0);
}

TEST(ConfigJson, DuplicateKeysAreRefusedWithBothLines) {
  const std::string message = refusal(
      "{\n\"zero_optimization\": {\n\"stage\": 1,\n\"overlap_comm\": true,\n\"stage\": 1\n}\n}");
  EXPECT_CONTAINS(message, "file.json:5:1: zero_optimization.stage");
  EXPECT_CONTAINS(message, "duplicate");
  EXPECT_CONTAINS(message, "lines 3 and 5");
  EXPECT_CONTAINS(refusal("{\"fp16\": {},\n \"fp16\": {}}"), "lines 1 and 2");
  // Inside a comment nothing is a key.
  EXPECT_EQ(parse("{\"_x\": {\"a\": 1, \"a\": 2, \"b\": [{\"c\": 1, \"c\": 1}]},\n"
                  "\"gradient_clipping\": 2}")
                .gradient_clipping,
            2.0);
  EXPECT_CONTAINS(refusal("{\"_x\": {}, \"fp16\": {\"enabled\": true, \"enabled\": true}}"),
                  "fp16.enabled: duplicate");
  // The same key in two sections is two keys.
  EXPECT_NO_THROW(parse("{\"fp16\": {\"enabled\": false}, \"bf16\": {\"enabled\": false}}"));
}

TEST(ConfigJson, DeepNestingIsRefused) {
  for (const int depth : {detail::kMaxJsonDepth - 1, detail::kMaxJsonDepth, 100000}) {
    const std::string text = "{\"_x\": " + std::string(static_cast<std::size_t>(depth), '[');
    std::string closed = text + std::string(static_cast<std::size_t>(depth), ']') + "}";
    if (depth < detail::kMaxJsonDepth) {
      EXPECT_NO_THROW(parse(closed));
    } else {
      EXPECT_CONTAINS(refusal(closed), "nested more than 64 deep");
      EXPECT_CONTAINS(refusal(text), "nested more than 64 deep");
    }
  }
}

TEST(ConfigJson, AllProblemsInOneMessage) {
  const std::string message = refusal(
      "{\"train_batch_size\": 0, \"gradient_cliping\": 1,\n \"zero_optimization\": {\"stage\": 9, "
      "\"reduce_bucket_size\": 1.5}, \"fp16\": {\"hysteresis\": true},\n\"fp16\": {}, "
      "\"zenflow\": {}}");
  // Duplicates are told along with the keys.
  EXPECT_CONTAINS(message, "duplicate");
  EXPECT_CONTAINS(message, "zero_optimization.stage: 9");
  const std::string keys = refusal(
      "{\"train_batch_size\": 0, \"gradient_cliping\": 1,\n \"zero_optimization\": {\"stage\": 9, "
      "\"reduce_bucket_size\": 1.5}, \"fp16\": {\"hysteresis\": true}, \"amp\": true, "
      "\"optimizer\": {}}");
  for (const char* part : {"7 problems", "train_batch_size: 0", "gradient_clipping",
                           "zero_optimization.stage: 9", "file.json:2:", "reduce_bucket_size: 1.5",
                           "fp16.hysteresis: true", "amp: ", "optimizer.type: is missing"}) {
    EXPECT_CONTAINS(keys, part);
  }
}

TEST(ConfigJson, AMessageHasABound) {
  std::string text = "{";
  for (int i = 0; i < 2000; ++i) {
    text += "\"" + std::string(500, 'k') + std::to_string(i) + "\": 1,";
  }
  const std::string message = refusal(text + "\"x\": 1}");
  EXPECT_LT(message.size(), 16000u);
  EXPECT_CONTAINS(message, "40 or more problems");
}

TEST(ConfigJson, IsJson) {
  for (const char* text :
       {"1", "true", "null", "\"x\"", "[1]", "{}", "5e8", " 1 // c", "1e999", "[1e999]"}) {
    EXPECT_TRUE(detail::is_json(text)) << text;
  }
  for (const char* text : {"", "SGD", "True", "1 2", "[1", "01", "+1", ".5", "{1e999}"}) {
    EXPECT_FALSE(detail::is_json(text)) << text;
  }
}

TEST(ConfigNumber, Grammar) {
  for (const char* text : {"0", "-0", "10", "1.5", "1e5", "1E+5", "1.25e-3", "0.0e0"}) {
    EXPECT_TRUE(detail::is_json_number(text)) << text;
  }
  for (const char* text :
       {"", "-", "+1", "01", "1.", ".5", "1e", "1e+", "0x1", "1 ", " 1", "1e5.5", "inf", "nan"}) {
    EXPECT_FALSE(detail::is_json_number(text)) << text;
  }
}

TEST(ConfigNumber, WholeNumbersInAnySpelling) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  const struct {
    const char* text;
    Whole verdict;
    std::int64_t value;
  } kCases[] = {
      {"0", Whole::kYes, 0},
      {"-0", Whole::kYes, 0},
      {"0.000", Whole::kYes, 0},
      {"0e99999999999999999999", Whole::kYes, 0},
      {"0e-99999999999999999999", Whole::kYes, 0},
      {"5e8", Whole::kYes, 500000000},
      {"5E+8", Whole::kYes, 500000000},
      {"500000000.0", Whole::kYes, 500000000},
      {"500000000", Whole::kYes, 500000000},
      {"5000000000e-1", Whole::kYes, 500000000},
      {"1.5e1", Whole::kYes, 15},
      {"0.00012e5", Whole::kYes, 12},
      {"-12.00", Whole::kYes, -12},
      {"9007199254740993.0", Whole::kYes, 9007199254740993},  // 2^53 + 1: no double
      {"9223372036854775807", Whole::kYes, kMax},
      {"9.223372036854775807e18", Whole::kYes, kMax},
      {"9223372036854775807.00", Whole::kYes, kMax},
      {"-9223372036854775808", Whole::kYes, kMin},
      {"1e18", Whole::kYes, 1000000000000000000},
      {"9223372036854775808", Whole::kTooLarge, 0},
      {"-9223372036854775809", Whole::kTooLarge, 0},
      {"1e19", Whole::kTooLarge, 0},
      {"1e30", Whole::kTooLarge, 0},
      {"1e99999999999999999999", Whole::kTooLarge, 0},
      {"15099494.4", Whole::kFractional, 0},
      {"1e-1", Whole::kFractional, 0},
      {"1.5e0", Whole::kFractional, 0},
      {"1e-99999999999999999999", Whole::kFractional, 0},
  };
  for (const auto& c : kCases) {
    const detail::WholeNumber whole = detail::parse_whole(c.text);
    EXPECT_EQ(whole.verdict, c.verdict) << c.text;
    EXPECT_EQ(whole.value, c.value) << c.text;
  }
}

TEST(ConfigNumber, Doubles) {
  EXPECT_EQ(detail::parse_double("0.1"), 0.1);
  EXPECT_EQ(detail::parse_double("-1.5E+3"), -1500.0);
  EXPECT_EQ(detail::parse_double("1e-999"), 0.0);
  EXPECT_EQ(detail::parse_double("5e-324"), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(detail::parse_double("1.7976931348623157e308"), std::numeric_limits<double>::max());
  EXPECT_EQ(detail::parse_double("1e309"), std::nullopt);
  // Too small and too large in any spelling.
  const std::string zeros(400, '0');
  EXPECT_EQ(detail::parse_double("0." + zeros + "1"), 0.0);
  EXPECT_EQ(detail::parse_double("-0." + zeros + "1e5"), 0.0);
  EXPECT_EQ(detail::parse_double("0." + zeros + "1e402"), 10.0);
  EXPECT_EQ(detail::parse_double("1" + zeros), std::nullopt);
  EXPECT_EQ(detail::parse_double("-1" + zeros), std::nullopt);
  EXPECT_EQ(detail::parse_double("1" + zeros + "e-1"), std::nullopt);
  EXPECT_EQ(detail::parse_double("1" + zeros + "e-900"), 0.0);
  EXPECT_EQ(detail::parse_double("1e99999999999999999999"), std::nullopt);
  EXPECT_EQ(detail::parse_double("1e-99999999999999999999"), 0.0);
  EXPECT_EQ(parse("{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": 0." + zeros + "1}}}")
                .optimizer.lr,
            0.0);
}

}  // namespace
}  // namespace zero
