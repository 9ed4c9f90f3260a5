// The only file that reads JSON, and the only one that includes nlohmann/json: it takes seconds to
// compile. The parser is driven through its event interface over an iterator that counts, so each
// event can be placed in the text.
#include "src/config_json.hpp"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "src/config_text.hpp"
#include "zero/error.hpp"

namespace zero::detail {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMessageLimit = 300;
constexpr int kNumberOverflow = 406;  // of nlohmann/json: out_of_range.406

// Walks the text and leaves in `*consumed` how much of it the lexer has seen.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(std::string_view text, std::size_t offset, std::size_t* consumed)
      : text_(text), offset_(offset), consumed_(consumed) {}
  reference operator*() const { return text_[offset_]; }
  CountingIterator& operator++() {
    *consumed_ = ++offset_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) {
    return a.offset_ == b.offset_;
  }
  friend bool operator!=(const CountingIterator& a, const CountingIterator& b) { return !(a == b); }

 private:
  std::string_view text_;
  std::size_t offset_;
  std::size_t* consumed_;
};

bool is_number_char(char c) {
  return (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.' || c == 'e' || c == 'E';
}

// Builds the tree from the parser's events. Returning false stops the parser.
class TreeBuilder : public Json::json_sax_t {
 public:
  TreeBuilder(std::string_view text, std::string_view source, Problems& problems)
      : text_(text), source_(std::make_shared<const std::string>(source)), problems_(problems) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') line_starts_.push_back(i + 1);
    }
  }

  // Whether the text is JSON with numbers that fit; if not, a problem has been added.
  bool parse() {
    if (refuse_nul()) return false;
    return Json::sax_parse(CountingIterator(text_, 0, &consumed_),
                           CountingIterator(text_, text_.size(), &consumed_), this,
                           Json::input_format_t::json, /*strict=*/true, /*ignore_comments=*/true);
  }
  // Whether the parser stopped at a number beyond double: JSON, but of no use.
  bool overflowed() const { return overflowed_; }
  JsonNode take_root() { return std::move(root_); }

  bool null() override { return plain(JsonNode::Kind::kNull, 4); }
  bool boolean(bool value) override {
    return plain(JsonNode::Kind::kBoolean, value ? 4 : 5, value);
  }
  bool number_integer(number_integer_t) override { return number(); }
  bool number_unsigned(number_unsigned_t) override { return number(); }
  bool number_float(number_float_t, const string_t&) override { return number(); }
  bool string(string_t& value) override {
    JsonNode& node = add(JsonNode::Kind::kString, string_start());
    node.text = std::move(value);
    return true;
  }
  bool binary(binary_t&) override { return false; }  // never in JSON text
  bool start_object(std::size_t) override { return open(JsonNode::Kind::kObject); }
  bool start_array(std::size_t) override { return open(JsonNode::Kind::kArray); }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool key(string_t& value) override {
    key_ = std::move(value);
    key_place_ = place(string_start());
    return true;
  }
  bool end_object() override {
    if (!in_comment()) drop_duplicates(*open_.back());
    open_.pop_back();
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    overflowed_ = error.id == kNumberOverflow;
    if (overflowed_) {
      const std::size_t begin = number_start();
      std::size_t end = begin;
      while (end < text_.size() && is_number_char(text_[end])) ++end;
      problems_.add(place(begin), path_to_come(),
                    shortened(text_.substr(begin, end - begin), kMessageLimit) +
                        " is too large: beyond 1.7976931348623157e+308");
      return false;
    }
    std::string_view what = error.what();
    // "[json.exception.parse_error.101] parse error at line 3, column 5: syntax error ...": the
    // place is said by ours.
    if (const auto end = what.find("] "); end != what.npos) what.remove_prefix(end + 2);
    if (const auto end = what.find(", column ");
        what.starts_with("parse error at") && end != what.npos) {
      what.remove_prefix(std::min(what.find(": ", end) + 2, what.size()));
    }
    problems_.add(place(error_offset(what)), path_to_come(),
                  "not JSON: " + shortened(what, kMessageLimit));
    return false;
  }

 private:
  // The parser takes a NUL byte as the end of the text.
  bool refuse_nul() {
    const std::size_t at = text_.find('\0');
    if (at != text_.npos) problems_.add(place(at), "", "not JSON: a NUL byte (is it UTF-16?)");
    return at != text_.npos;
  }

  Place place(std::size_t offset) const {
    const auto after = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
    return {source_, static_cast<int>(after - line_starts_.begin()),
            static_cast<int>(offset - *std::prev(after)) + 1};
  }

  // Offset of the opening quote of the string that has just been read.
  std::size_t string_start() const {
    std::size_t at = consumed_ - 1;  // the closing quote
    for (;;) {
      at = text_.rfind('"', at - 1);
      std::size_t backslashes = 0;
      while (backslashes < at && text_[at - backslashes - 1] == '\\') ++backslashes;
      if (backslashes % 2 == 0) return at;
    }
  }

  std::size_t number_start() const {
    std::size_t end = consumed_;  // one beyond the number, which the lexer had to look at
    if (end > 0 && !is_number_char(text_[end - 1])) --end;
    while (end > 0 && is_number_char(text_[end - 1])) --end;
    return end;
  }

  // A whole token that is out of place is pointed at by its start, anything else by its last byte.
  std::size_t error_offset(std::string_view what) const {
    const std::string_view cause = what.substr(0, what.find(';'));  // beyond: text of the file
    if (cause.ends_with("unexpected string literal")) return string_start();
    if (cause.ends_with("unexpected number literal")) return number_start();
    return consumed_ == 0 ? 0 : consumed_ - 1;
  }

  // Adds a value to what is open. The node stays where it is until its own parent grows again.
  JsonNode& add(JsonNode::Kind kind, std::size_t offset) {
    JsonNode* node = &root_;
    if (!open_.empty()) {
      JsonNode& parent = *open_.back();
      if (parent.kind == JsonNode::Kind::kObject) {
        parent.members.push_back({std::move(key_), key_place_, {}});
        key_.clear();
        node = &parent.members.back().value;
      } else {
        node = &parent.items.emplace_back();
      }
    }
    node->kind = kind;
    node->place = place(offset);
    return *node;
  }

  bool plain(JsonNode::Kind kind, std::size_t length, bool value = false) {
    add(kind, consumed_ - length).boolean = value;
    return true;
  }

  bool number() {
    const std::size_t begin = number_start();
    std::size_t end = begin;
    while (end < consumed_ && is_number_char(text_[end])) ++end;
    add(JsonNode::Kind::kNumber, begin).text = text_.substr(begin, end - begin);
    return true;
  }

  bool open(JsonNode::Kind kind) {
    JsonNode& node = add(kind, consumed_ - 1);
    if (static_cast<int>(open_.size()) >= kMaxJsonDepth) {
      problems_.add(node.place, "", concat("nested more than ", kMaxJsonDepth, " deep"));
      return false;
    }
    open_.push_back(&node);
    return true;
  }

  std::string path_to_come() const {
    return key_.empty() ? current_path() : join_path(current_path(), key_);
  }

  // Whether what is open is part of a comment: there, nothing is a key.
  bool in_comment() const {
    for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
      if (open_[i]->kind == JsonNode::Kind::kObject &&
          is_comment_key(open_[i]->members.back().key)) {
        return true;
      }
    }
    return false;
  }

  // The path of what is open, for messages.
  std::string current_path() const {
    std::string path;
    for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
      if (open_[i]->kind == JsonNode::Kind::kObject) {
        path = join_path(path, open_[i]->members.back().key);
      } else {
        path += concat("[", open_[i]->items.size() - 1, "]");
      }
    }
    return path;
  }

  void drop_duplicates(JsonNode& object) {
    std::vector<std::size_t> order(object.members.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return object.members[a].key < object.members[b].key;
    });
    std::vector<bool> repeated(order.size(), false);
    std::size_t first = 0;
    for (std::size_t i = 1; i < order.size(); ++i) {
      const JsonMember& member = object.members[order[i]];
      const JsonMember& earlier = object.members[order[first]];
      if (member.key != earlier.key) {
        first = i;
      } else if (!is_comment_key(member.key)) {
        repeated[order[i]] = true;
        problems_.add(member.place, join_path(current_path(), member.key),
                      concat("duplicate key, on lines ", earlier.place.line, " and ",
                             member.place.line, "; write it once"));
      }
    }
    std::size_t index = 0;
    std::erase_if(object.members, [&](const JsonMember&) { return repeated[index++]; });
  }

  std::string_view text_;
  std::shared_ptr<const std::string> source_;
  Problems& problems_;
  std::vector<std::size_t> line_starts_ = {0};
  std::size_t consumed_ = 0;
  bool overflowed_ = false;
  JsonNode root_;
  std::vector<JsonNode*> open_;  // from the root to the innermost object or array
  std::string key_;              // of the value to come; empty when there is none
  Place key_place_;
};

}  // namespace

JsonNode parse_json(std::string_view text, std::string_view source, Problems& problems) {
  TreeBuilder builder(text, source, problems);
  if (!builder.parse()) problems.throw_if_any();
  return builder.take_root();
}

JsonNode parse_word_or_json(std::string_view text, std::string_view source) {
  if (is_json(text)) {
    Problems duplicates;
    JsonNode node = parse_json(text, source, duplicates);
    duplicates.throw_if_any();
    return node;
  }
  JsonNode node;
  node.kind = JsonNode::Kind::kString;
  node.text = text;
  node.place.source = std::make_shared<const std::string>(source);
  return node;
}

bool is_json(std::string_view text) {
  Problems problems;
  TreeBuilder builder(text, "", problems);
  return builder.parse() || builder.overflowed();
}

}  // namespace zero::detail
