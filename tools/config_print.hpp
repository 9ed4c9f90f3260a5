// What zero-config writes.
#pragma once

#include <string>

#include "zero/config.hpp"

namespace config_tool {

// {"stage": 2, "effective": {path: value, ...}, "warnings": [{path, message}, ...], "notes": [...]}
std::string check_json(const zero::Config& config);
// The same for people, without the values.
std::string check_text(const zero::Config& config, const std::string& path);

// The configuration in force as a file; what there is to say about it in comments at its end.
std::string explain_text(const zero::Config& config);

// A line for each path whose value differs; empty if none does.
std::string diff_text(const zero::Config& a, const zero::Config& b);

}  // namespace config_tool
