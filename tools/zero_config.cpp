// zero-config: accepts, explains and compares configuration files.
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "tools/config_options.hpp"
#include "tools/config_print.hpp"
#include "zero/error.hpp"

namespace {

constexpr int kRefused = 2;
constexpr int kFailed = 1;

// Both files are read, so that what is wrong with either is told.
int diff(const config_tool::Options& options, const zero::Facts& facts) {
  std::vector<zero::Config> configs;
  std::string refusals;
  for (const std::string& path : {options.path, options.other_path}) {
    try {
      configs.push_back(zero::Config::load(path, facts));
    } catch (const zero::ConfigError& error) {
      refusals += (refusals.empty() ? "" : "\n") + std::string(error.what());
    }
  }
  if (!refusals.empty()) throw zero::ConfigError(refusals);
  const std::string difference = config_tool::diff_text(configs[0], configs[1]);
  std::cout << difference;
  return difference.empty() ? 0 : 1;
}

int run(const config_tool::Options& options) {
  using config_tool::Command;
  if (options.command == Command::kReference) {
    std::cout << zero::config_reference();
    return 0;
  }
  const zero::Facts facts = config_tool::facts_of(options);
  if (options.command == Command::kDiff) return diff(options, facts);
  const zero::Config config = zero::Config::load(options.path, facts);
  if (options.command == Command::kExplain) {
    std::cout << config_tool::explain_text(config);
  } else if (options.json) {
    std::cout << config_tool::check_json(config);
  } else {
    std::cout << config_tool::check_text(config, options.path);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  config_tool::Options options;
  int code = 0;
  if (const auto end = config_tool::parse_command_line(argc, argv, options)) {
    code = *end;  // --help has been printed
  } else {
    try {
      code = run(options);
    } catch (const std::exception& error) {
      std::cerr << "zero-config: " << error.what() << '\n';
      return kRefused;
    }
  }
  if (std::cout.flush()) return code;
  std::cerr << "zero-config: not everything could be written to standard output\n";
  return kFailed;
}
