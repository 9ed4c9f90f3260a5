// What the command lines of the benches share: checks of numbers, and how parsing ends.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>

namespace zero::bench {

// Without what CLI11 would read in another base or what only strtod calls a number: "0x10", "nan".
inline CLI::Validator only(const std::string& characters) {
  return {[characters](const std::string& text) {
            const bool fits = text.find_first_not_of(characters) == std::string::npos;
            return fits && !text.starts_with('+') ? std::string()
                                                  : "Value " + text + " is no decimal number";
          },
          ""};
}

// A whole number of `least` to `most`, at least 1: CLI11 would read "010" as eight.
template <class T>
CLI::Option* add_whole(CLI::App& app, const std::string& flag, T& value, T least, T most,
                       const std::string& about) {
  const auto octal = [](const std::string& text) {
    return text.starts_with('0') ? "Value " + text + " starts with 0" : std::string();
  };
  return app.add_option(flag, value, about)
      ->check(CLI::Range(least, most))
      ->check(only("0123456789"))
      ->check(CLI::Validator(octal, ""));
}

inline CLI::Option* add_seconds(CLI::App& app, double& value, const std::string& about) {
  const auto positive = [](const std::string& text) {
    return std::strtod(text.c_str(), nullptr) > 0 ? std::string()
                                                  : "Value " + text + " is not above 0";
  };
  return app.add_option("--seconds", value, about)
      ->type_name("S")
      ->check(CLI::Range(0.0, 86400.0))
      ->check(only("0123456789.eE+-"))
      ->check(CLI::Validator(positive, "above 0"));
}

// --help, defaults in it, and of a flag that is given twice the last value. Before any option.
inline void set_defaults(CLI::App& app) {
  app.set_help_flag("--help", "prints this");
  app.option_defaults()->always_capture_default()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);
}

// Says on stderr what is wrong; the exit code of that.
inline int refuse(const CLI::App& app, const std::string& why) {
  std::cerr << app.get_name() << ": " << why << "\n";
  return 2;
}

// The exit code where the bench is not to run: 0 after --help, 2 after a refusal on stderr.
inline std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    app.exit(help);
    return std::cout.flush() ? 0 : 1;
  } catch (const CLI::ParseError& error) {
    return refuse(app, std::string(error.what()) + "\nRun with --help for more information.");
  }
  return std::nullopt;
}

}  // namespace zero::bench
