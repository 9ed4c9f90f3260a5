#include "src/config_reader.hpp"

#include <algorithm>

#include "src/config_convert.hpp"
#include "src/config_number.hpp"
#include "src/config_text.hpp"
#include "zero/error.hpp"

namespace zero::detail {
namespace {

bool is_auto(const JsonNode& node) {
  return node.kind == JsonNode::Kind::kString && node.text == "auto";
}

struct Found {
  Place place;
  std::string path;
};

// The first member, at any depth, that says something is enabled.
std::optional<Found> enabled_member(const JsonNode& node, const std::string& path) {
  for (const JsonMember& member : node.members) {
    if (is_comment_key(member.key)) continue;
    const std::string below = join_path(path, member.key);
    const bool zero =
        member.value.kind == JsonNode::Kind::kNumber && parse_double(member.value.text) == 0.0;
    const bool off = member.value.kind == JsonNode::Kind::kNull || zero ||
                     (member.value.kind == JsonNode::Kind::kBoolean && !member.value.boolean);
    if ((member.key == "enabled" || member.key.ends_with("_enabled")) && !off) {
      return Found{member.place, below};
    }
    if (auto found = enabled_member(member.value, below)) return found;
  }
  for (const JsonNode& item : node.items) {
    if (auto found = enabled_member(item, path)) return found;
  }
  return std::nullopt;
}

class Reader {
 public:
  explicit Reader(Reading& reading) : reading_(reading) {}

  // `section` is the path in the table, `path` the same as the file writes it.
  void read_section(const JsonNode& object, const std::string& section, const std::string& path) {
    for (const JsonMember& member : object.members) {
      if (reading_.problems.full()) return;  // the search for near names takes time
      if (is_comment_key(member.key)) continue;
      const std::string member_path = join_path(path, member.key);
      const auto row = find_row(section, member.key);
      if (row.has_value()) {
        read_member(*row, member, member_path);
      } else {
        reading_.problems.add(member.place, member_path, unknown_key(section, member.key));
      }
    }
  }

 private:
  using State = Setting::State;

  void warn(const std::string& path, const std::string& message) {
    reading_.warnings.push_back({path, message});
  }
  void refuse(std::size_t index, const JsonMember& member, const std::string& path,
              const std::string& message) {
    reading_.problems.add(member.value.place, path, message);
    reading_.settings[index] = Setting{{}, member.place, path, State::kRefused};
  }

  void read_member(std::size_t index, const JsonMember& member, const std::string& path) {
    const SchemaRow& row = config_schema()[index];
    const JsonNode& node = member.value;
    if (member.key == row.old_name) warn(path, concat("old name; write ", row.path));
    if (node.kind == JsonNode::Kind::kNull && row.nullable) {
      keep(index, {{}, member.place, path, State::kNull}, member.place);
    } else if (row.type == ValueType::kSection) {
      read_object(index, member, path);
    } else if (row.type == ValueType::kAny) {
      read_unread(row, member, path);
    } else if (is_auto(node) && row.type != ValueType::kText) {
      if (row.stands_for.empty()) {
        keep(index, {{}, member.place, path, State::kAuto}, node.place);
      } else {
        refuse(index, member, path, "\"auto\" has no meaning here; write " + row.stands_for);
      }
    } else {
      read_value(index, member, path);
    }
  }

  void read_object(std::size_t index, const JsonMember& member, const std::string& path) {
    const SchemaRow& row = config_schema()[index];
    const JsonNode& node = member.value;
    if (node.kind == JsonNode::Kind::kBoolean && row.path == "zero_optimization") {
      const std::int64_t stage = node.boolean ? 1 : 0;
      warn(path, concat("old form; write {\"stage\": ", stage, "}"));
      reading_.settings[index] = Setting{{}, member.place, path};
      keep(row_index("zero_optimization.stage"), {stage, member.place, path}, node.place);
      return;
    }
    if (node.kind != JsonNode::Kind::kObject) {
      refuse(index, member, path, shown(node) + " is not " + valid_values(row));
      return;
    }
    // The old and the new name of a section may both be there: their keys are compared.
    std::optional<Setting>& slot = reading_.settings[index];
    if (!slot || slot->state == State::kNull) slot = Setting{{}, member.place, path};
    read_section(node, row.path, path);
  }

  void read_unread(const SchemaRow& row, const JsonMember& member, const std::string& path) {
    const JsonNode& node = member.value;
    if (row.policy != Policy::kOffOnly) {
      reading_.notes.push_back({path, row.why});
      for (const std::string& size : row.sizes) warn_of_size(node, size, path);
      return;
    }
    if (row.by_presence) {
      reading_.problems.add(
          member.place, path,
          concat("is enabled by being there, and not built here: ", row.about, " Remove it"));
      return;
    }
    const bool flag = node.kind == JsonNode::Kind::kBoolean;
    if (!flag && node.kind != JsonNode::Kind::kObject && node.kind != JsonNode::Kind::kNull) {
      reading_.problems.add(node.place, path,
                            concat(shown(node),
                                   " is no section; valid: an object in which nothing "
                                   "is enabled"));
      return;
    }
    const auto enabled = flag && node.boolean ? Found{member.place, path}  // on as a whole
                                              : enabled_member(node, path);
    if (enabled) {
      reading_.problems.add(
          enabled->place, enabled->path,
          concat("is enabled, and not built here: ", row.about, " Disable or remove it"));
    } else {
      reading_.notes.push_back({path, "nothing in it is enabled, so nothing is done"});
    }
  }

