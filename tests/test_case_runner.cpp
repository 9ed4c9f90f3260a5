// The runner of zero-case, on a run worked out by hand: plain SGD with rate 0.5 on two ranks, so
// w goes 0, -0.75 after gradients 1 and 2. What is wrong must be told, and told rightly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tools/case_reader.hpp"
#include "tools/case_runner.hpp"

namespace zero::cases {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class CaseRunner : public ::testing::TestWithParam<int> {
 protected:
  // A file with one step and the given expectation; `more` is added at the top level.
  Outcome run(const std::string& expect, const std::string& more = "", int accumulation = 1) {
    return run_steps(
        R"([{"micro_steps": [{"gradients": {"w": {"ranks": [1, 2]}, "u": 4}}], "expect": )" +
            expect + "}]",
        more, accumulation);
  }
  Outcome run_steps(const std::string& steps, const std::string& more = "", int accumulation = 1) {
    return run_case(read_case(R"({"world_size": 2, "config": {"train_micro_batch_size_per_gpu": 1,
          "gradient_accumulation_steps": )" +
                              std::to_string(accumulation) + R"(, "gradient_clipping": 0,
          "optimizer": {"type": "SGD", "params": {"lr": 0.5}},
          "zero_optimization": {"stage3_param_persistence_threshold": 0}},
          "parameters": [{"name": "w", "shape": [3]}, {"name": "u", "shape": [1], "unit": "u"}],
          "steps": )" + steps +
                              more + "}"),
                    GetParam());
  }
};

INSTANTIATE_TEST_SUITE_P(Stages, CaseRunner, ::testing::Values(0, 1, 2, 3));

TEST_P(CaseRunner, WhatHoldsHolds) {
  const Outcome outcome = run(R"({"applied": true, "skipped": false, "loss_scale": 1, "lr": 0.5,
    "next_loss_scale": 1, "gradients": {"w": 1.5, "u": 4}, "parameters": {"w": -0.75, "u": -2},
    "master_weights": {"w": -0.75}})");
  EXPECT_EQ(outcome.verdict, Verdict::kHolds) << outcome.detail;
}

TEST_P(CaseRunner, AWrongElementIsNamed) {
  const Outcome outcome = run(R"({"applied": true, "parameters": {"w": [-0.75, -0.75, -0.5]}})");
  EXPECT_EQ(outcome.verdict, Verdict::kFails);
  EXPECT_EQ(outcome.detail, "phase 0 step 0 rank 0 parameters w[2]: got -0.75, expected -0.5");
}

TEST_P(CaseRunner, AWrongElementOnOneRankIsNamed) {
  const Outcome outcome = run(R"({"parameters": {"w": {"ranks": [-0.75, [-0.75, 0, -0.75]]}}})");
  EXPECT_EQ(outcome.detail, "phase 0 step 0 rank 1 parameters w[1]: got -0.75, expected 0");
}

TEST_P(CaseRunner, WrongScalarsAreNamed) {
  EXPECT_EQ(run(R"({"applied": false})").detail,
            "phase 0 step 0 rank 0 applied: got true, expected false");
  EXPECT_EQ(run(R"({"skipped": true})").detail,
            "phase 0 step 0 rank 0 skipped: got false, expected true");
  EXPECT_EQ(run(R"({"lr": 0.25})").detail, "phase 0 step 0 rank 0 lr[0]: got 0.5, expected 0.25");
  EXPECT_EQ(run(R"({"loss_scale": 2})").detail,
            "phase 0 step 0 rank 0 loss_scale: got 1, expected 2");
  EXPECT_EQ(run(R"({"next_loss_scale": 2})").detail,
            "phase 0 step 0 rank 0 next_loss_scale: got 1, expected 2");
  EXPECT_THAT(run(R"({"grad_norm": 1})").detail,
              StartsWith("phase 0 step 0 rank 0 grad_norm: got 4.76969"));  // sqrt(3 x 2.25 + 16)
}

TEST_P(CaseRunner, TheFirstMismatchOfALaterStepIsNamed) {
  const Outcome outcome = run_steps(R"([{"repeat": 3,
    "micro_steps": [{"gradients": {"w": {"ranks": [1, 2]}}}],
    "expect": {"applied": true, "parameters": {"u": 0, "w": [-0.75, -0.75, -0.75]}}}])");
  EXPECT_EQ(outcome.detail,
            "phase 0 step 0 repetition 1 rank 0 parameters w[0]: got -1.5, expected -0.75");
}

