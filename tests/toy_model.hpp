// A model made of numbers, for tests: a few units of odd-sized parameters whose gradient is a
// formula of step, slot, parameter, element and the parameter's value. Runs under the runtime at
// any stage and world size, and in plain double precision without it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "zero/zero_optimizer.hpp"

namespace zero::test {

struct ToyParam {
  std::string name;
  std::int64_t numel = 0;
  int group = 0;
};
struct ToyUnit {
  std::string name;
  std::vector<ToyParam> params;
  std::vector<std::string> shared;
};

struct ToySetup {
  std::vector<ToyUnit> units;
  DType dtype = DType::kFloat32;
  int world_size = 1;
  int accumulation = 1;
  int steps = 3;
  std::string config = "{}";  // merged over a base with AdamW and everything sharded
  double lr_of_group1 = 0.05;
  // How the ranks are run; empty: as threads, on the device that tests run on.
  std::function<void(int world_size, const std::function<void(World&)>& body)> run = {};
  // Where training begins, after what `prepared` did (e.g. load()), and what is done on the way.
  // Every rank calls them.
  int first_step = 0;
  int first_micro_step = 0;
  std::function<void(ZeroOptimizer&)> prepared = {};
  std::function<void(ZeroOptimizer&, int step, int micro_step)> after_micro_step = {};
  // Whether an infinity is among the gradients of slot 0.
  std::function<bool(int step)> overflows = {};
  PlanOptions foreseen = {};  // besides the steps
};

// The units most tests use: sizes around vector and shard boundaries, an empty one, a tied one.
std::vector<ToyUnit> odd_units();

// What a run leaves: whole tensors by parameter name, and each step's norm.
struct ToyResult {
  std::map<std::string, std::vector<float>> params, masters, exp_avg, exp_avg_sq;
  std::vector<double> grad_norms;  // -1: skipped
  std::int64_t model_elems = 0, padded_elems = 0;
  std::vector<Ledger> ledgers;                    // per rank, as it was in the end
  std::vector<Traffic> traffic;                   // per rank, of the last step
  bool operator==(const ToyResult& other) const;  // tensors and norms, bit for bit
};

Config toy_config(const ToySetup& setup);
// Checks on the way that every rank holds and moves what was planned, in every category to the
// byte.
ToyResult run_toy(const ToySetup& setup);
// The same training in double precision in one process, by the formulas.
ToyResult reference_toy(const ToySetup& setup);

// Throws unless every figure of both is the same.
void check_plan(const char* when, const Ledger& planned, const Ledger& measured);

// The gradient that slot `slot` of step `step` adds to element `index`, before loss scale.
double toy_gradient(int step, int slot, const std::string& param, std::int64_t index, double value);
double toy_start(const std::string& param, std::int64_t index);

}  // namespace zero::test
