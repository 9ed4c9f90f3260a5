// A model of single weights whose gradients are given as numbers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/device_access.hpp"
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

// One parameter with moved pointers, in the memory of the world's device; the gradient is given as
// a number. REQUIRES: the world outlives it.
struct Weight {
  Device* device;
  std::vector<float> start;
  float* data = nullptr;
  float* grad = nullptr;
  Weight(World& world, std::vector<float> values)
      : device(&world.device()), start(std::move(values)), data(start.data()) {}
  ParamSpec spec(const std::string& name) {
    return {.name = name,
            .shape = {static_cast<std::int64_t>(start.size())},
            .data = &data,
            .grad = &grad};
  }
  void add(float value) const {
    for (float& g : gradients()) g += value;
  }
  float get(std::int64_t i) const { return HostView<const float>(*device, data + i, 1)[0]; }
  HostView<float> gradients() const {
    return {*device, grad, static_cast<std::int64_t>(start.size())};
  }
};

inline std::vector<float> read(ZeroOptimizer& o, const std::string& name, Tensor what,
                               std::size_t size) {
  std::vector<float> out(size, -1234.0f);
  o.read(name, what, out);
  return out;
}

}  // namespace zero::test
