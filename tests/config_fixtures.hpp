// Helpers of the configuration's tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "zero/config.hpp"
#include "zero/error.hpp"

namespace zero::config_test {

// A key set on its own, so that every other one has its default.
inline Config parse(std::string_view text) { return Config::parse(text, "file.json"); }

// The message with which the text is refused; empty, and a failure, if it is accepted.
inline std::string refusal(std::string_view text) {
  try {
    parse(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << text;
  return "";
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

// Whether one of the warnings has this part.
inline bool warns(const Config& config, std::string_view part) {
  for (const std::string& warning : config.warnings()) {
    if (contains(warning, part)) return true;
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
  const bool typed = path.starts_with("optimizer.params");
  return key + (typed ? "{\"type\": \"Adam\", " + inner.substr(1) : inner) + "}";
}

#define EXPECT_CONTAINS(text, part) EXPECT_PRED2(::zero::config_test::contains, text, part)
#define EXPECT_WARNS(config, part)                      \
  EXPECT_TRUE(::zero::config_test::warns(config, part)) \
      << ::testing::PrintToString(config.warnings())
#define EXPECT_NO_WARNING(config, part)                  \
  EXPECT_FALSE(::zero::config_test::warns(config, part)) \
      << ::testing::PrintToString(config.warnings())

}  // namespace zero::config_test
