// Compares what a run gave with what its file expects, on one rank, and keeps the first difference.
#pragma once

#include <optional>
#include <string>

#include "tools/case_file.hpp"
#include "zero/zero_optimizer.hpp"

namespace zero::cases {

// Whether `got` is within the relative tolerance of `expected`. Tolerance 0: equal to it after
// rounding to fp32. NaN meets NaN, infinities meet their like.
bool holds(double got, double expected, double tolerance);

class Checker {
 public:
  Checker(const CaseFile& file, ZeroOptimizer& optimizer) : file_(file), optimizer_(optimizer) {}

  // Collective: the tensors are read on all ranks alike, whatever was found before. `result` is the
  // last step's, null before the first. `place` says where in the file we are.
  void check(const Expectation& expect, const StepResult* result, const std::string& place);
  // The ledger against `expect_bytes` of this stage.
  void check_bytes(const std::string& place);
  void check_boundary(bool boundary, bool last_micro_step, const std::string& place);

  // "phase 0 step 1 rank 0 parameters w[3]: got 1.5, expected 2"
  const std::optional<std::string>& first_mismatch() const { return mismatch_; }

 private:
  void number(const std::string& place, const std::string& what, double got, double expected);
  void flag(const std::string& place, const std::string& what, bool got, bool expected);
  void report(const std::string& place, const std::string& what, const std::string& got,
              const std::string& expected);

  const CaseFile& file_;
  ZeroOptimizer& optimizer_;
  std::optional<std::string> mismatch_;
};

}  // namespace zero::cases
