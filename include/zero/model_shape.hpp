// A model as the planner needs it: names, shapes and units, no values. From code or from a JSON
// file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zero/dtype.hpp"

namespace zero {

// Of a parameter and of a model: 16 bytes of each in one account stay below 2^63.
inline constexpr std::int64_t kMostElems = std::int64_t{1} << 58;
// Elements of a shape; {} has one. Throws ConfigError naming the parameter for a negative dimension
// and for more than kMostElems.
std::int64_t count_elems(const std::string& param, const std::vector<std::int64_t>& shape);

struct ParamShape {
  std::string name;
  std::vector<std::int64_t> shape;
  DType dtype = DType::kFloat32;
  int group = 0;
  bool requires_grad = true;
  bool fixed = false;  // at an address of the model's own, which stage 3 cannot have
};
struct UnitShape {
  std::string name;
  std::vector<ParamShape> params;
  std::vector<std::string> shared;  // parameters of earlier units that this unit uses as well
};
struct ModelShape {
  std::vector<UnitShape> units;  // in the order of use in forward
  int groups = 1;                // param groups

  std::int64_t elems() const;  // each parameter once; throws as count_elems, also for the sum

  // {"groups": 1, "units": [{"name", "params": [{"name", "shape", "dtype", "group"?,
  // "requires_grad"?, "fixed"?}], "shared"?: [...]}]}. Throws ConfigError naming place and path.
  static ModelShape from_json(const std::string& text, const std::string& origin = "model");
  std::string to_json() const;
};

}  // namespace zero
