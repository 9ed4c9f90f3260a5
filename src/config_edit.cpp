#include "src/config_edit.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "src/config_schema.hpp"
#include "src/config_text.hpp"
#include "zero/error.hpp"

namespace zero::detail {
namespace {

JsonMember* find_member(JsonNode& object, std::string_view key) {
  const auto found = std::find_if(object.members.begin(), object.members.end(),
                                  [&](const JsonMember& member) { return member.key == key; });
  return found == object.members.end() ? nullptr : &*found;
}

bool is_object(const JsonNode& node) { return node.kind == JsonNode::Kind::kObject; }

// Takes out of `target` what `patch` gives under another name, so that the two cannot contradict
// each other. Two names within the patch are left for the reader to judge. `renamed`: the target is
// itself the patch's section under another name, so equal keys go as well.
void drop_other_names(JsonNode& target, const JsonNode& patch, const std::string& section,
                      bool renamed = false) {
  for (const JsonMember& given : patch.members) {
    const auto row = find_row(section, given.key);
    if (!row.has_value()) continue;  // a comment, or nothing that is known
    for (std::size_t i = 0; i < target.members.size();) {
      JsonMember& old = target.members[i];
      const bool same_row = is_name_of(config_schema()[*row], old.key);
      const bool other_name = renamed || old.key != given.key;
      bool drop = same_row && other_name;
      if (same_row && is_object(old.value) && is_object(given.value)) {
        drop_other_names(old.value, given.value, config_schema()[*row].path, other_name);
        drop = other_name && old.value.members.empty();
      }
      if (drop) {
        target.members.erase(target.members.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  }
}

void merge_members(JsonNode& target, JsonNode patch) {
  for (JsonMember& member : patch.members) {
    JsonMember* old = find_member(target, member.key);
    if (old == nullptr) {
      target.members.push_back(std::move(member));
    } else if (is_object(old->value) && is_object(member.value)) {
      merge_members(old->value, std::move(member.value));
    } else {
      *old = std::move(member);
    }
  }
}

JsonNode empty_object(const Place& place) {
  JsonNode object;
  object.kind = JsonNode::Kind::kObject;
  object.place = place;
  return object;
}

std::vector<std::string_view> split(std::string_view path, const Place& place) {
  std::vector<std::string_view> keys;
  for (std::string_view rest = path;;) {
    const std::size_t dot = rest.find('.');
    keys.push_back(rest.substr(0, dot));
    if (keys.back().empty() || static_cast<int>(keys.size()) >= kMaxJsonDepth) {
      throw ConfigError(concat(to_string(place), ": ", quoted(path, 80),
                               " is no path of a key; valid: such as zero_optimization.stage"));
    }
    if (dot == rest.npos) return keys;
    rest.remove_prefix(dot + 1);
  }
}

// The value at a path of the table, under the names in use today; null if it is not there.
JsonNode* find_path(JsonNode& root, std::string_view path) {
  JsonNode* node = &root;
  for (std::string_view rest = path; node != nullptr;) {
    const std::size_t dot = rest.find('.');
    JsonMember* member = is_object(*node) ? find_member(*node, rest.substr(0, dot)) : nullptr;
    node = member == nullptr ? nullptr : &member->value;
    if (dot == rest.npos) return node;
    rest.remove_prefix(dot + 1);
  }
  return nullptr;
}

void remove_path(JsonNode& root, std::string_view path) {
  const std::size_t dot = path.rfind('.');
  JsonNode* section = dot == path.npos ? &root : find_path(root, path.substr(0, dot));
  if (section == nullptr || !is_object(*section)) return;
  std::erase_if(section->members, [&](const JsonMember& member) {
    return member.key == path.substr(dot == path.npos ? 0 : dot + 1);
  });
}

// Takes out of `target` the old form of a key that `patch` gives, and the new one of an old form.
void drop_other_forms(JsonNode& target, JsonNode& patch) {
  for (const SchemaRow& row : config_schema()) {
    if (row.stands_for.empty()) continue;
    if (find_path(patch, row.stands_for) != nullptr) remove_path(target, row.path);
    if (find_path(patch, row.path) != nullptr) remove_path(target, row.stands_for);
  }
}

// The old form "zero_optimization": true or false as the object it stands for, so that keys can be
// set in it.
void unfold_old_form(JsonNode& root) {
  JsonMember* zero = find_member(root, "zero_optimization");
  if (zero == nullptr || zero->value.kind != JsonNode::Kind::kBoolean) return;
  JsonNode stage;
  stage.kind = JsonNode::Kind::kNumber;
  stage.place = zero->value.place;
  stage.text = zero->value.boolean ? "1" : "0";
  JsonNode section = empty_object(zero->value.place);
  section.members.push_back({"stage", zero->place, std::move(stage)});
  zero->value = std::move(section);
}

}  // namespace

void merge_objects(JsonNode& target, JsonNode patch) {
  unfold_old_form(target);
  drop_other_forms(target, patch);
  drop_other_names(target, patch, "");
  merge_members(target, std::move(patch));
}

void set_value(JsonNode& root, std::string_view path, JsonNode value, const Place& place) {
  const std::vector<std::string_view> keys = split(path, place);
  JsonNode patch;  // no object: what is there under another name goes as a whole
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    JsonNode object = empty_object(place);
    object.members.push_back({std::string(*key), place, std::move(patch)});
    patch = std::move(object);
  }
  if (keys.size() > 1) unfold_old_form(root);
  drop_other_forms(root, patch);
  drop_other_names(root, patch, "");
  JsonNode* node = &root;
  std::string above;
  for (const std::string_view& key : keys) {
    if (!is_object(*node)) {
      throw ConfigError(concat(to_string(place), ": ", shortened(path, 80), ": ", above,
                               " is not an object, so nothing can be set in it"));
    }
    JsonMember* member = find_member(*node, key);
    if (member == nullptr) {
      node->members.push_back({std::string(key), place, empty_object(place)});
      member = &node->members.back();
    }
    above = join_path(above, key);
    node = &member->value;
    if (&key == &keys.back()) *member = {std::string(key), place, std::move(value)};
  }
}

}  // namespace zero::detail
