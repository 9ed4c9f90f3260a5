// The reader of zero-case against files written by hand: what each key becomes, and that whatever
// is wrong is refused with its JSON path.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "tools/case_check.hpp"
#include "tools/case_reader.hpp"

namespace zero::cases {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();

// A file around one list of steps, with two parameters and an alias.
std::string with_steps(const std::string& steps, const std::string& more = "") {
  return R"({"world_size": 2, "config": {}, "groups": [{}, {"lr": 2}], "parameters": [
    {"name": "w", "shape": [3]},
    {"name": "v.x", "shape": [2, 0], "group": 1, "dtype": "bf16", "unit": "u"},
    {"name": "tied", "alias_of": "w", "unit": "u"}], "steps": )" +
         steps + more + "}";
}

std::string micro(const std::string& gradients) {
  return with_steps(R"([{"micro_steps": [{"gradients": )" + gradients + "}]}]");
}

std::string error_of(const std::string& text) {
  try {
    read_case(text);
  } catch (const CaseError& error) {
    return error.what();
  }
  return "no error";
}

Value value_of(const std::string& json, std::int64_t numel = 4) {
  return Value::read(parse_json(json), "v", numel, 2);
}

TEST(CaseValue, EveryForm) {
  EXPECT_THAT(*value_of("2.5").elements(1), ElementsAre(2.5, 2.5, 2.5, 2.5));
  EXPECT_THAT(*value_of("[1, -2, \"inf\", \"-inf\"]").elements(0), ElementsAre(1, -2, kInf, -kInf));
  EXPECT_THAT(*value_of(R"({"fill": 7, "at": {"3": "inf", "0": -1}})").elements(0),
              ElementsAre(-1, 7, 7, kInf));
  EXPECT_TRUE(std::isnan((*value_of("\"nan\"", 1).elements(0))[0]));
  EXPECT_TRUE(value_of("7", 0).elements(0)->empty());
  EXPECT_TRUE(value_of("[]", 0).elements(0)->empty());
  EXPECT_FALSE(value_of("null").elements(0).has_value());
}

TEST(CaseValue, PerRank) {
  const Value value = value_of(R"({"ranks": [null, {"fill": 0, "at": {"1": 5}}]})");
  EXPECT_FALSE(value.elements(0).has_value());
  EXPECT_THAT(*value.elements(1), ElementsAre(0, 5, 0, 0));
  EXPECT_FALSE(value.given(0));
  EXPECT_TRUE(value.given(1));
  EXPECT_TRUE(value.given_anywhere());
  EXPECT_FALSE(value_of(R"({"ranks": [null, null]})").given_anywhere());
}

TEST(CaseReader, DefaultsAndPlainFile) {
  const CaseFile file = read_case(micro(R"({"w": 1})"));
  EXPECT_EQ(file.tolerance, 0.0);
  EXPECT_THAT(file.stages, ElementsAre(0, 1, 2, 3));
  ASSERT_EQ(file.phases.size(), 1u);
  const CasePhase& phase = file.phases[0];
  EXPECT_EQ(phase.world_size, 2);
  EXPECT_THAT(*phase.init[0].elements(1), ElementsAre(0, 0, 0));
  ASSERT_EQ(phase.steps.size(), 1u);
  EXPECT_EQ(phase.steps[0].repeat, 1);
  EXPECT_FALSE(phase.steps[0].expect.has_value());
  const MicroStep& micro_step = phase.steps[0].micro_steps.at(0);
  EXPECT_EQ(micro_step.repeat, 1);
  EXPECT_FALSE(micro_step.one_after_the_other);
  ASSERT_EQ(micro_step.calls.size(), 1u);
  EXPECT_EQ(micro_step.calls[0].at(0).parameter, 0);
}

TEST(CaseReader, ParametersGroupsAndAliases) {
  const CaseFile file = read_case(micro("{}"));
  ASSERT_EQ(file.parameters.size(), 3u);
  EXPECT_THAT(file.parameters[1].shape, ElementsAre(2, 0));
  EXPECT_EQ(file.parameters[1].numel, 0);
  EXPECT_EQ(file.parameters[1].dtype, DType::kBFloat16);
  EXPECT_EQ(file.parameters[1].group, 1);
  EXPECT_EQ(file.parameters[0].unit, std::nullopt);
  EXPECT_EQ(file.parameters[2].storage, 0);
  EXPECT_EQ(file.parameters[2].numel, 3);
  EXPECT_EQ(file.parameters[2].unit, "u");
  ASSERT_EQ(file.groups.size(), 2u);
  EXPECT_EQ(file.groups[0].lr, std::nullopt);
  EXPECT_EQ(file.groups[1].lr, 2.0);
}

