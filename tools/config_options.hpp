// The command line of zero-config.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "zero/config.hpp"

namespace config_tool {

enum class Command { kCheck, kExplain, kReference, kDiff };

struct Options {
  Command command = Command::kCheck;
  std::string path;
  std::string other_path;         // diff
  std::optional<int> world_size;  // check: required
  std::string device = "host";
  std::vector<std::string> facts;  // key=value
  bool json = false;               // check
};

// An exit code if the program is to end here (after --help, or a message about a bad flag).
std::optional<int> parse_command_line(int argc, const char* const* argv, Options& options);

// Throws zero::ConfigError for a fact that is none.
zero::Facts facts_of(const Options& options);

}  // namespace config_tool
