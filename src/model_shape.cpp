#include "zero/model_shape.hpp"

namespace zero {

std::int64_t ModelShape::elems() const {
  std::int64_t sum = 0;
  for (const UnitShape& unit : units) {
    for (const ParamShape& param : unit.params) {
      std::int64_t numel = 1;
      for (const std::int64_t dimension : param.shape) numel *= dimension;
      sum += numel;
    }
  }
  return sum;
}

}  // namespace zero