TEST_P(CaseRunner, MicroStepsThatDoNotFillTheStepAreNamed) {
  EXPECT_THAT(run("{}", "", 2).detail, HasSubstr("end of the step"));
}

TEST_P(CaseRunner, ErrorsAreFailuresUnlessExpected) {
  const std::string step = R"({"micro_steps": [{"gradients": {"w": 1}}])";
  EXPECT_THAT(run_steps("[" + step + "}]", R"(, "expect_error": "batch")").detail,
              StartsWith("no error came; one with \"batch\""));
  EXPECT_THAT(run_steps("[" + step + "}]", "", 0).detail, HasSubstr("gradient_accumulation_steps"));
  const std::string error = R"(, "expect_error": "gradient_accumulation_steps")";
  EXPECT_EQ(run_steps("[" + step + "}]", error, 0).verdict, Verdict::kHolds);
  EXPECT_THAT(run_steps("[" + step + R"(, "expect": {}}])", error, 0).detail,
              HasSubstr("before all expectations"));
  EXPECT_THAT(run_steps("[" + step + "}]", R"(, "expect_error": "elsewhere")", 0).detail,
              HasSubstr("error without \"elsewhere\""));
}

TEST_P(CaseRunner, ARefusalAfterTrainingBeganIsTooLate) {
  const std::string frozen = R"([{"set_requires_grad": {"f": true}, "micro_steps": [
    {"gradients": {"w": 1}}]}])";
  const auto with_frozen = [&](const std::string& before) {
    return run_case(read_case(R"({"world_size": 2, "expect_error": "f", "config": {
          "train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "SGD", "params": {"lr": 1}}},
          "parameters": [{"name": "w", "shape": [1]},
                         {"name": "f", "shape": [1], "requires_grad": false}], "steps": [)" +
                              before + frozen.substr(1) + "}"),
                    GetParam());
  };
  EXPECT_EQ(with_frozen("").verdict, Verdict::kHolds);
  const std::string step = R"({"micro_steps": [{"gradients": {"w": 1}}])";
  EXPECT_THAT(with_frozen(step + "}, ").detail, HasSubstr("only after training had begun"));
  EXPECT_EQ(with_frozen(step + R"(, "expect": {"applied": true}}, )").verdict, Verdict::kHolds);
}

TEST_P(CaseRunner, BytesAreCheckedAfterPrepare) {
  const std::string stage = std::to_string(GetParam());
  const auto bytes = [&](const std::string& bound) {
    return run("{}", R"(, "expect_bytes": {")" + stage + R"(": {"exp_avg": )" + bound + "}}");
  };
  EXPECT_EQ(bytes("0").verdict, Verdict::kHolds);  // SGD has no moments
  EXPECT_EQ(bytes(R"({"max": 0})").verdict, Verdict::kHolds);
  EXPECT_EQ(bytes("8").detail, "phase 0 prepare rank 0 bytes of exp_avg: got 0, expected 8");
}

TEST_P(CaseRunner, AWarningThatIsMissingIsAFailure) {
  EXPECT_THAT(run("{}", R"(, "expect_warning": "surely not")").detail,
              StartsWith("no warning has \"surely not\""));
}

// What the second phase starts from is what the first one saved, and not `init`.
TEST_P(CaseRunner, PhasesGoOnFromCheckpoints) {
  const auto phases = [](const char* second) {
    return read_case(std::string(R"({"world_size": 2, "config": {
        "train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0,
        "optimizer": {"type": "SGD", "params": {"lr": 1}}},
      "parameters": [{"name": "w", "shape": [3], "init": 1}],
      "phases": [
        {"steps": [{"micro_steps": [{"gradients": {"w": 2}}]}], "save": true},
        {"world_size": 3, "steps": [], )") +
                     second + R"("expect": {"parameters": {"w": -1}}}]})");
  };
  EXPECT_EQ(run_case(phases("\"load\": true, "), GetParam()).detail, "");
  EXPECT_EQ(run_case(phases(""), GetParam()).detail,
            "phase 1 end rank 0 parameters w[0]: got 1, expected -1");
}

}  // namespace
}  // namespace zero::cases
