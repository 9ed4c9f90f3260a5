#include "zero/config.hpp"

#include <array>
#include <fstream>
#include <utility>

#include "src/config_auto.hpp"
#include "src/config_edit.hpp"
#include "src/config_json.hpp"
#include "src/config_provenance.hpp"
#include "src/config_reader.hpp"
#include "src/config_rules.hpp"
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

detail::Provenance::Origin origin_of(const detail::SchemaRow& row,
                                     const std::optional<detail::Setting>& setting,
                                     const Config& config) {
  using State = detail::Setting::State;
  detail::Provenance::Origin origin;
  if (row.field.get != nullptr) {
    origin.value = row.field.get(config);
  } else {
    origin.value =
        setting && !detail::is_empty(setting->value) ? setting->value : row.default_value;
  }
  if (!setting || setting->state == State::kRefused) {
    origin.text = "default";
  } else if (!setting->origin.empty()) {
    origin.text = setting->origin;
  } else {
    origin.text = setting->state == State::kNull ? "default" : to_string(setting->place);
  }
  origin.was_auto = setting && setting->state == State::kAuto;
  return origin;
}

}  // namespace

Config::Config() : Config(read(empty_object("config"), {}, {})) {}

// Collects problems in `reading` and leaves it to the caller to throw them.
Config::Config(std::shared_ptr<const detail::JsonNode> tree, const Facts& facts,
               detail::Reading& reading)
    : tree_(std::move(tree)),
      json_(std::make_shared<const std::string>(detail::write_json(*tree_))),
      provenance_(std::make_shared<const detail::Provenance>()),
      facts_(std::make_shared<const Facts>(facts)) {
  const Facts usable = detail::usable_facts(facts, reading.problems);
  detail::read_settings(*tree_, reading);
  const auto& rows = detail::config_schema();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    detail::settle_auto(i, usable, *this, reading);
    if (rows[i].field.set == nullptr) continue;
    const auto& setting = reading.settings[i];
    const bool given = setting.has_value() && !detail::is_empty(setting->value);
    const detail::Value& value = given ? setting->value : rows[i].default_value;
    if (!detail::is_empty(value)) rows[i].field.set(*this, value);
  }
  detail::check_rules(usable, reading, *this);
  detail::warn_of_overruled(usable, *this, reading);
  auto provenance = std::make_shared<detail::Provenance>();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    provenance->rows.push_back(origin_of(rows[i], reading.settings[i], *this));
  }
  provenance_ = detail::Shared<detail::Provenance>(std::move(provenance));
  warnings_ = std::move(reading.warnings);
  notes_ = std::move(reading.notes);
}

Config Config::read(detail::JsonNode tree, const Facts& facts, detail::Reading reading) {
  Config config(std::make_shared<const detail::JsonNode>(std::move(tree)), facts, reading);
  if (facts.world_size.value_or(0) > 0 && !reading.batch_refused()) {
    try {
      config.resolve_batch(*facts.world_size);
    } catch (const ConfigError& error) {
      reading.problems.add(error.what());
    }
  }
  reading.problems.throw_if_any();
  return config;
}

const std::string& Config::origin() const { return *tree_->place.source; }

Config Config::load(const std::string& path, const Facts& facts) {
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
  return parse(text, path, facts);
}

Config Config::parse(std::string_view text, std::string_view origin, const Facts& facts) {
  detail::Reading reading;
  detail::JsonNode tree = detail::parse_json(text, origin, reading.problems);
  return read(std::move(tree), facts, std::move(reading));
}

void Config::set(std::string_view path, std::string_view json_value) {
  const std::string origin = "set(" + detail::shortened(path, 80) + ")";
  const detail::Place place{std::make_shared<const std::string>(origin), 0, 0};
  detail::JsonNode tree = *tree_;
  detail::set_value(tree, path, detail::parse_word_or_json(json_value, origin), place);
  *this = read(std::move(tree), *facts_, {});
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
  *this = read(std::move(tree), *facts_, {});
}

std::string to_string(const Remark& remark) { return remark.path + ": " + remark.message; }

}  // namespace zero
