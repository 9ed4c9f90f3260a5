// Models and configurations that the tests of plans, budgets and the search share.
#pragma once

#include <string>

#include "zero/error.hpp"
#include "zero/partition_manager.hpp"

namespace zero::test {

// `layers` units of one parameter each.
inline ModelShape stack(std::int64_t layers, std::int64_t elems_of_each, DType dtype) {
  ModelShape model;
  for (std::int64_t i = 0; i < layers; ++i) {
    model.units.push_back(
        {detail::concat("u", i),
         {{.name = detail::concat("w", i), .shape = {elems_of_each}, .dtype = dtype}},
         {}});
  }
  return model;
}

// Adam at a stage, with a patch of the file.
inline Config at(int stage, const std::string& patch = "{}") {
  Config config = Config::parse(R"({"train_micro_batch_size_per_gpu": 1,
      "optimizer": {"type": "AdamW"}, "gradient_clipping": 1.0})");
  config.set("zero_optimization.stage", std::to_string(stage));
  config.merge(patch);
  return config;
}

}  // namespace zero::test
