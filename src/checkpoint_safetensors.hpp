// The header of a safetensors file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "zero/dtype.hpp"

namespace zero::checkpoint {

struct SafeTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
};

// The start of a file that holds these tensors one after the other: length, header, and blanks so
// that the first tensor lies at a multiple of 64 bytes. Throws CheckpointError for a name that is
// not UTF-8 or is there twice.
std::string safetensors_header(const std::vector<SafeTensor>& tensors,
                               const std::map<std::string, std::string>& metadata);

}  // namespace zero::checkpoint
