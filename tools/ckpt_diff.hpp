// zero-ckpt diff: what two checkpoints hold, bit for bit, however it is cut into files.
#pragma once

#include <string>
#include <vector>

#include "zero/checkpoint.hpp"

namespace ckpt {

struct Differences {
  std::vector<std::string> lines;  // of state: a run that goes on from A will not do as one from B
  std::vector<std::string> notes;  // of how the runs were made: world size, stage, configuration
};
// Reads both whole, a chunk at a time.
Differences differences(zero::CheckpointReader& a, zero::CheckpointReader& b);

}  // namespace ckpt
