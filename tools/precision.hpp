// The dtype of parameters and gradients in a configuration, and the flag that wins over it: the
// same for zero-train and zero-mem.
#pragma once

#include "zero/config.hpp"
#include "zero/dtype.hpp"

namespace precision {

// fp16 or bf16 where the configuration enables it, else fp32.
inline zero::DType dtype_of(const zero::Config& config) {
  if (config.fp16_enabled.value_or(false)) return zero::DType::kFloat16;
  if (config.bf16_enabled.value_or(false)) return zero::DType::kBFloat16;
  return zero::DType::kFloat32;
}

// Which of fp16.enabled and bf16.enabled apply_dtype sets.
enum class Keys {
  kBoth,           // dtype's own to true, each other one to false
  kContradicting,  // only one that is true and not dtype's own, to false
};

// The flag wins over the file. The one that is off comes first, because both on is refused at any
// moment.
inline void apply_dtype(zero::Config& config, zero::DType dtype, Keys keys) {
  const bool fp16 = dtype == zero::DType::kFloat16;
  const bool bf16 = dtype == zero::DType::kBFloat16;
  const bool both = keys == Keys::kBoth;
  if (!fp16 && (both || config.fp16_enabled.value_or(false))) config.set("fp16.enabled", "false");
  if (!bf16 && (both || config.bf16_enabled.value_or(false))) config.set("bf16.enabled", "false");
  if (both && fp16) config.set("fp16.enabled", "true");
  if (both && bf16) config.set("bf16.enabled", "true");
}

}  // namespace precision
