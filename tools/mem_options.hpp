// The command line of zero-mem.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/mem_model.hpp"

namespace mem {

enum class Command : std::uint8_t { kPlan, kFit, kReport };

struct Options {
  Command command = Command::kPlan;
  ModelOptions model;
  std::vector<int> stages = {0, 1, 2, 3};
  std::vector<int> ranks = {1, 8, 64, 1024};  // of fit: one
  std::string budget;                         // fit
  std::string run_path;                       // report
  bool json = false;
  std::string plot_path;  // empty: none
};

// An exit code if the program is to end here (after --help, or a message about a bad flag).
std::optional<int> parse_command_line(int argc, const char* const* argv, Options& options);

}  // namespace mem
