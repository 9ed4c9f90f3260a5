// Walks a JSON tree along the schema and collects the settings, or all that is wrong with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/config_json.hpp"
#include "src/config_schema.hpp"

namespace zero::detail {

// A key of the file.
struct Setting {
  enum class State : std::uint8_t { kGiven, kNull, kRefused };

  Value value;  // empty for a section, for a key that is null, and for one that was refused
  Place place;
  std::string path;  // as the file writes it
  State state = State::kGiven;
};

struct Reading {
  std::vector<std::optional<Setting>> settings;  // by row of config_schema(); empty: not given
  Problems problems;
  std::vector<std::string> warnings;

  // The setting of a row, by its path. Null if the file does not give it, gives null, or gives a
  // value that was refused.
  const Setting* find(std::string_view path) const;
};

// Types, ranges, unknown keys and spellings of every key by itself.
void read_settings(const JsonNode& root, Reading& reading);

// What keys mean together: precision, optimizer kinds, scale bounds, stages, missing sections.
// Adds problems and warnings. `config` holds the values, and gets defaults that depend on others.
void check_rules(Reading& reading, Config& config);

}  // namespace zero::detail
