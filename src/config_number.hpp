// Numbers from their spelling in a file: whole numbers exactly, in any spelling JSON has.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace zero::detail {

enum class Whole { kYes, kFractional, kTooLarge };

struct WholeNumber {
  Whole verdict = Whole::kYes;
  std::int64_t value = 0;
};

// Whether the text is a number as JSON writes it, nothing before or after.
bool is_json_number(std::string_view text);

// 5e8, 500000000, 500000000.0 and 5000000000e-1 are the same number, without a detour over double.
// REQUIRES: is_json_number(text).
WholeNumber parse_whole(std::string_view text);

// Nearest double; empty if beyond the largest. REQUIRES: is_json_number(text).
std::optional<double> parse_double(std::string_view text);

// A size in bytes with an optional unit, rounded down; empty if it is none or beyond 2^63 - 1.
std::optional<std::int64_t> parse_size(std::string_view text);

}  // namespace zero::detail
