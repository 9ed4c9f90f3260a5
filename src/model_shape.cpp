#include "zero/model_shape.hpp"

#include <algorithm>

namespace zero {

std::int64_t ModelShape::elems() const {
  std::int64_t sum = 0;
  for (const UnitShape& unit : units) {
    for (const ParamShape& param : unit.params) {
      if (std::find(param.shape.begin(), param.shape.end(), 0) != param.shape.end()) continue;
      std::int64_t numel = 1;
      for (const std::int64_t dimension : param.shape) numel *= dimension;
      sum += numel;
    }
  }
  return sum;
}

}  // namespace zero
