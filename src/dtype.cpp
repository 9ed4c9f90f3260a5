// Names of element types.
#include "zero/dtype.hpp"

namespace zero {

std::optional<DType> dtype_from_name(std::string_view name) {
  if (name == "fp32" || name == "float32") return DType::kFloat32;
  if (name == "fp16" || name == "half" || name == "float16") return DType::kFloat16;
  if (name == "bf16" || name == "bfloat16") return DType::kBFloat16;
  return std::nullopt;
}

}  // namespace zero