TEST(CaseReader, ConfigKeepsTheSpellingOfNumbers) {
  const CaseFile file = read_case(R"({"world_size": 1, "config": {"a": 5E+8, "b": [1e30, "x\n"],
      "c": 500000000.0, "d": {"e": null, "f": true}}, "parameters": [],
      "phases": [{"config": {"a": 5e8, "g": 18446744073709551615}, "steps": []}]})");
  EXPECT_EQ(file.config,
            R"({"a": 5E+8, "b": [1e30, "x\n"], "c": 500000000.0, "d": {"e": null, "f": true}})");
  EXPECT_EQ(file.phases[0].config_patch, R"({"a": 5e8, "g": 18446744073709551615})");
}

TEST(CaseReader, PhasesStepsAndExpectations) {
  const CaseFile file = read_case(R"({"about": "x", "tolerance": 1e-6, "world_size": 2,
    "config": {}, "stages": [1, 3], "expect_error": "e", "expect_warning": "w",
    "expect_bytes": {"1": {"params": 16, "grads": {"max": 20}}},
    "parameters": [{"name": "p", "shape": [2], "init": {"ranks": [[1, 2], 3]}},
                   {"name": "f", "shape": [], "requires_grad": false}],
    "phases": [
      {"steps": [], "expect": {"parameters": {"p": [1, 2]}}, "save": true},
      {"load": true, "steps": [
        {"repeat": 3, "set_groups": [{"betas": [0.5, 0.75], "eps": 1}],
         "set_requires_grad": {"p": false, "f": true},
         "micro_steps": [{"repeat": 2, "calls": [{"gradients": {"f": 1}}, {"gradients": {}}]}],
         "expect": {"applied": true, "skipped": false, "loss_scale": 4, "next_loss_scale": 8,
                    "grad_norm": "inf", "lr": [0.5], "gradients": {"f": 1}, "exp_avg": {"f": 2},
                    "exp_avg_sq": {"f": 3}, "master_weights": {"p": 4}}}]}]})");
  EXPECT_EQ(file.tolerance, 1e-6);
  EXPECT_THAT(file.stages, ElementsAre(1, 3));
  EXPECT_EQ(file.expect_error, "e");
  EXPECT_EQ(file.expect_warning, "w");
  const auto& bounds = file.expect_bytes.at(1);
  ASSERT_EQ(bounds.size(), 2u);
  EXPECT_EQ(bounds[0].category, Category::kParams);
  EXPECT_EQ(bounds[0].bytes, 16);
  EXPECT_FALSE(bounds[0].upper);
  EXPECT_EQ(bounds[1].bytes, 20);
  EXPECT_TRUE(bounds[1].upper);

  ASSERT_EQ(file.phases.size(), 2u);
  EXPECT_TRUE(file.phases[0].save && !file.phases[0].load);
  EXPECT_TRUE(!file.phases[1].save && file.phases[1].load);
  EXPECT_THAT(*file.phases[0].init[0].elements(0), ElementsAre(1, 2));
  EXPECT_THAT(*file.phases[0].init[0].elements(1), ElementsAre(3, 3));
  EXPECT_EQ(file.phases[0].expect->tensors.at(0).what, Tensor::kParams);

  const CaseStep& step = file.phases[1].steps.at(0);
  EXPECT_EQ(step.repeat, 3);
  EXPECT_EQ((*step.set_groups.at(0).betas)[1], 0.75);
  EXPECT_THAT(step.set_requires_grad, ElementsAre(std::pair{0, false}, std::pair{1, true}));
  EXPECT_EQ(step.micro_steps.at(0).repeat, 2);
  EXPECT_TRUE(step.micro_steps[0].one_after_the_other);
  EXPECT_EQ(step.micro_steps[0].calls.size(), 2u);
  const Expectation& expect = *step.expect;
  EXPECT_EQ(expect.applied, true);
  EXPECT_EQ(expect.skipped, false);
  EXPECT_EQ(expect.loss_scale, 4.0);
  EXPECT_EQ(expect.next_loss_scale, 8.0);
  EXPECT_EQ(expect.grad_norm, kInf);
  EXPECT_FALSE(expect.lr_of_all);
  EXPECT_THAT(expect.lr, ElementsAre(0.5));
  ASSERT_EQ(expect.tensors.size(), 4u);
  EXPECT_EQ(expect.tensors[0].what, Tensor::kGrads);
  EXPECT_EQ(expect.tensors[1].what, Tensor::kMasterWeights);
  EXPECT_EQ(expect.tensors[2].what, Tensor::kExpAvg);
  EXPECT_EQ(expect.tensors[3].what, Tensor::kExpAvgSq);
}

