// The rows of the schema, by topic. Defaults are those of DeepSpeed 0.19; "runtime" is ours.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "src/config_schema.hpp"

namespace zero::detail {

void add_training_rows(std::vector<SchemaRow>& rows);   // batch, gradients, optimizer, precision
void add_scheduler_rows(std::vector<SchemaRow>& rows);  // scheduler
void add_sharding_rows(std::vector<SchemaRow>& rows);   // zero_optimization, runtime
void add_not_built_rows(std::vector<SchemaRow>& rows);  // refused by name

// Ranges that several keys have.
inline constexpr double kFloatMax = std::numeric_limits<float>::max();
inline constexpr double kFloatMin = std::numeric_limits<float>::min();  // 1 / x is finite as well
inline constexpr double kIntMax = std::numeric_limits<int>::max();
inline constexpr Range kPositive = {.low = 1};
inline constexpr Range kNotNegative = {.low = 0};
inline constexpr Range kFiniteFloat = {.low = 0, .high = kFloatMax};  // is used as an fp32

// What setters find in a value.
inline bool boolean(const Value& value) { return std::get<bool>(value); }
inline std::int64_t integer(const Value& value) { return std::get<std::int64_t>(value); }
inline int small(const Value& value) { return static_cast<int>(integer(value)); }
inline double number(const Value& value) { return std::get<double>(value); }
inline const std::string& word(const Value& value) { return std::get<std::string>(value); }
inline const std::vector<double>& pair(const Value& value) {
  return std::get<std::vector<double>>(value);
}

}  // namespace zero::detail
