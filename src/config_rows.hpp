// The rows of the schema, by topic. Defaults are those of DeepSpeed 0.19; "runtime" is ours.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "src/config_schema.hpp"

namespace zero::detail {

void add_training_rows(std::vector<SchemaRow>& rows);   // batch, gradients, data types
void add_optimizer_rows(std::vector<SchemaRow>& rows);  // optimizer
void add_scheduler_rows(std::vector<SchemaRow>& rows);  // scheduler
void add_precision_rows(std::vector<SchemaRow>& rows);  // fp16, bf16
void add_sharding_rows(std::vector<SchemaRow>& rows);   // zero_optimization
void add_offload_rows(std::vector<SchemaRow>& rows);    // zero_optimization.offload_...
void add_runtime_rows(std::vector<SchemaRow>& rows);    // runtime
void add_elsewhere_rows(std::vector<SchemaRow>& rows);  // what is not this library's business

// Ranges that several keys have.
inline constexpr double kFloatMax = std::numeric_limits<float>::max();
inline constexpr double kFloatMin = std::numeric_limits<float>::min();  // 1 / x is finite as well
inline constexpr double kIntMax = std::numeric_limits<int>::max();
inline constexpr Range kPositive = {.low = 1};
inline constexpr Range kNotNegative = {.low = 0};
inline constexpr Range kFiniteFloat = {.low = 0, .high = kFloatMax};  // is used as an fp32

// Rows that do not act. `why` says so to the user.
inline SchemaRow no_effect(std::string path, ValueType type, Value default_value, std::string about,
                           std::string why, Range range = {}) {
  return {.path = std::move(path),
          .type = type,
          .policy = Policy::kNoEffect,
          .default_value = std::move(default_value),
          .range = range,
          .effect = Effect::kReport,
          .about = std::move(about),
          .why = std::move(why)};
}
inline SchemaRow unread(std::string path, std::string about, std::string why) {
  return {.path = std::move(path),
          .type = ValueType::kAny,
          .policy = Policy::kNoEffect,
          .effect = Effect::kReport,
          .about = std::move(about),
          .why = std::move(why)};
}
inline SchemaRow default_only(std::string path, ValueType type, Value default_value, Effect effect,
                              std::string about, Range range = {}) {
  return {.path = std::move(path),
          .type = type,
          .policy = Policy::kDefaultOnly,
          .default_value = std::move(default_value),
          .range = range,
          .effect = effect,
          .about = std::move(about)};
}
inline SchemaRow off_only(std::string path, std::string about) {
  return {.path = std::move(path),
          .type = ValueType::kAny,
          .policy = Policy::kOffOnly,
          .about = std::move(about)};
}

}  // namespace zero::detail