TEST(CaseReader, UnknownKeysAreRefusedAtEveryLevel) {
  const std::string ok = R"({"micro_steps": [{"gradients": {}}])";
  EXPECT_THAT(error_of(with_steps("[]", R"(, "foo": 1)")), HasSubstr("foo: unknown key"));
  EXPECT_THAT(error_of(with_steps("[" + ok + R"(, "foo": 1}])")), HasSubstr("steps[0].foo"));
  EXPECT_THAT(error_of(with_steps("[" + ok + R"(, "expect": {"foo": 1}}])")),
              HasSubstr("steps[0].expect.foo: unknown key; valid here: applied, "));
  EXPECT_THAT(error_of(with_steps("[" + ok + R"(, "set_groups": [{}, {"foo": 1}]}])")),
              HasSubstr("steps[0].set_groups[1].foo"));
  EXPECT_THAT(error_of(with_steps(R"([{"micro_steps": [{"gradients": {}, "foo": 1}]}])")),
              HasSubstr("steps[0].micro_steps[0].foo"));
  EXPECT_THAT(
      error_of(with_steps(R"([{"micro_steps": [{"calls": [{"gradients": {}, "foo": 1}]}]}])")),
      HasSubstr("steps[0].micro_steps[0].calls[0].foo"));
  EXPECT_THAT(error_of(micro(R"({"w": {"fill": 1, "at": {}, "foo": 1}})")),
              HasSubstr("gradients.w.foo"));
  EXPECT_THAT(error_of(with_steps("[]", R"(, "expect_bytes": {"4": {}})")),
              HasSubstr("expect_bytes.4"));
  EXPECT_THAT(error_of(with_steps("[]", R"(, "expect_bytes": {"1": {"foo": 1}})")),
              HasSubstr("expect_bytes.1.foo"));
  EXPECT_THAT(error_of(R"({"world_size": 1, "config": {}, "parameters": [
                            {"name": "a", "shape": [1], "foo": 1}], "steps": []})"),
              HasSubstr("parameters[0].foo"));
  EXPECT_THAT(error_of(R"({"world_size": 1, "config": {}, "parameters": [{"name": "a", "shape": []},
                            {"name": "b", "alias_of": "a", "init": 1}], "steps": []})"),
              HasSubstr("parameters[1].init"));
  EXPECT_THAT(error_of(R"({"world_size": 1, "config": {}, "parameters": [],
                            "phases": [{"steps": [], "foo": 1}]})"),
              HasSubstr("phases[0].foo"));
  EXPECT_THAT(error_of(R"({"world_size": 1, "config": {}, "parameters": [], "steps": [],
                            "phases": [{"steps": []}]})"),
              HasSubstr("steps: unknown key"));
}

