#include "src/config_reader.hpp"

#include <algorithm>
#include <span>

#include "src/config_number.hpp"
#include "src/config_text.hpp"
#include "zero/error.hpp"

namespace zero::detail {
namespace {

constexpr std::size_t kValueLimit = 60;  // longer values are cut in messages

std::string shown(const JsonNode& node) {
  if (node.kind == JsonNode::Kind::kObject) return "an object";
  if (node.kind == JsonNode::Kind::kArray && node.items.size() > 4) return "a list";
  std::string text = write_json(node);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return shortened(text, kValueLimit);
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
  void problem(const JsonNode& node, const std::string& path, const std::string& message) {
    reading_.problems.add(node.place, path, message);
  }
  void warn(const std::string& path, const std::string& message) {
    reading_.warnings.push_back(path + ": " + message);
  }

  void read_member(std::size_t index, const JsonMember& member, const std::string& path) {
    const SchemaRow& row = config_schema()[index];
    const JsonNode& node = member.value;
    if (row.type == ValueType::kNotBuilt) {
      reading_.problems.add(member.place, path,
                            "DeepSpeed has this key, but it is not built yet here; remove it");
      return;
    }
    if (member.key == row.old_name) warn(path, concat("old name; write ", row.path));
    if (node.kind == JsonNode::Kind::kNull && row.nullable) {
      keep(index, {{}, member.place, path, Setting::State::kNull}, member.place);
      return;
    }
    if (row.type == ValueType::kSection) {
      if (node.kind != JsonNode::Kind::kObject) {
        problem(node, path, shown(node) + " is not " + valid_values(row));
        reading_.settings[index] = Setting{{}, member.place, path, Setting::State::kRefused};
        return;
      }
      // The old and the new name of a section may both be there: their keys are compared.
      if (!reading_.settings[index].has_value()) {
        reading_.settings[index] = Setting{{}, member.place, path, Setting::State::kGiven};
      }
      read_section(node, row.path, path);
      return;
    }
    Value value = convert(row, node, path);
    if (std::holds_alternative<std::monostate>(value)) {  // told already
      reading_.settings[index] = Setting{{}, member.place, path, Setting::State::kRefused};
    } else {
      keep(index, {std::move(value), member.place, path, Setting::State::kGiven}, node.place);
    }
  }

  static std::string text_of(const Setting& setting) {
    return setting.state == Setting::State::kNull ? "null" : value_text(setting.value);
  }

  // Two names of one key may stand side by side if they agree.
  void keep(std::size_t index, Setting setting, const Place& place) {
    std::optional<Setting>& slot = reading_.settings[index];
    if (!slot.has_value()) {
      slot = std::move(setting);
    } else if (slot->state != Setting::State::kRefused && slot->value != setting.value) {
      reading_.problems.add(
          place, setting.path,
          concat(text_of(setting), " contradicts ", slot->path, ", another name of it, which is ",
                 text_of(*slot), " on line ", slot->place.line, "; write one of them"));
    }
  }

  Value refuse(const SchemaRow& row, const JsonNode& node, const std::string& path,
               const std::string& why) {
    problem(node, path, concat(shown(node), " ", why, "; valid: ", valid_values(row)));
    return {};
  }

  // Empty if the value cannot be taken; then the problem has been added.
  Value convert(const SchemaRow& row, const JsonNode& node, const std::string& path) {
    if (node.kind == JsonNode::Kind::kString && node.text == "auto") {
      return refuse(row, node, path, "is not built yet here");
    }
    switch (row.type) {
      case ValueType::kBoolean:
        if (node.kind == JsonNode::Kind::kBoolean) return node.boolean;
        return refuse(row, node, path, "is not a boolean");
      case ValueType::kInteger:
        return convert_integer(row, node, path);
      case ValueType::kNumber: {
        const Value value = convert_number(node);
        const double* number = std::get_if<double>(&value);
        if (number == nullptr) return refuse(row, node, path, "is not a number");
        if (!row.range.contains(*number)) return refuse(row, node, path, "is out of range");
        return value;
      }
      case ValueType::kBytes: {
        const bool is_size =
            node.kind == JsonNode::Kind::kString || node.kind == JsonNode::Kind::kNumber;
        const auto bytes = is_size ? parse_size(node.text) : std::nullopt;
        if (!bytes.has_value()) return refuse(row, node, path, "is no size in bytes");
        if (!row.range.contains(static_cast<double>(*bytes))) {
          return refuse(row, node, path, "is out of range");
        }
        return *bytes;
      }
      case ValueType::kWord:
        return convert_word(row, node, path);
      case ValueType::kPair:
        return convert_pair(row, node, path);
      case ValueType::kNumbers:
        return convert_numbers(row, node, path);
      case ValueType::kSection:
      case ValueType::kNotBuilt:
        break;
    }
    return {};
  }

  static Value convert_number(const JsonNode& node) {
    if (node.kind != JsonNode::Kind::kNumber || !is_json_number(node.text)) return {};
    const auto number = parse_double(node.text);
    return number.has_value() ? Value(*number) : Value();
  }

  Value convert_integer(const SchemaRow& row, const JsonNode& node, const std::string& path) {
    const bool is_text = node.kind == JsonNode::Kind::kString;
    if ((node.kind != JsonNode::Kind::kNumber && !is_text) || !is_json_number(node.text)) {
      return refuse(row, node, path, "is not a whole number");
    }
    const WholeNumber whole = parse_whole(node.text);
    if (whole.verdict == Whole::kFractional) return refuse(row, node, path, "is not whole");
    if (whole.verdict == Whole::kTooLarge) {
      return refuse(row, node, path, "is too large: beyond 9223372036854775807");
    }
    if (!row.range.contains(static_cast<double>(whole.value))) {
      return refuse(row, node, path, "is out of range");
    }
    if (is_text) warn(path, concat("the text ", shown(node), " is read as ", whole.value));
    return whole.value;
  }

  Value convert_word(const SchemaRow& row, const JsonNode& node, const std::string& path) {
    if (node.kind != JsonNode::Kind::kString) return refuse(row, node, path, "is not a word");
    const std::string wanted = lowercase(node.text);
    for (const std::string& word : row.words) {
      if (lowercase(word) == wanted) return word;
    }
    for (const std::string& word : row.not_built) {
      if (lowercase(word) == wanted) return refuse(row, node, path, "is not built yet here");
    }
    return refuse(row, node, path, "is not known");
  }

  Value convert_numbers(const SchemaRow& row, const JsonNode& node, const std::string& path) {
    const bool is_list = node.kind == JsonNode::Kind::kArray;
    if (is_list && node.items.empty()) return refuse(row, node, path, "is empty");
    const std::span<const JsonNode> items = is_list ? std::span(node.items) : std::span(&node, 1);
    return convert_items(row, node, path, items, "is no number, and no list of numbers");
  }

  Value convert_pair(const SchemaRow& row, const JsonNode& node, const std::string& path) {
    constexpr const char* kNoPair = "is not a list of two numbers";
    if (node.kind != JsonNode::Kind::kArray || node.items.size() != 2) {
      return refuse(row, node, path, kNoPair);
    }
    return convert_items(row, node, path, node.items, kNoPair);
  }

  Value convert_items(const SchemaRow& row, const JsonNode& node, const std::string& path,
                      std::span<const JsonNode> items, const char* otherwise) {
    std::vector<double> numbers;
    for (const JsonNode& item : items) {
      const Value value = convert_number(item);
      const double* number = std::get_if<double>(&value);
      if (number == nullptr) return refuse(row, node, path, otherwise);
      if (!row.range.contains(*number)) return refuse(row, node, path, "is out of range");
      numbers.push_back(*number);
    }
    return numbers;
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

    std::string elsewhere;
    std::vector<std::string> here;
    for (const SchemaRow& row : config_schema()) {
      if (row.type == ValueType::kNotBuilt) continue;
      if (row_section(row) == section) {
        here.emplace_back(row_name(row));
        here.insert(here.end(), row.aliases.begin(), row.aliases.end());
      } else if (row_name(row) == key && elsewhere.empty()) {
        elsewhere = row.path;
      }
    }
    if (!elsewhere.empty()) return message + " here; it belongs at " + elsewhere;
    return message + "; the nearest is " + join_path(section, nearest(key, here));
  }

  Reading& reading_;
};

}  // namespace

const Setting* Reading::find(std::string_view path) const {
  const std::optional<Setting>& setting = settings[row_index(path)];
  return setting.has_value() && setting->state == Setting::State::kGiven ? &*setting : nullptr;
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
