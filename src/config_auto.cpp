// What is "auto", and the facts that settle it (semantics, section 5).
#include "src/config_auto.hpp"

#include <algorithm>

#include "src/config_convert.hpp"
#include "zero/error.hpp"

namespace zero::detail {
namespace {

constexpr std::int64_t kMostHidden = 3'000'000'000;  // its square still has 63 bits
constexpr std::int64_t kAnySteps = 1'000'000;
constexpr double kAnyRate = 1e-3;

Value fact_of(const SchemaRow& row, const Facts& facts) {
  return row.automatic.from_facts == nullptr ? Value() : row.automatic.from_facts(facts);
}

bool is_batch(const SchemaRow& row) {
  return std::find(kBatchPaths.begin(), kBatchPaths.end(), row.path) != kBatchPaths.end();
}

void take_fact(const SchemaRow& row, Value value, Setting& setting, Reading& reading) {
  const std::string refusal = range_refusal(row, value);
  if (refusal.empty()) {
    setting.value = std::move(value);
    setting.origin = concat("fact ", row.automatic.fact);
    setting.state = Setting::State::kGiven;
  } else {
    reading.problems.add(setting.place, setting.path,
                         concat("the fact ", row.automatic.fact, ": ", refusal));
    setting.state = Setting::State::kRefused;
  }
}

// Whether the file itself turns on the other 16-bit type.
bool other_is_on(const SchemaRow& row, const Reading& reading) {
  const Setting* other = reading.find(row.path == "fp16.enabled" ? "bf16.enabled" : "fp16.enabled");
  return other != nullptr && other->origin.empty() && other->value == Value(true);
}

std::string without_fact(const SchemaRow& row) {
  const std::string_view fact = row.automatic.fact;
  return fact.empty() ? std::string("\"auto\"") : concat("\"auto\" without the fact ", fact);
}

}  // namespace

Facts usable_facts(Facts facts, Problems& problems) {
  if (facts.hidden_size && (*facts.hidden_size < 1 || *facts.hidden_size > kMostHidden)) {
    problems.add(concat("facts: hidden_size: ", *facts.hidden_size,
                        " is out of range; valid: 1 to ", kMostHidden));
    facts.hidden_size.reset();
  }
  if (facts.world_size && *facts.world_size < 1) {
    problems.add(concat("facts: world_size: ", *facts.world_size, "; valid: 1 or more"));
    facts.world_size.reset();
  }
  return facts;
}

void settle_auto(std::size_t index, const Facts& facts, const Config& config, Reading& reading) {
  const SchemaRow& row = config_schema()[index];
  std::optional<Setting>& setting = reading.settings[index];
  if (is_batch(row)) return;
  if (!setting && row_section(row) == "optimizer.params" &&
      !reading.settings[row_index("optimizer")]) {
    if (Value known = fact_of(row, facts); !is_empty(known)) {
      Setting from_fact{{}, {std::make_shared<const std::string>("facts"), 0, 0}, row.path};
      take_fact(row, std::move(known), from_fact, reading);
      setting = std::move(from_fact);
    }
    return;
  }
  if (!setting || setting->state != Setting::State::kAuto) return;
  if (!is_of_type(row, config)) {  // plays no part, or is refused for that
    setting->state = row.of_types.empty() ? Setting::State::kNull : Setting::State::kGiven;
    return;
  }
  if (row.type == ValueType::kSwitch && other_is_on(row, reading)) {
    setting->value = false;
    setting->origin = "the other precision is on";
    setting->state = Setting::State::kGiven;
  } else if (Value known = fact_of(row, facts); !is_empty(known)) {
    take_fact(row, std::move(known), *setting, reading);
  } else if (row.automatic.otherwise != nullptr) {
    setting->value = row.automatic.otherwise(config);
    setting->origin = without_fact(row);
    setting->state = Setting::State::kGiven;
    const std::string text = value_text(row, setting->value);
    reading.notes.push_back(
        {setting->path, row.type == ValueType::kSwitch
                            ? concat(without_fact(row), ": follows the registered parameters")
                            : concat(without_fact(row), ": taken as ", text)});
  } else if (row.effect != Effect::kResult || facts.defaults_for_auto ||
             !plays_a_part(row, config)) {
    setting->origin = "default, for \"auto\"";
    setting->state = Setting::State::kNull;
    if (row.default_text == kRequired) {  // any will do
      setting->value =
          row.type == ValueType::kInteger ? Value(kAnySteps) : Value(std::vector<double>{kAnyRate});
      setting->state = Setting::State::kGiven;
    }
    const Value& taken = is_empty(setting->value) ? row.default_value : setting->value;
    const std::string text = is_empty(taken) ? row.default_text : value_text(row, taken);
    reading.notes.push_back(
        {setting->path, concat(without_fact(row), ": the default is taken, ", text)});
  } else {
    const std::string_view fact = row.automatic.fact;
    reading.problems.add(
        setting->place, setting->path,
        fact.empty()
            ? concat("\"auto\" cannot be settled; write a value. Valid: ", valid_values(row))
            : concat("\"auto\" is not settled, and it changes the result: give the fact ", fact,
                     ", or write a value. Valid: ", valid_values(row)));
    setting->state = Setting::State::kRefused;
  }
}

void warn_of_overruled(const Facts& facts, const Config& config, Reading& reading) {
  const auto& rows = config_schema();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SchemaRow& row = rows[i];
    if (row.automatic.only_auto || is_batch(row) || !is_of_type(row, config)) continue;
    const Value known = fact_of(row, facts);
    if (is_empty(known)) continue;
    const std::optional<Setting>& setting = reading.settings[i];
    if (setting && (setting->state == Setting::State::kRefused || !setting->origin.empty())) {
      continue;
    }
    const Value in_force = row.field.get(config);
    if (in_force == known) continue;
    const std::string fact = concat("the fact ", row.automatic.fact, " ", value_text(row, known));
    if (setting && !is_empty(setting->value)) {
      reading.warnings.push_back({setting->path, concat("the file says ", value_text(row, in_force),
                                                        "; ", fact, " is not used")});
    } else {
      reading.warnings.push_back(
          {row.path, concat("the file does not give it, so it is ",
                            is_empty(in_force) ? row.default_text : value_text(row, in_force), "; ",
                            fact, " is not used: write \"auto\" to take it")});
    }
  }
  for (const auto& [path, dtype] :
       {std::pair{"fp16.enabled", DType::kFloat16}, std::pair{"bf16.enabled", DType::kBFloat16}}) {
    const Setting* setting = reading.find(path);
    if (!facts.dtype || setting == nullptr || !setting->origin.empty()) continue;
    if (setting->value == Value(true) && *facts.dtype != dtype) {
      reading.warnings.push_back({setting->path, concat("the file says true; the fact dtype ",
                                                        dtype_name(*facts.dtype), " is not used")});
    }
  }
}

}  // namespace zero::detail
