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
  enum class State : std::uint8_t {
    kGiven,    // has a value, or is a section
    kNull,     // null: as if it were not there
    kAuto,     // the word "auto"
    kRefused,  // a problem has been added
  };

  Value value;  // empty for a section, and where the state is not kGiven
  Place place;
  std::string path;  // as the file writes it
  State state = State::kGiven;
  std::string origin = {};  // where the value comes from, if not from its place
};

struct Reading {
  std::vector<std::optional<Setting>> settings;  // by row of config_schema(); empty: not given
  Problems problems;
  std::vector<Remark> warnings;
  std::vector<Remark> notes;

  // The setting of a row, by its path. Null if the file does not give it, gives null, or gives a
  // value that was refused. Auto counts once it is settled.
  const Setting* find(std::string_view path) const;
  bool batch_refused() const;  // one of its three keys was: nothing follows from the others
};

// Types, ranges, unknown keys and spellings of every key by itself.
void read_settings(const JsonNode& root, Reading& reading);

}  // namespace zero::detail
