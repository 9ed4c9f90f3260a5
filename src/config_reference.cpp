// The page about every key.
#include <string>

#include "src/config_schema.hpp"
#include "zero/config.hpp"
#include "zero/error.hpp"

namespace zero {
namespace {

using detail::concat;
using detail::Effect;
using detail::Policy;
using detail::SchemaRow;
using detail::ValueType;

std::string effect_text(const SchemaRow& row) {
  switch (row.effect) {
    case Effect::kResult:
      return "result";
    case Effect::kSpeedOrMemory:
      return "speed or memory";
    case Effect::kReport:
      return row.policy == Policy::kActs ? "report" : "none";
  }
  return "";
}

// A bar would end the cell.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string code(const std::string& text) { return "`" + text + "`"; }

std::string names_besides(const SchemaRow& row) {
  std::string text;
  for (const std::string& alias : row.aliases) text += concat("<br>also ", code(alias));
  if (!row.old_name.empty()) text += concat("<br>old name ", code(row.old_name));
  return text;
}

std::string values_of(const SchemaRow& row) {
  std::string text = valid_values(row);
  if (row.nullable && text != "null") text += ", or null";
  if (!row.automatic.fact.empty()) {
    text += concat(", or \"auto\" (fact ", row.automatic.fact, ")");
  } else if (row.effect != Effect::kResult || row.path == "train_batch_size") {
    if (is_value(row)) text += ", or \"auto\"";
  }
  if (!row.not_built.empty()) {
    text += "; not built:";
    for (const std::string& word : row.not_built) text += " " + word;
  }
  return text;
}

std::string default_of(const SchemaRow& row) {
  if (!detail::is_empty(row.default_value)) return code(value_text(row, row.default_value));
  if (row.required) return "required";
  return row.default_text;
}

std::string about(const SchemaRow& row) {
  std::string text = row.about;
  if (!row.stands_for.empty()) text += concat(" Write ", code(row.stands_for), ".");
  if (row.from_stage > 0) text += concat(" From stage ", row.from_stage, " on.");
  if (!row.of_types.empty()) {
    text += " Of type";
    for (const std::string& type : row.of_types) {
      text += concat(&type == &row.of_types.front() ? " " : ", ", type);
    }
    text += ".";
  }
  if (!row.why.empty()) text += concat(" No effect: ", row.why, ".");
  if (row.policy == Policy::kDefaultOnly) text += " Not built: refused at any other value.";
  if (row.policy == Policy::kOffOnly) {
    text += row.by_presence ? " Not built: refused." : " Not built: refused while enabled.";
  }
  return text;
}

constexpr const char* kHead =
    "# Keys of the configuration\n\n"
    "A file is JSON, as DeepSpeed 0.19 has it; comments are allowed, and keys that start with `_` "
    "or `//` are comments too. A key that is not listed is refused. Sections are named by their "
    "path. The effect says what depends on a key: `result` the trained weights, `speed or memory` "
    "time or bytes but never the weights, `report` what is told, `none` nothing.\n";

constexpr const char* kTableHead =
    "\n| key | valid | default | effect | about |\n|---|---|---|---|---|\n";

void open_section(std::string& page, const SchemaRow& row) {
  page += concat("\n## ", code(row.path), "\n\n", about(row), names_besides(row), "\n", kTableHead);
}

}  // namespace

std::string config_reference() {
  std::string page = kHead;
  page += "\n## Top level\n";
  page += kTableHead;
  // Top-level values first, wherever the table has them; then each section with what is in it.
  const auto& rows = detail::config_schema();
  const auto add = [&](const SchemaRow& row) {
    page +=
        concat("| ", cell(code(row.path) + names_besides(row)), " | ", cell(values_of(row)), " | ",
               cell(default_of(row)), " | ", effect_text(row), " | ", cell(about(row)), " |\n");
  };
  for (const SchemaRow& row : rows) {
    if (row_section(row).empty() && row.type != ValueType::kSection) add(row);
  }
  for (const SchemaRow& section : rows) {
    if (section.type != ValueType::kSection) continue;
    open_section(page, section);
    for (const SchemaRow& row : rows) {
      if (row_section(row) == section.path && row.type != ValueType::kSection) add(row);
    }
  }
  return page;
}

}  // namespace zero
