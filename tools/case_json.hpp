// JSON as zero-case needs it: numbers keep their spelling, members their order, and everything read
// knows its path, so that an error can name the place.
//
// Thread-safety: values; const access from many threads is fine.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace zero::cases {

// A case file cannot be read, or says something that makes no sense. The message names the JSON
// path.
class CaseError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Json {
  enum class Kind : std::uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };
  Kind kind = Kind::kNull;
  bool boolean = false;
  double number = 0.0;
  std::string text;               // a string's value, or a number as the file spells it
  std::vector<Json> items;        // of an array or an object
  std::vector<std::string> keys;  // of an object, beside `items`
};

// Objects and arrays deeper than this are refused.
inline constexpr std::size_t kMaxDepth = 64;

// Throws CaseError: with line and column if the text is no JSON, with the outermost key if it is
// nested too deeply.
Json parse_json(std::string_view text);
// The value as JSON text, numbers spelled as they were.
std::string to_text(const Json& json);
// `text` as a JSON string, in quotes.
std::string quote(std::string_view text);

// "steps" + "expect" -> "steps.expect"; "steps" + 2 -> "steps[2]".
std::string child(std::string_view path, std::string_view key);
std::string child(std::string_view path, std::size_t index);

// The value as the asked type, or CaseError naming path, value and what would be valid.
bool as_bool(const Json& json, std::string_view path);
const std::string& as_text(const Json& json, std::string_view path);
double as_number(const Json& json, std::string_view path);
// A number, or one of "inf", "-inf", "nan".
double as_any_number(const Json& json, std::string_view path);
// A whole number from `least` to `most`. REQUIRES: most < 2^53.
std::int64_t as_whole(const Json& json, std::string_view path, std::int64_t least,
                      std::int64_t most);
const std::vector<Json>& as_array(const Json& json, std::string_view path);

// The members of an object, each asked for by name. Keys nobody asked for are refused at the end.
class Fields {
 public:
  // Throws CaseError unless `json` is an object without duplicate keys. REQUIRES: json outlives
  // this.
  Fields(const Json& json, std::string path);

  const Json* find(std::string_view key);  // null if absent
  const Json& need(std::string_view key);  // CaseError if absent
  std::string at(std::string_view key) const { return child(path_, key); }
  void refuse_others() const;

 private:
  const Json& json_;
  std::string path_;
  std::vector<std::string> known_;
};

}  // namespace zero::cases
