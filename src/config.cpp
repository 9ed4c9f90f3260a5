#include "zero/config.hpp"

#include <array>
#include <fstream>
#include <utility>

#include "src/config_edit.hpp"
#include "src/config_json.hpp"
#include "src/config_reader.hpp"
#include "src/config_schema.hpp"
#include "src/config_text.hpp"
#include "zero/error.hpp"

namespace zero {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{16} << 20;  // no configuration is that long

detail::JsonNode empty_object(std::string_view origin) {
  detail::JsonNode node;
  node.kind = detail::JsonNode::Kind::kObject;
  node.place.source = std::make_shared<const std::string>(origin);
  return node;
}

}  // namespace

Config::Config() : Config(std::make_shared<const detail::JsonNode>(empty_object("config"))) {}

Config::Config(std::shared_ptr<const detail::JsonNode> tree)
    : tree_(std::move(tree)),
      json_(std::make_shared<const std::string>(detail::write_json(*tree_))) {
  detail::Reading reading;
  detail::read_settings(*tree_, reading);
  const auto& rows = detail::config_schema();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].set == nullptr) continue;
    const auto& setting = reading.settings[i];
    const bool given = setting.has_value() && setting->value.index() != 0;
    const detail::Value& value = given ? setting->value : rows[i].default_value;
    if (value.index() != 0) rows[i].set(*this, value);
  }
  detail::check_rules(reading, *this);
  reading.problems.throw_if_any();
  warnings_ = std::move(reading.warnings);
}

const std::string& Config::origin() const { return *tree_->place.source; }

Config Config::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::array<char, 65536> block;
  while (file && text.size() <= kMaxFileBytes) {
    file.read(block.data(), block.size());
    text.append(block.data(), static_cast<std::size_t>(file.gcount()));
  }
  // A file read to its end is at eof; a folder opens and then cannot be read.
  if (file.bad() || (file.fail() && !file.eof())) {
    throw ConfigError(path + ": the configuration file cannot be read");
  }
  if (text.size() > kMaxFileBytes) {
    throw ConfigError(
        detail::concat(path, ": longer than ", kMaxFileBytes, " bytes: no configuration file"));
  }
  return parse(text, path);
}

Config Config::parse(std::string_view text, std::string_view origin) {
  detail::Problems duplicates;
  detail::JsonNode tree = detail::parse_json(text, origin, duplicates);
  duplicates.throw_if_any();
  return Config(std::make_shared<const detail::JsonNode>(std::move(tree)));
}

void Config::set(std::string_view path, std::string_view json_value) {
  const std::string origin = "set(" + detail::shortened(path, 80) + ")";
  detail::Place place{std::make_shared<const std::string>(origin), 1, 1};
  detail::JsonNode value;
  if (detail::is_json(json_value)) {
    detail::Problems duplicates;
    value = detail::parse_json(json_value, origin, duplicates);
    duplicates.throw_if_any();
  } else {
    value.kind = detail::JsonNode::Kind::kString;
    value.text = json_value;
    value.place = place;
  }
  detail::JsonNode tree = *tree_;
  detail::set_value(tree, path, std::move(value), place);
  *this = Config(std::make_shared<const detail::JsonNode>(std::move(tree)));
}

void Config::merge(std::string_view json_object) {
  detail::Problems duplicates;
  detail::JsonNode patch = detail::parse_json(json_object, "merged JSON", duplicates);
  duplicates.throw_if_any();
  if (patch.kind != detail::JsonNode::Kind::kObject) {
    throw ConfigError(to_string(patch.place) + ": what is merged is not a JSON object");
  }
  detail::JsonNode tree = *tree_;
  detail::merge_objects(tree, std::move(patch));
  *this = Config(std::make_shared<const detail::JsonNode>(std::move(tree)));
}

}  // namespace zero
