#include "src/config_edit.hpp"

#include <algorithm>
#include <string>

#include "src/config_schema.hpp"
#include "src/config_text.hpp"
#include "zero/error.hpp"

namespace zero::detail {
namespace {

// The member with this key, or the one that is another name of the same row.
JsonMember* find_member(JsonNode& object, std::string_view section, std::string_view key) {
  const auto same_key = [&](const JsonMember& member) { return member.key == key; };
  auto found = std::find_if(object.members.begin(), object.members.end(), same_key);
  const auto row = find_row(section, key);
  if (found == object.members.end() && row.has_value()) {
    found = std::find_if(object.members.begin(), object.members.end(),
                         [&](const JsonMember& m) { return find_row(section, m.key) == row; });
  }
  return found == object.members.end() ? nullptr : &*found;
}

// The section's path as the table writes it; unknown sections have no rows, so any path will do.
std::string section_path(std::string_view section, std::string_view key) {
  const auto row = find_row(section, key);
  return row.has_value() ? config_schema()[*row].path : join_path(section, key);
}

void merge_section(JsonNode& target, JsonNode patch, const std::string& section) {
  for (JsonMember& member : patch.members) {
    JsonMember* old = find_member(target, section, member.key);
    if (old == nullptr) {
      target.members.push_back(std::move(member));
    } else if (old->value.kind == JsonNode::Kind::kObject &&
               member.value.kind == JsonNode::Kind::kObject) {
      merge_section(old->value, std::move(member.value), section_path(section, member.key));
    } else {
      *old = std::move(member);
    }
  }
}

}  // namespace

void merge_objects(JsonNode& target, JsonNode patch) {
  merge_section(target, std::move(patch), "");
}

void set_value(JsonNode& root, std::string_view path, JsonNode value, const Place& place) {
  JsonNode* node = &root;
  std::string section;
  int depth = 0;
  for (std::string_view rest = path;;) {
    const std::size_t dot = rest.find('.');
    const std::string_view key = rest.substr(0, dot);
    if (key.empty() || ++depth >= kMaxJsonDepth) {
      throw ConfigError(concat(to_string(place), ": ", quoted(path, 80),
                               " is no path of a key; valid: such as zero_optimization.stage"));
    }
    JsonMember* member = find_member(*node, section, key);
    if (member == nullptr) {
      JsonNode object;
      object.kind = JsonNode::Kind::kObject;
      object.place = place;
      node->members.push_back({std::string(key), place, std::move(object)});
      member = &node->members.back();
    }
    if (dot == rest.npos) {
      *member = {std::string(key), place, std::move(value)};
      return;
    }
    if (member->value.kind != JsonNode::Kind::kObject) {
      throw ConfigError(concat(to_string(place), ": ", shortened(path, 80), ": ",
                               join_path(section, key),
                               " is not an object, so nothing can be set in it"));
    }
    section = section_path(section, key);
    node = &member->value;
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace zero::detail