TEST(CaseReader, WrongValuesAreRefusedByPath) {
  const std::string gradients = "steps[0].micro_steps[0].gradients.";
  EXPECT_THAT(error_of(micro(R"({"w": [1, 2]})")),
              HasSubstr(gradients + "w: 2 values for 3 elements"));
  EXPECT_THAT(error_of(micro(R"({"w": [1, 2, 3, 4]})")), HasSubstr("4 values for 3 elements"));
  EXPECT_THAT(error_of(micro(R"({"tied": {"ranks": [1]}})")),
              HasSubstr(gradients + "tied.ranks: 1 values for 2 ranks"));
  EXPECT_THAT(error_of(micro(R"({"w": {"fill": 1, "at": {"3": 1}}})")),
              HasSubstr("\"3\" is no index into 3 elements"));
  EXPECT_THAT(error_of(micro(R"({"w": {"fill": 1, "at": {"1x": 1}}})")), HasSubstr("\"1x\""));
  EXPECT_THAT(error_of(micro(R"({"w": {"ranks": [1, {"ranks": [1, 1]}]}})")),
              HasSubstr("w.ranks[1].fill: missing"));
  EXPECT_THAT(error_of(micro(R"({"w": "Inf"})")), HasSubstr(gradients + "w: \"Inf\" is not"));
  EXPECT_THAT(error_of(micro(R"({"nobody": 1})")), HasSubstr(gradients + "nobody: no parameter"));
  EXPECT_THAT(error_of(micro(R"({"w": 1, "w": 2})")), HasSubstr(gradients + "w: the key is there"));
  EXPECT_THAT(error_of(with_steps("[{}]")), HasSubstr("steps[0].micro_steps: missing"));
  EXPECT_THAT(error_of(with_steps(R"([{"micro_steps": []}])")), HasSubstr("at least one"));
  EXPECT_THAT(error_of(with_steps(R"([{"repeat": 0, "micro_steps": [{}]}])")),
              HasSubstr("steps[0].repeat: 0 is not a whole number of at least 1"));
  EXPECT_THAT(error_of(with_steps(R"([{"micro_steps": [{}]}])")), HasSubstr("either"));
  EXPECT_THAT(
      error_of(with_steps(
          R"([{"micro_steps": [{"gradients": {}}], "expect": {"parameters": {"w": null}}}])")),
      HasSubstr("expect.parameters.w: an expectation cannot be null"));
  EXPECT_THAT(error_of(with_steps(R"([{"micro_steps": [{"gradients": {}}],
                                       "set_requires_grad": {"tied": false}},
                                      {"micro_steps": [{"gradients": {"w": 1}}]}])")),
              HasSubstr("steps[1].micro_steps[0].gradients.w: the parameter is frozen"));
  EXPECT_THAT(error_of(with_steps("[]", R"(, "expect": {"applied": true})")),
              HasSubstr("expect.applied"));
  EXPECT_THAT(error_of(with_steps("[]", R"(, "stages": [4])")), HasSubstr("stages[0]"));
  EXPECT_THAT(error_of(R"({"world_size": 0})"), HasSubstr("world_size: 0 is not"));
  EXPECT_THAT(error_of("{\"world_size\": 1,\n ]"), HasSubstr("line 2"));
  EXPECT_THAT(error_of("[]"), HasSubstr("the file: [] is not an object"));
}

