// A hand-written probe of every key that the configuration knows.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "zero/config.hpp"

namespace zero::config_test {

using Getter = std::function<double(const Config&)>;

struct Probe {
  std::string path;
  double by_default = 0;  // what the getter gives for {}
  std::string good;       // JSON
  double with_good = 0;
  std::vector<std::string> bad;  // out of range
  Getter get;                    // empty: the key only reports
  std::string beside = "{}";     // what the good value needs in the file
};

const std::vector<Probe>& probes();

}  // namespace zero::config_test
