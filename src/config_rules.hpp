// What keys mean together.
#pragma once

#include "src/config_reader.hpp"

namespace zero::detail {

// What keys mean together: precision, optimizer kinds, scale bounds, stages, missing sections.
// Adds problems, warnings and notes. `config` holds the values, and gets defaults that depend on
// others.
void check_rules(const Facts& facts, Reading& reading, Config& config);

}  // namespace zero::detail
