// communication_data_type against the type of the gradients.
#pragma once

#include <string>

#include "zero/config.hpp"
#include "zero/error.hpp"

namespace zero::detail {

// Why gradients of parameters of type `params` cannot travel as configured; empty if they can.
inline std::string wire_refusal(const Config& config, DType params) {
  const DType gradients = config.grad_accum_dtype.value_or(params);
  const DType wire = config.communication_data_type.value_or(gradients);
  if (wire == DType::kFloat32 || wire == gradients) return {};
  return concat(dtype_name(wire), " would round gradients, which are ", dtype_name(gradients),
                "; valid: fp32",
                gradients == DType::kFloat32 ? std::string() : concat(", ", dtype_name(gradients)));
}

}  // namespace zero::detail
