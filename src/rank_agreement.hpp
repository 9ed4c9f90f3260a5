// Whether all ranks were set up alike.
#pragma once

#include <string>
#include <vector>

#include "src/runtime.hpp"

namespace zero {

// Throws ConfigError on every rank unless all have the same lines: it has the first line that is
// not the same everywhere, as rank 0 has it and as the first rank does that has another.
// Collective; blocks. Cost: one exchange of 16 bytes a rank; where the ranks differ, one of 8 for
// each halving of the lines, and that of the one line.
void require_alike(Runtime& rt, const std::vector<std::string>& lines);

}  // namespace zero