  // A member that counts ranks of another kind.
  void warn_of_size(const JsonNode& node, const std::string& name, const std::string& path) {
    for (const JsonMember& member : node.members) {
      const std::string below = join_path(path, member.key);
      const bool sized = member.value.kind == JsonNode::Kind::kNumber ||
                         (member.value.kind == JsonNode::Kind::kString && !is_auto(member.value));
      const bool one = member.value.text == "1" || member.value.text == "0";
      if (member.key == name && sized && !one) {
        warn(below, concat(shown(member.value),
                           " has no effect: world sizes here count "
                           "data-parallel ranks only"));
      }
      warn_of_size(member.value, name, below);
    }
  }

  void read_value(std::size_t index, const JsonMember& member, const std::string& path) {
    const SchemaRow& row = config_schema()[index];
    Conversion conversion = convert(row, member.value);
    if (!conversion.refusal.empty()) {
      refuse(index, member, path, conversion.refusal);
      return;
    }
    if (!conversion.warning.empty()) warn(path, conversion.warning);
    if (row.policy == Policy::kDefaultOnly && conversion.value != row.default_value) {
      refuse(index, member, path,
             concat(shown(member.value), " is not built here: ", row.about,
                    " Valid: ", valid_values(row)));
      return;
    }
    if (row.stands_for.empty()) {
      keep(index, {std::move(conversion.value), member.place, path}, member.value.place);
      return;
    }
    const std::size_t now = row_index(row.stands_for);
    const Value value = row.stands_as(conversion.value);
    warn(path,
         concat("old form; write ", row.stands_for, " ", value_text(config_schema()[now], value)));
    keep(now, {value, member.place, path}, member.value.place);
  }

  static std::string text_of(const SchemaRow& row, const Setting& setting) {
    if (setting.state == State::kAuto) return "\"auto\"";
    return value_text(row, setting.value);
  }

  // Two names of one key may stand side by side if they agree.
  void keep(std::size_t index, Setting setting, const Place& place) {
    std::optional<Setting>& slot = reading_.settings[index];
    const SchemaRow& row = config_schema()[index];
    if (!slot.has_value()) {
      slot = std::move(setting);
    } else if (row.type == ValueType::kSection) {  // null beside an object says nothing
      return;
    } else if (slot->state != State::kRefused &&
               (slot->value != setting.value || slot->state != setting.state)) {
      reading_.problems.add(place, setting.path,
                            concat(text_of(row, setting), " contradicts ", slot->path,
                                   ", another name of it, which is ", text_of(row, *slot),
                                   " on line ", slot->place.line, "; write one of them"));
    }
  }

  // What to say about a key that is not in the table: where it is, or what is spelt most alike.
  static std::string unknown_key(const std::string& section, const std::string& key) {
    std::string message = "unknown key";
    const auto first = key.find_first_not_of(" \t\r\n");
    if (first == key.npos) {
      message += key.empty() ? " (empty)" : " (only blanks)";
    } else if (first > 0) {
      message += " (has leading blanks)";
    }
    const auto last = key.find_last_not_of(" \t\r\n");
    if (last != key.npos && last + 1 < key.size()) message += " (has trailing blanks)";

    // What other programs call the clipping, wherever they have it.
    if (key == "max_grad_norm") return message + "; write gradient_clipping at the top level";
    std::vector<std::string> elsewhere;
    std::vector<std::string> here;
    for (const SchemaRow& row : config_schema()) {
      if (row_section(row) == section) {
        here.emplace_back(row_name(row));
        here.insert(here.end(), row.aliases.begin(), row.aliases.end());
      } else if (row_name(row) == key) {
        elsewhere.push_back(row.path);
      }
    }
    // A name that many sections have ("enabled") belongs nowhere in particular.
    if (elsewhere.size() == 1) return message + " here; it belongs at " + elsewhere.front();
    const std::string near = nearest(key, here);
    return near.empty() ? message : message + "; the nearest is " + join_path(section, near);
  }

  Reading& reading_;
};

}  // namespace

const Setting* Reading::find(std::string_view path) const {
  const std::optional<Setting>& setting = settings[row_index(path)];
  return setting.has_value() && setting->state == Setting::State::kGiven ? &*setting : nullptr;
}

bool Reading::batch_refused() const {
  return std::any_of(kBatchPaths.begin(), kBatchPaths.end(), [&](std::string_view path) {
    const std::optional<Setting>& setting = settings[row_index(path)];
    return setting && setting->state == Setting::State::kRefused;
  });
}

void read_settings(const JsonNode& root, Reading& reading) {
  reading.settings.assign(config_schema().size(), std::nullopt);
  if (root.kind != JsonNode::Kind::kObject) {
    reading.problems.add(root.place, "", "the configuration is not a JSON object");
    return;
  }
  Reader(reading).read_section(root, "", "");
}

}  // namespace zero::detail
