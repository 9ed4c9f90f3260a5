// The one table of the configuration: every key with its type, default, range and effect.
//
// The parser, the validator and everything that prints a configuration work from it. A key is added
// by adding a row. Thread-safety: immutable data and pure functions.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "zero/config.hpp"

namespace zero::detail {

enum class ValueType : std::uint8_t {
  kSection,   // an object with keys of its own, each with a row
  kBoolean,   // bool
  kInteger,   // std::int64_t; may be spelt 5e8, 5e8 as a string, or 5.0
  kNumber,    // double
  kBytes,     // std::int64_t; a whole number of bytes, or a text with a unit
  kWord,      // std::string, one of `words` whatever the case; the value has the case of the table
  kPair,      // std::vector<double> of two numbers
  kNumbers,   // std::vector<double>, at least one; a number is a list of one
  kNotBuilt,  // DeepSpeed knows the key, this version does not: refused
};

// What depends on the key.
enum class Effect : std::uint8_t {
  kResult,         // the trained weights
  kSpeedOrMemory,  // time or bytes, never the weights
  kReport,         // what is printed, or nothing at all
};

// Empty: the key was not given, or has no default of its own.
using Value =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<double>>;

// Bounds of numbers. They are exact in double for all integers used here.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above_low = false;   // low itself is out of range
  bool below_high = false;  // high itself is out of range
  bool or_zero = false;     // 0 is in the range as well
  bool contains(double x) const {
    if (or_zero && x == 0) return true;
    return (above_low ? x > low : x >= low) && (below_high ? x < high : x <= high);
  }
};

struct SchemaRow {
  std::string path;  // "zero_optimization.stage", as written today
  ValueType type = ValueType::kSection;
  Value default_value = {};
  Range range = {};
  std::vector<std::string> words = {};      // kWord: accepted
  std::vector<std::string> not_built = {};  // kWord: known to DeepSpeed, refused here
  std::vector<std::string> aliases = {};    // other names of the last part of the path
  std::string old_name = {};                // an alias that is accepted with a warning
  bool nullable = false;                    // null means absent, as DeepSpeed's default is null
  bool required = false;                    // must be in its section if the section is there
  std::vector<std::string> of_types = {};   // belongs to these values of its section's "type" only
  int from_stage = 0;                       // has no effect at lower stages of zero_optimization
  Effect effect = Effect::kResult;
  std::string about = {};         // one sentence
  std::string default_text = {};  // where default_value is empty: what happens then
  std::string note = {};          // warning text when a value other than the default is given
  void (*set)(Config&, const Value&) = nullptr;
};

// In the order of the documentation; a section stands before its keys.
const std::vector<SchemaRow>& config_schema();

// Index of the row for a key as written in the section with this path ("" is the top level). Takes
// aliases. Empty if there is none.
std::optional<std::size_t> find_row(std::string_view section, std::string_view key);
// Index by full path as written today. REQUIRES: the path is in the table.
std::size_t row_index(std::string_view path);

// Last part of the row's path, and what comes before it.
std::string_view row_name(const SchemaRow& row);
std::string_view row_section(const SchemaRow& row);

// "an integer, 1 or more", "one of AdamW, Adam, SGD", ...
std::string valid_values(const SchemaRow& row);
// As JSON: 5e8 comes out as 500000000. Empty value: "".
std::string value_text(const Value& value);

}  // namespace zero::detail