// Numbers beyond what they are kept in would otherwise come out as other numbers.
TEST(CaseReader, WholeNumbersHaveAnUpperBoundThatIsNamed) {
  const std::string gradients = R"("micro_steps": [{"gradients": {}}]})";
  EXPECT_THAT(error_of(with_steps(R"([{"repeat": 2147483648, )" + gradients + "]")),
              HasSubstr("steps[0].repeat: 2147483648 is not a whole number of at least 1 and at "
                        "most 2147483647"));
  EXPECT_EQ(read_case(with_steps(R"([{"repeat": 2147483647, )" + gradients + "]"))
                .phases[0]
                .steps[0]
                .repeat,
            2147483647);
  EXPECT_THAT(
      error_of(with_steps(R"([{"micro_steps": [{"repeat": 4294967297, "gradients": {}}]}])")),
      HasSubstr("steps[0].micro_steps[0].repeat: 4294967297 is not"));
  for (const char* size : {"4097", "2147483648", "4294967296", "4294967297"}) {
    const std::string wrong = std::string("world_size: ") + size +
                              " is not a whole number of at least 1 and at most 4096";
    EXPECT_THAT(error_of(std::string("{\"world_size\": ") + size + "}"), HasSubstr(wrong));
    EXPECT_THAT(error_of(std::string(R"({"world_size": 1, "config": {}, "parameters": [],
                                      "phases": [{"world_size": )") +
                         size + R"(, "steps": []}]})"),
                HasSubstr("phases[0]." + wrong));
  }
  EXPECT_EQ(read_case(R"({"world_size": 4096, "config": {}, "parameters": [], "steps": []})")
                .phases[0]
                .world_size,
            4096);
  const auto with_group = [](const std::string& group) {
    return error_of(R"({"world_size": 1, "config": {}, "steps": [], "parameters": [
                        {"name": "a", "shape": [1], "group": )" +
                    group + "}]}");
  };
  EXPECT_THAT(with_group("4294967296"), HasSubstr("parameters[0].group: 4294967296 is not"));
  EXPECT_THAT(with_group("2147483648"), HasSubstr("parameters[0].group: 2147483648 is not"));
  // 2^53 + 1 is no double: it must not come out as 2^53.
  EXPECT_THAT(
      error_of(with_steps("[]", R"(, "expect_bytes": {"1": {"params": 9007199254740993}})")),
      HasSubstr("at most 9007199254740991"));
}

TEST(CaseReader, DeepNestingIsRefused) {
  const auto nested = [](std::size_t depth) {
    return R"({"about": )" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  for (const std::size_t depth : {std::size_t{64}, std::size_t{1'000'000}}) {
    EXPECT_EQ(error_of(nested(depth)), "about: nested more than 64 deep");
  }
  EXPECT_THAT(error_of(nested(63)), HasSubstr("is not a string"));
  EXPECT_EQ(error_of(std::string(65, '[')), "the file: nested more than 64 deep");
}

TEST(CaseReader, ANulByteIsNoEndOfTheFile) {
  using namespace std::string_literals;
  const std::string file = R"({"world_size": 1, "config": {}, "parameters": [], "steps": []})";
  EXPECT_EQ(error_of(file), "no error");
  EXPECT_THAT(error_of(file + "\n \0 nonsense"s), HasSubstr("line 2, column 2: a NUL byte"));
  EXPECT_THAT(error_of("\0"s), HasSubstr("line 1, column 1: a NUL byte"));
}

TEST(CaseReader, WrongParametersAreRefusedByPath) {
  const auto with_parameters = [](const std::string& list) {
    return error_of(R"({"world_size": 1, "config": {}, "parameters": )" + list +
                    R"(, "steps": []})");
  };
  EXPECT_THAT(with_parameters(R"([{"name": "a"}])"), HasSubstr("parameters[0].shape: missing"));
  EXPECT_THAT(with_parameters(R"([{"name": "a", "shape": [-1]}])"),
              HasSubstr("parameters[0].shape[0]: -1 is not"));
  EXPECT_THAT(with_parameters(R"([{"name": "a", "shape": [4294967296, 4294967296]}])"),
              HasSubstr("more than"));
  EXPECT_THAT(with_parameters(R"([{"name": "a", "shape": [1], "dtype": "fp8"}])"),
              HasSubstr("parameters[0].dtype: \"fp8\""));
  EXPECT_THAT(with_parameters(R"([{"name": "a", "shape": [1], "group": 1}])"),
              HasSubstr("parameters[0].group: group 1 of 1"));
  EXPECT_THAT(with_parameters(R"([{"name": "a", "shape": []}, {"name": "a", "shape": []}])"),
              HasSubstr("parameters[1].name: \"a\" is there twice"));
  EXPECT_THAT(with_parameters(R"([{"name": "b", "alias_of": "a"}, {"name": "a", "shape": []}])"),
              HasSubstr("parameters[0].alias_of: \"a\""));
  EXPECT_THAT(with_parameters(R"([{"name": "a", "shape": [2], "init": [1]}])"),
              HasSubstr("parameters[0].init: 1 values for 2 elements"));
}

TEST(CaseCheck, ToleranceIsRelativeAndZeroMeansTheSameFp32) {
  EXPECT_TRUE(holds(0.1f, 0.1, 0.0));  // the expected number is rounded first
  EXPECT_FALSE(holds(std::nextafter(0.1f, 1.0f), 0.1, 0.0));
  EXPECT_TRUE(holds(100.5, 100.0, 0.005));
  EXPECT_FALSE(holds(100.51, 100.0, 0.005));
  EXPECT_FALSE(holds(1e-30, 0.0, 0.5));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(holds(nan, nan, 0.0));
  EXPECT_FALSE(holds(nan, 1.0, 0.5));
  EXPECT_FALSE(holds(nan, 1.0, 0.0));
  EXPECT_FALSE(holds(1.0, nan, 0.5));
  EXPECT_TRUE(holds(kInf, kInf, 0.5));
  EXPECT_FALSE(holds(-kInf, kInf, 0.5));
  EXPECT_FALSE(holds(kInf, 1.0, 0.5));
}

}  // namespace
}  // namespace zero::cases
