// A JSON text as a tree in which every key and value knows where it was written.
//
// Comments (// and /* */) are allowed; anything else that is not JSON is an error with line and
// column. Numbers keep their spelling, so whole numbers are read exactly. Thread-safety: values.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace zero::detail {

// Where something was written. Lines and columns count from 1, columns in bytes. Line 0: nowhere in
// particular.
struct Place {
  std::shared_ptr<const std::string> source;  // a file name, or words such as "--set"
  int line = 1;
  int column = 1;
};
// "ds_config.json:12:7".
std::string to_string(const Place& place);

struct JsonMember;

struct JsonNode {
  enum class Kind { kNull, kBoolean, kNumber, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  Place place;
  bool boolean = false;
  std::string text;                 // kString: its value. kNumber: as written.
  std::vector<JsonNode> items;      // kArray
  std::vector<JsonMember> members;  // kObject, in the order of the text
};

struct JsonMember {
  std::string key;
  Place place;
  JsonNode value;
};

// What is wrong with a text, collected so that the user sees all of it at once.
class Problems {
 public:
  // `path` may be empty; otherwise the message starts with it.
  void add(const Place& place, std::string_view path, std::string_view message);
  void add(std::string_view message);  // that names its place itself
  // Whether more problems would only be counted.
  bool full() const { return lines_.size() >= kMaxLines; }
  // Throws ConfigError with all problems, one a line, if there are any.
  void throw_if_any() const;

 private:
  static constexpr std::size_t kMaxLines = 40;
  std::vector<std::string> lines_;
  std::size_t count_ = 0;
};

// Objects and arrays deeper than this are refused.
inline constexpr int kMaxJsonDepth = 64;

// Duplicate keys go to `problems` and only the first is kept; keys that are comments, and those
// inside of comments, may repeat. Throws ConfigError if the text is no JSON, has a number beyond
// double, or is nested too deeply.
JsonNode parse_json(std::string_view text, std::string_view source, Problems& problems);

// A value from a command line: JSON, or otherwise the text as a string. Throws ConfigError for JSON
// with a duplicate key.
JsonNode parse_word_or_json(std::string_view text, std::string_view source);

// Whether the text is one JSON value, comments and nesting as above. Numbers may be of any size.
bool is_json(std::string_view text);

// The tree as JSON text, indented by two blanks, lists of plain values on one line.
std::string write_json(const JsonNode& node);

}  // namespace zero::detail
