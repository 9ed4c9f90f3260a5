// The one table of the configuration: every key with its type, default, range and effect.
//
// The parser, the validator, the effective configuration and the reference page work from it. A key
// is added by adding a row. Thread-safety: immutable data and pure functions.
#pragma once

#include <array>
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
  kSection,  // an object with keys of its own, each with a row
  kBoolean,  // bool
  kSwitch,   // bool, or the word "auto" where nothing settles it before the model is registered
  kInteger,  // std::int64_t; may be spelt 5e8, 5e8 as a string, or 5.0
  kNumber,   // double
  kBytes,    // std::int64_t; a whole number of bytes, or a text with a unit
  kWord,     // std::string, one of `words` whatever the case; the value has the case of the table
  kText,     // std::string, any
  kPair,     // std::vector<double> of two numbers
  kNumbers,  // std::vector<double>, at least one; a number is a list of one
  kAny,      // anything, and nothing of it is read
};

// What depends on the key.
enum class Effect : std::uint8_t {
  kResult,         // the trained weights
  kSpeedOrMemory,  // time or bytes, never the weights
  kReport,         // what is printed, or nothing at all
};

// What is done with the key.
enum class Policy : std::uint8_t {
  kActs,         // it is read into Config
  kNoEffect,     // taken, with a note where it asks for something
  kDefaultOnly,  // taken at its default, refused otherwise
  kOffOnly,      // a kAny: taken while nothing in it is enabled, refused otherwise
};

// Empty: the key was not given, or has no default of its own.
using Value =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<double>>;

inline bool is_empty(const Value& value) { return value.index() == 0; }

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

// The field of Config behind a key; null for keys that do not act. `get` gives an empty value where
// the field has none.
struct Access {
  void (*set)(Config&, const Value&) = nullptr;
  Value (*get)(const Config&) = nullptr;
};

// How "auto" is settled.
struct Auto {
  std::string_view fact = {};                   // its name in Facts
  Value (*from_facts)(const Facts&) = nullptr;  // empty: not known
  Value (*otherwise)(const Config&) = nullptr;  // without the fact, with a note
  bool only_auto = false;                       // the fact plays no part where a value stands
};

struct SchemaRow {
  std::string path;  // "zero_optimization.stage", as written today
  ValueType type = ValueType::kSection;
  Policy policy = Policy::kActs;
  Value default_value = {};
  Range range = {};
  std::vector<std::string> words = {};         // kWord: accepted
  std::vector<std::string> not_built = {};     // kWord: known to DeepSpeed, refused here
  std::vector<std::string> aliases = {};       // other names of the last part of the path
  std::string old_name = {};                   // an alias that is accepted with a warning
  std::string stands_for = {};                 // an old form of the row with this path, ...
  Value (*stands_as)(const Value&) = nullptr;  // ... whose value this gives
  bool nullable = false;                       // null means absent, as DeepSpeed's default is null
  bool required = false;                       // must be in its section if the section is there
  std::vector<std::string> of_types = {};  // belongs to these values of its section's "type" only
  int from_stage = 0;                      // has no effect at lower stages of zero_optimization
  bool follows = false;                    // where it is not given, others decide
  Effect effect = Effect::kResult;
  Auto automatic = {};
  std::string about = {};               // one sentence
  std::string default_text = {};        // where default_value is empty: what happens then
  std::string why = {};                 // what a user is told where the key does not act
  std::vector<std::string> sizes = {};  // kAny: members that mean ranks, if they are above 1
  bool by_presence = false;             // kOffOnly: enabled by being there
  Access field = {};
};

// The batch triple: total, per rank and micro-step, micro-steps.
inline constexpr std::array<std::string_view, 3> kBatchPaths = {
    "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"};

// In the order of the documentation; a section stands before its keys.
const std::vector<SchemaRow>& config_schema();

// Index of the row for a key as written in the section with this path ("" is the top level). Takes
// aliases. Empty if there is none.
std::optional<std::size_t> find_row(std::string_view section, std::string_view key);
// Index by full path as written today. REQUIRES: the path is in the table.
std::size_t row_index(std::string_view path);

// Whether the row can be written as this key in its section: name, other names, old name.
bool is_name_of(const SchemaRow& row, std::string_view key);

// Last part of the row's path, and what comes before it.
std::string_view row_name(const SchemaRow& row);
std::string_view row_section(const SchemaRow& row);

// Whether the key is one value that the effective configuration shows.
bool is_value(const SchemaRow& row);
// Whether the row belongs to the type that is chosen in its section ("optimizer", "scheduler").
bool is_of_type(const SchemaRow& row, const Config& config);
// Whether anything depends on the row under this configuration: it acts, and neither the stage nor
// the precision leaves it idle.
bool plays_a_part(const SchemaRow& row, const Config& config);

// The default_text of what a type cannot do without.
inline constexpr const char* kRequired = "required";

// "a whole number, at least 1", "one of AdamW, Adam, SGD", ...
std::string valid_values(const SchemaRow& row);
// As JSON: 5e8 comes out as 500000000, a list of one as a number where that means the same. Empty
// value: "null".
std::string value_text(const SchemaRow& row, const Value& value);
std::string number_text(double x);

}  // namespace zero::detail
