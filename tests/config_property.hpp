// What holds for any text that is read as a configuration.
#pragma once

#include <string>
#include <string_view>

#include "zero/config.hpp"

namespace zero::config_test {

struct Outcome {
  bool taken = false;
  std::string broken;  // the promise that does not hold; empty: all do
};

// A text is taken, or refused with a ConfigError that has a place and a bound. What is taken means
// the same when its effective configuration is read as a file, and when its own JSON is.
Outcome read_any(std::string_view text, const Facts& facts);

// Facts that settle everything.
Facts all_facts();

}  // namespace zero::config_test
