// Reads what zero-train --json wrote: the memory planned, and that measured on each rank.
#pragma once

#include <array>
#include <istream>
#include <string>
#include <vector>

#include "zero/ledger.hpp"

namespace mem {

struct Figures {
  std::array<zero::Ledger::Account, zero::kCategoryCount> categories{};
  zero::Ledger::Account total;
};

struct Run {
  Figures plan;  // the same for every rank
  std::vector<Figures> ranks;
};

// Throws std::runtime_error naming file and line for what is no such run: lines that are no JSON
// or cut off, no plan, no memory, no end, ranks that are missing, there twice or beyond those
// planned.
Run read_run(std::istream& in, const std::string& name);
Run read_run(const std::string& path);

}  // namespace mem
