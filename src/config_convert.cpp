#include "src/config_convert.hpp"

#include <algorithm>
#include <span>

#include "src/config_number.hpp"
#include "src/config_text.hpp"
#include "zero/error.hpp"

namespace zero::detail {
namespace {

constexpr std::size_t kValueLimit = 60;  // longer values are cut in messages

Conversion refuse(const SchemaRow& row, const JsonNode& node, const std::string& why) {
  return {{}, concat(shown(node), " ", why, "; valid: ", valid_values(row)), {}};
}

bool is_number(const JsonNode& node) {
  return node.kind == JsonNode::Kind::kNumber && is_json_number(node.text);
}

Conversion convert_integer(const SchemaRow& row, const JsonNode& node) {
  const bool is_text = node.kind == JsonNode::Kind::kString;
  if ((node.kind != JsonNode::Kind::kNumber && !is_text) || !is_json_number(node.text)) {
    return refuse(row, node, "is not a whole number");
  }
  const WholeNumber whole = parse_whole(node.text);
  if (whole.verdict == Whole::kFractional) return refuse(row, node, "is not whole");
  if (whole.verdict == Whole::kTooLarge) {
    return refuse(row, node, "is too large: beyond 9223372036854775807");
  }
  if (!row.range.contains(static_cast<double>(whole.value))) {
    return refuse(row, node, "is out of range");
  }
  if (!is_text) return {whole.value, {}, {}};
  return {whole.value, {}, concat("the text ", shown(node), " is read as ", whole.value)};
}

Conversion convert_number(const SchemaRow& row, const JsonNode& node) {
  const auto number = is_number(node) ? parse_double(node.text) : std::nullopt;
  if (!number) return refuse(row, node, "is not a number");
  if (!row.range.contains(*number)) return refuse(row, node, "is out of range");
  return {*number, {}, {}};
}

Conversion convert_bytes(const SchemaRow& row, const JsonNode& node) {
  const bool is_size = node.kind == JsonNode::Kind::kString || node.kind == JsonNode::Kind::kNumber;
  const auto bytes = is_size ? parse_size(node.text) : std::nullopt;
  if (!bytes) return refuse(row, node, "is no size in bytes");
  if (!row.range.contains(static_cast<double>(*bytes))) {
    return refuse(row, node, "is out of range");
  }
  return {*bytes, {}, {}};
}

Conversion convert_word(const SchemaRow& row, const JsonNode& node) {
  if (node.kind != JsonNode::Kind::kString) return refuse(row, node, "is not a word");
  const std::string wanted = lowercase(node.text);
  for (const std::string& word : row.words) {
    if (lowercase(word) == wanted) return {word, {}, {}};
  }
  for (const std::string& word : row.not_built) {
    if (lowercase(word) == wanted) return refuse(row, node, "is not built here");
  }
  return refuse(row, node, "is not known");
}

Conversion convert_items(const SchemaRow& row, const JsonNode& node,
                         std::span<const JsonNode> items, const char* otherwise) {
  std::vector<double> numbers;
  for (const JsonNode& item : items) {
    const auto number = is_number(item) ? parse_double(item.text) : std::nullopt;
    if (!number) return refuse(row, node, otherwise);
    if (!row.range.contains(*number)) return refuse(row, node, "is out of range");
    numbers.push_back(*number);
  }
  return {numbers, {}, {}};
}

Conversion convert_numbers(const SchemaRow& row, const JsonNode& node) {
  const bool is_list = node.kind == JsonNode::Kind::kArray;
  if (is_list && node.items.empty()) return refuse(row, node, "is empty");
  const std::span<const JsonNode> items = is_list ? std::span(node.items) : std::span(&node, 1);
  return convert_items(row, node, items, "is no number, and no list of numbers");
}

Conversion convert_pair(const SchemaRow& row, const JsonNode& node) {
  constexpr const char* kNoPair = "is not a list of two numbers";
  if (node.kind != JsonNode::Kind::kArray || node.items.size() != 2) {
    return refuse(row, node, kNoPair);
  }
  return convert_items(row, node, node.items, kNoPair);
}

}  // namespace

std::string shown(const JsonNode& node) {
  if (node.kind == JsonNode::Kind::kObject) return "an object";
  if (node.kind == JsonNode::Kind::kArray && node.items.size() > 4) return "a list";
  std::string text = write_json(node);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return shortened(text, kValueLimit);
}

Conversion convert(const SchemaRow& row, const JsonNode& node) {
  switch (row.type) {
    case ValueType::kBoolean:
    case ValueType::kSwitch:
      if (node.kind == JsonNode::Kind::kBoolean) return {node.boolean, {}, {}};
      return refuse(row, node, "is not a boolean");
    case ValueType::kInteger:
      return convert_integer(row, node);
    case ValueType::kNumber:
      return convert_number(row, node);
    case ValueType::kBytes:
      return convert_bytes(row, node);
    case ValueType::kWord:
      return convert_word(row, node);
    case ValueType::kText:
      if (node.kind == JsonNode::Kind::kString) return {node.text, {}, {}};
      return refuse(row, node, "is not a text");
    case ValueType::kPair:
      return convert_pair(row, node);
    case ValueType::kNumbers:
      return convert_numbers(row, node);
    case ValueType::kSection:
    case ValueType::kAny:
      break;
  }
  return {};
}

std::string range_refusal(const SchemaRow& row, const Value& value) {
  struct InRange {
    const Range& range;
    bool operator()(std::int64_t x) const { return range.contains(static_cast<double>(x)); }
    bool operator()(double x) const { return range.contains(x); }
    bool operator()(const std::vector<double>& x) const {
      return std::all_of(x.begin(), x.end(), [&](double each) { return range.contains(each); });
    }
    bool operator()(const std::string&) const { return true; }
    bool operator()(bool) const { return true; }
    bool operator()(std::monostate) const { return true; }
  };
  if (std::visit(InRange{row.range}, value)) return {};
  return concat(value_text(row, value), " is out of range; valid: ", valid_values(row));
}

}  // namespace zero::detail
