// Where each element of a checkpoint is, by what its manifest says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "zero/checkpoint.hpp"

namespace zero::checkpoint {

struct Tensor {
  // Elements [begin, end) lie in file number `file`, from byte `offset` on.
  struct Piece {
    std::int64_t begin, end;
    std::size_t file;
    std::int64_t offset;
  };
  DType dtype = DType::kFloat32;
  std::int64_t numel = 0;
  std::vector<Piece> pieces;  // none of them empty, in order, without gaps from 0 to numel
};

// By kind, parameter, part.
using Index = std::map<std::tuple<StateKind, std::string, std::string>, Tensor>;

// Throws CheckpointError, with `where` in front, unless every element of what a checkpoint has to
// hold is there exactly once, nothing else is, and every file is laid out as a file is.
Index make_index(const CheckpointManifest& manifest, const std::string& where);

}  // namespace zero::checkpoint
