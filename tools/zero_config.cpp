// zero-config: accepts, explains and compares configuration files.
#include <exception>
#include <iostream>

#include "tools/config_options.hpp"
#include "tools/config_print.hpp"
#include "zero/error.hpp"

namespace {

constexpr int kRefused = 2;
constexpr int kFailed = 1;

int run(const config_tool::Options& options) {
  using config_tool::Command;
  if (options.command == Command::kReference) {
    std::cout << zero::config_reference();
    return 0;
  }
  const zero::Facts facts = config_tool::facts_of(options);
  const zero::Config config = zero::Config::load(options.path, facts);
  if (options.command == Command::kExplain) {
    std::cout << config_tool::explain_text(config);
    return 0;
  }
  if (options.command == Command::kDiff) {
    const zero::Config other = zero::Config::load(options.other_path, facts);
    const std::string difference = config_tool::diff_text(config, other);
    std::cout << difference;
    return difference.empty() ? 0 : 1;
  }
  std::cout << (options.json ? config_tool::check_json(config)
                             : config_tool::check_text(config, options.path));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  config_tool::Options options;
  if (const auto code = config_tool::parse_command_line(argc, argv, options)) return *code;
  int code = 0;
  try {
    code = run(options);
  } catch (const std::exception& error) {
    std::cerr << "zero-config: " << error.what() << '\n';
    return kRefused;
  }
  if (std::cout.flush()) return code;
  std::cerr << "zero-config: not everything could be written to standard output\n";
  return kFailed;
}
