// One value of a file as its row of the schema wants it.
#pragma once

#include <string>

#include "src/config_json.hpp"
#include "src/config_schema.hpp"

namespace zero::detail {

struct Conversion {
  Value value;          // empty if it cannot be taken
  std::string refusal;  // why not, and what would be valid
  std::string warning;  // it was taken, but is spelt oddly
};

// Types and ranges. REQUIRES: the row is one of a value, and the node is not null.
Conversion convert(const SchemaRow& row, const JsonNode& node);
// The same for a value that does not come from a file; the refusal is empty if it is in range.
std::string range_refusal(const SchemaRow& row, const Value& value);

// As a message shows it: cut, on one line.
std::string shown(const JsonNode& node);

}  // namespace zero::detail
