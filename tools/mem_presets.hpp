// Known model shapes as unit lists: embedding, blocks, head, with every matrix, bias and norm.
#pragma once

#include <string>

#include "zero/model_shape.hpp"

namespace mem {

// "gpt2-124m, gpt2-1.5b, ...".
std::string preset_names();

// All parameters in one dtype. Throws zero::ConfigError that lists the names.
zero::ModelShape preset_model(const std::string& name, zero::DType dtype);

}  // namespace mem
