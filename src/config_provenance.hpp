// Where each value of a configuration comes from.
#pragma once

#include <string>
#include <vector>

#include "src/config_schema.hpp"

namespace zero::detail {

struct Provenance {
  struct Origin {
    Value value;  // when it was read: another one in Config was set by the program
    std::string text;
    bool was_auto = false;  // of the batch: not settled yet
  };
  std::vector<Origin> rows;  // of config_schema()
};

}  // namespace zero::detail
