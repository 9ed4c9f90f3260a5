#include <algorithm>

#include "src/config_json.hpp"
#include "src/config_text.hpp"
#include "zero/error.hpp"

namespace zero::detail {
namespace {

constexpr std::size_t kLineLimit = 1000;      // bytes of one problem
constexpr std::size_t kMessageLimit = 12000;  // bytes of all

bool is_plain(const JsonNode& node) {
  return node.kind != JsonNode::Kind::kObject && node.kind != JsonNode::Kind::kArray;
}

void write(const JsonNode& node, const std::string& indent, std::string& out) {
  const std::string inner = indent + "  ";
  switch (node.kind) {
    case JsonNode::Kind::kNull:
      out += "null";
      return;
    case JsonNode::Kind::kBoolean:
      out += node.boolean ? "true" : "false";
      return;
    case JsonNode::Kind::kNumber:
      out += node.text;
      return;
    case JsonNode::Kind::kString:
      out += quoted(node.text);
      return;
    case JsonNode::Kind::kArray: {
      const bool one_line = std::all_of(node.items.begin(), node.items.end(), is_plain);
      out += '[';
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        if (!one_line) out += (i == 0 ? "\n" : ",\n") + inner;
        if (one_line && i > 0) out += ", ";
        write(node.items[i], inner, out);
      }
      out += one_line ? "]" : "\n" + indent + "]";
      return;
    }
    case JsonNode::Kind::kObject:
      out += '{';
      for (std::size_t i = 0; i < node.members.size(); ++i) {
        out += (i == 0 ? "\n" : ",\n") + inner + quoted(node.members[i].key) + ": ";
        write(node.members[i].value, inner, out);
      }
      out += node.members.empty() ? "}" : "\n" + indent + "}";
      return;
  }
}

}  // namespace

std::string to_string(const Place& place) {
  if (place.line == 0 && place.source != nullptr) return *place.source;
  return concat(place.source == nullptr ? "config" : *place.source, ":", place.line, ":",
                place.column);
}

std::string write_json(const JsonNode& node) {
  std::string out;
  write(node, "", out);
  return out;
}

void Problems::add(const Place& place, std::string_view path, std::string_view message) {
  add(concat(to_string(place), ": ", path, path.empty() ? "" : ": ", message));
}

void Problems::add(std::string_view message) {
  ++count_;
  if (!full()) lines_.push_back(shortened(message, kLineLimit));
}

void Problems::throw_if_any() const {
  if (count_ == 0) return;
  if (count_ == 1) throw ConfigError(lines_.front());
  std::string message = concat(count_, full() ? " or more problems:" : " problems:");
  std::size_t shown = 0;
  for (; shown < lines_.size() && message.size() < kMessageLimit; ++shown) {
    message += "\n  " + lines_[shown];
  }
  if (shown < count_) message += concat("\n  ... and ", count_ - shown, " more");
  throw ConfigError(message);
}

}  // namespace zero::detail
