// A reproduction file as plain structs: what to train on which ranks, and what must come out.
// The meaning of every field is the one of the key of the same name (README, "Case files").
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/case_value.hpp"
#include "zero/zero_optimizer.hpp"

namespace zero::cases {

struct CaseParameter {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t numel = 0;
  DType dtype = DType::kFloat32;
  std::optional<std::string> unit;
  int group = 0;
  bool requires_grad = true;
  int storage = 0;  // index of the parameter that owns the memory: itself, or the alias's target
};

// Keys left out keep what the group has.
struct GroupOverride {
  std::optional<double> lr, weight_decay, eps;
  std::optional<std::array<double, 2>> betas;
};

struct NamedValue {
  int parameter = 0;  // index into CaseFile::parameters, aliases included
  Value value;
};

// Contributions that arrive together.
using Contributions = std::vector<NamedValue>;

struct MicroStep {
  int repeat = 1;
  bool one_after_the_other = false;  // `calls`: each opens and closes the units it concerns
  std::vector<Contributions> calls;  // exactly one where `gradients` was given
};

struct TensorExpectation {
  Tensor what = Tensor::kParams;
  std::string key;  // as in the file: "exp_avg"
  NamedValue expected;
};

struct Expectation {
  std::optional<bool> applied, skipped;
  std::optional<double> loss_scale, next_loss_scale, grad_norm;
  std::vector<double> lr;  // one per group, one for all groups if lr_of_all, or empty
  bool lr_of_all = false;
  std::vector<TensorExpectation> tensors;
};

struct CaseStep {
  int repeat = 1;
  std::vector<GroupOverride> set_groups;
  std::vector<std::pair<int, bool>> set_requires_grad;
  std::vector<MicroStep> micro_steps;
  std::optional<Expectation> expect;
};

struct CasePhase {
  int world_size = 1;
  std::string config_patch;  // JSON text, empty if none
  bool load = false;
  bool save = false;
  std::vector<Value> init;  // per parameter
  std::vector<CaseStep> steps;
  std::optional<Expectation> expect;
};

struct ByteBound {
  Category category = Category::kParams;
  std::int64_t bytes = 0;
  bool upper = false;  // at most `bytes`, rather than exactly
};

struct CaseFile {
  std::string about;
  double tolerance = 0.0;  // relative to the expected value; 0: equal after rounding to fp32
  std::string config;      // JSON text, numbers spelled as in the file
  std::vector<int> stages = {0, 1, 2, 3};
  std::vector<CaseParameter> parameters;
  std::vector<GroupOverride> groups = {GroupOverride{}};
  std::vector<CasePhase> phases;
  std::optional<std::string> expect_error;
  std::optional<std::string> expect_warning;
  std::map<int, std::vector<ByteBound>> expect_bytes;  // by stage
};

}  // namespace zero::cases
