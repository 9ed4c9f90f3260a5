// Changes to a configuration's JSON tree, made as if the file had been written so.
#pragma once

#include <string_view>

#include "src/config_json.hpp"

namespace zero::detail {

// Sets the value at a dotted path, with objects in between made where missing. A key that the file
// has under other names of it loses those. Throws ConfigError if the path is empty, too
// deep, or leads through something that is no object.
void set_value(JsonNode& root, std::string_view path, JsonNode value, const Place& place);

// Merges `patch` into `target`, key by key, objects deeply; other values are replaced, also those
// under other names. Two names of one key in the patch both stay, as in a file.
// REQUIRES: both are objects.
void merge_objects(JsonNode& target, JsonNode patch);

}  // namespace zero::detail
