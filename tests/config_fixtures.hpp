// Helpers of the configuration's tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "zero/config.hpp"
#include "zero/error.hpp"

namespace zero::config_test {

inline Config parse(std::string_view text, const Facts& facts = {}) {
  return Config::parse(text, "file.json", facts);
}

// The message with which the text is refused; empty, and a failure, if it is accepted.
inline std::string refusal(std::string_view text, const Facts& facts = {}) {
  try {
    parse(text, facts);
  } catch (const ConfigError& error) {
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << text;
  return "";
}

// One key of the configuration in force.
inline EffectiveValue effective(const Config& config, std::string_view path) {
  for (const EffectiveValue& value : config.effective()) {
    if (value.path == path) return value;
  }
  return {std::string(path), "(not there)", ""};
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

// All that the configuration has to say, one line each.
inline std::vector<std::string> remarks(const Config& config) {
  std::vector<std::string> lines;
  for (const auto* list : {&config.warnings(), &config.notes()}) {
    for (const Remark& remark : *list) lines.push_back(to_string(remark));
  }
  return lines;
}
// Whether one of the warnings or notes has this part.
inline bool warns(const Config& config, std::string_view part) {
  for (const std::string& line : remarks(config)) {
    if (contains(line, part)) return true;
  }
  return false;
}

// "a.b" and 5: {"a": {"b": 5}}.
inline std::string nested(std::string_view path, std::string_view json_value) {
  const auto dot = path.find('.');
  const std::string key = "{\"" + std::string(path.substr(0, dot)) + "\": ";
  if (dot == path.npos) return key + std::string(json_value) + "}";
  const std::string inner = nested(path.substr(dot + 1), json_value);
  // A section "optimizer" needs its type; Adam takes every parameter.
  const bool typed = path.starts_with("optimizer.") && path != "optimizer.type";
  return key + (typed ? "{\"type\": \"Adam\", " + inner.substr(1) : inner) + "}";
}

#define EXPECT_CONTAINS(text, part) EXPECT_PRED2(::zero::config_test::contains, text, part)
#define EXPECT_WARNS(config, part)                      \
  EXPECT_TRUE(::zero::config_test::warns(config, part)) \
      << ::testing::PrintToString(::zero::config_test::remarks(config))
#define EXPECT_NO_WARNING(config, part)                  \
  EXPECT_FALSE(::zero::config_test::warns(config, part)) \
      << ::testing::PrintToString(::zero::config_test::remarks(config))

}  // namespace zero::config_test
