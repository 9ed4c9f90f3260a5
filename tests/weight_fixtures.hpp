// A model of single weights whose gradients are given as numbers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "zero/zero_optimizer.hpp"

namespace zero::test {

// Plain SGD without clipping, everything sharded, and a patch.
inline Config config(int stage, const std::string& patch = "{}") {
  Config config = Config::parse(R"({"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0,
      "optimizer": {"type": "SGD", "params": {"lr": 0.5}},
      "zero_optimization": {"stage3_param_persistence_threshold": 0}})");
  config.set("zero_optimization.stage", std::to_string(stage));
  config.merge(patch);
  return config;
}

// One parameter with moved pointers; the gradient is given as a number.
struct Weight {
  std::vector<float> start;
  float* data = nullptr;
  float* grad = nullptr;
  explicit Weight(std::vector<float> values) : start(std::move(values)), data(start.data()) {}
  ParamSpec spec(const std::string& name) {
    return {.name = name,
            .shape = {static_cast<std::int64_t>(start.size())},
            .data = &data,
            .grad = &grad};
  }
  void add(float value) const {
    for (std::size_t i = 0; i < start.size(); ++i) grad[i] += value;
  }
};

inline std::vector<float> read(ZeroOptimizer& o, const std::string& name, Tensor what,
                               std::size_t size) {
  std::vector<float> out(size, -1234.0f);
  o.read(name, what, out);
  return out;
}

}  // namespace zero::test
