// --fact key=value, the same for every tool that reads a configuration.
#pragma once

#include <string>
#include <vector>

#include "zero/config_facts.hpp"
#include "zero/error.hpp"

namespace facts {

// Throws zero::ConfigError for what is no fact, and for one that is given twice.
inline zero::Facts parse(const std::vector<std::string>& assignments) {
  zero::Facts facts;
  std::vector<std::string> seen;
  for (const std::string& assignment : assignments) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw zero::ConfigError("--fact " + assignment + ": expected key=value, e.g. lr=3e-4");
    }
    const std::string key = assignment.substr(0, equals);
    for (const std::string& other : seen) {
      if (other == key) throw zero::ConfigError("--fact " + assignment + ": given twice");
    }
    seen.push_back(key);
    facts.set(key, assignment.substr(equals + 1));
  }
  return facts;
}

}  // namespace facts
