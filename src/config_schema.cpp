#include "src/config_schema.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>

#include "src/config_rows.hpp"
#include "src/config_text.hpp"
#include "zero/error.hpp"

namespace zero::detail {
namespace {

// Bounds that are fp32 numbers are printed with the digits of one.
std::string bound_text(double x) {
  const float as_float = static_cast<float>(x);
  if (static_cast<double>(as_float) != x) return number_text(x);
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), as_float).ptr;
  return {buffer.data(), end};
}

std::string range_text(const Range& range) {
  std::string text;
  if (range.low != -std::numeric_limits<double>::infinity()) {
    text += (range.or_zero ? ", 0 or " : ", ") +
            (range.above_low ? std::string("above ") : std::string("at least ")) +
            bound_text(range.low);
  }
  if (range.high != std::numeric_limits<double>::infinity()) {
    text += (range.below_high ? ", below " : ", at most ") + bound_text(range.high);
  }
  return text;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

const std::vector<SchemaRow>& config_schema() {
  static const std::vector<SchemaRow> kRows = [] {
    std::vector<SchemaRow> rows;
    add_training_rows(rows);
    add_optimizer_rows(rows);
    add_scheduler_rows(rows);
    add_precision_rows(rows);
    add_sharding_rows(rows);
    add_offload_rows(rows);
    add_runtime_rows(rows);
    add_elsewhere_rows(rows);
    return rows;
  }();
  return kRows;
}

std::string_view row_section(const SchemaRow& row) {
  const std::string_view path = row.path;
  const auto dot = path.rfind('.');
  return dot == path.npos ? std::string_view() : path.substr(0, dot);
}

std::string_view row_name(const SchemaRow& row) {
  return std::string_view(row.path).substr(row.path.rfind('.') + 1);
}

bool is_name_of(const SchemaRow& row, std::string_view key) {
  return row_name(row) == key || (!key.empty() && row.old_name == key) ||
         std::find(row.aliases.begin(), row.aliases.end(), key) != row.aliases.end();
}

std::optional<std::size_t> find_row(std::string_view section, std::string_view key) {
  const auto& rows = config_schema();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (row_section(rows[i]) == section && is_name_of(rows[i], key)) return i;
  }
  return std::nullopt;
}

std::size_t row_index(std::string_view path) {
  const auto& rows = config_schema();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].path == path) return i;
  }
  throw std::logic_error("no such row in the configuration schema: " + std::string(path));
}

bool is_value(const SchemaRow& row) {
  return row.type != ValueType::kSection && row.type != ValueType::kAny && row.stands_for.empty();
}

bool is_of_type(const SchemaRow& row, const Config& config) {
  const bool schedule = row.path.starts_with("scheduler.params.");
  if (schedule && !config.scheduler) return false;
  if (row.of_types.empty()) return true;
  static const SchemaRow& optimizer_type = config_schema()[row_index("optimizer.type")];
  const std::string type =
      schedule ? config.scheduler->type : std::get<std::string>(optimizer_type.field.get(config));
  return std::find(row.of_types.begin(), row.of_types.end(), type) != row.of_types.end();
}

bool plays_a_part(const SchemaRow& row, const Config& config) {
  if (row.policy != Policy::kActs || !is_of_type(row, config)) return false;
  if (row.from_stage > config.zero.stage && !config.runtime.choose_stage) return false;
  const bool scales = row_section(row) == "fp16" && row_name(row) != "enabled";
  return !scales || config.fp16_enabled.value_or(true);
}

std::string valid_values(const SchemaRow& row) {
  if (row.policy == Policy::kDefaultOnly) {
    return is_empty(row.default_value) ? "null" : value_text(row, row.default_value);
  }
  switch (row.type) {
    case ValueType::kSection:
      return row.path == "zero_optimization" ? "an object, or the old true (stage 1) and false (0)"
                                             : "an object";
    case ValueType::kBoolean:
      return "true or false";
    case ValueType::kSwitch:
      return "true, false or \"auto\"";
    case ValueType::kInteger:
      return "a whole number" + range_text(row.range);
    case ValueType::kNumber:
      return "a number" + range_text(row.range);
    case ValueType::kBytes:
      return "bytes" + range_text(row.range) + ": a whole number, or a text such as \"24GiB\", " +
             "\"1.5 GB\"";
    case ValueType::kWord:
      return "one of " + joined(row.words);
    case ValueType::kText:
      return "a text";
    case ValueType::kPair:
      return "a list of two numbers, each" + range_text(row.range).substr(1);
    case ValueType::kNumbers:
      return "a number" + range_text(row.range) + ", or a list with one for each param group";
    case ValueType::kAny:
      break;
  }
  return row.policy == Policy::kOffOnly ? "nothing that is enabled" : "anything";
}

std::string number_text(double x) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), x).ptr;
  return {buffer.data(), end};
}

std::string value_text(const SchemaRow& row, const Value& value) {
  struct Printer {
    bool list_of_one;
    std::string operator()(std::monostate) const { return "null"; }
    std::string operator()(bool x) const { return x ? "true" : "false"; }
    std::string operator()(std::int64_t x) const { return std::to_string(x); }
    std::string operator()(double x) const { return number_text(x); }
    std::string operator()(const std::string& x) const { return quoted(x); }
    std::string operator()(const std::vector<double>& x) const {
      if (x.size() == 1 && !list_of_one) return number_text(x[0]);
      std::string text;
      for (const double element : x) text += (text.empty() ? "" : ", ") + number_text(element);
      return "[" + text + "]";
    }
  };
  return std::visit(Printer{row.type != ValueType::kNumbers}, value);
}

}  // namespace zero::detail
