// The command line of zero-ckpt.
#pragma once

#include <optional>
#include <string>

#include "zero/checkpoint_tools.hpp"

namespace ckpt {

enum class Command { kInspect, kVerify, kConsolidate, kDiff, kConvert, kPrune };

struct Options {
  Command command = Command::kInspect;
  std::string path;   // a checkpoint, or a folder with checkpoints
  std::string other;  // consolidate: the file; diff: the other checkpoint; convert: the folder
  bool json = false;  // inspect, verify
  zero::WeightsDtype dtype = zero::WeightsDtype::kMaster;
  int world_size = 0;
  int keep = 0;
};

// An exit code if the program is to end here (after --help, or a message about a bad flag).
std::optional<int> parse_command_line(int argc, const char* const* argv, Options& options);

}  // namespace ckpt
