#include "zero/model_shape.hpp"

#include <algorithm>

#include "zero/error.hpp"

namespace zero {

using detail::concat;

std::int64_t count_elems(const std::string& param, const std::vector<std::int64_t>& shape) {
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) {
      throw ConfigError(
          concat("parameter ", param, ": a dimension is ", dimension, ", must be 0 or more"));
    }
  }
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t elems = 1;
  for (const std::int64_t dimension : shape) {
    if (elems > kMostElems / dimension) {
      throw ConfigError(concat("parameter ", param, ": its shape has more elements than 2^58"));
    }
    elems *= dimension;
  }
  return elems;
}

std::int64_t ModelShape::elems() const {
  std::int64_t sum = 0;
  for (const UnitShape& unit : units) {
    for (const ParamShape& param : unit.params) {
      sum += count_elems(param.name, param.shape);
      if (sum > kMostElems) {
        throw ConfigError(concat("parameter ", param.name, ": with it the model has ", sum,
                                 " elements; at most 2^58 can be counted in bytes"));
      }
    }
  }
  return sum;
}

}  // namespace zero
