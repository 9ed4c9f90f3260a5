// Sizes in bytes, as people write and read them.
#include <array>
#include <cmath>
#include <cstdio>
#include <string>

#include "src/config_number.hpp"
#include "zero/config.hpp"
#include "zero/error.hpp"

namespace zero {

std::int64_t parse_bytes(std::string_view text) {
  const auto bytes = detail::parse_size(text);
  if (!bytes.has_value() || *bytes < 0) {
    throw ConfigError(detail::concat("\"", text,
                                     "\" is no size in bytes; valid: a whole number, or a number "
                                     "with a unit: 24GiB, 1.5 GB, 800 MB"));
  }
  return *bytes;
}

std::string format_bytes(std::int64_t bytes) {
  static constexpr std::array<const char*, 7> kUnits = {"B",   "KiB", "MiB", "GiB",
                                                        "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  // With decimals, 1023.995 would be written as 1024.00.
  while (std::abs(value) >= (unit == 0 ? 1024 : 1023.995) && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
  return text.data();
}

}  // namespace zero
