#include "src/config_number.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "src/config_text.hpp"

namespace zero::detail {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Length of the run of digits at the start.
std::size_t digits(std::string_view text) {
  std::size_t n = 0;
  while (n < text.size() && is_digit(text[n])) ++n;
  return n;
}

}  // namespace

bool is_json_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const std::size_t whole = digits(text);
  if (whole == 0 || (whole > 1 && text[0] == '0')) return false;
  text.remove_prefix(whole);
  if (text.starts_with('.')) {
    const std::size_t fraction = digits(text.substr(1));
    if (fraction == 0) return false;
    text.remove_prefix(1 + fraction);
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    const std::size_t exponent = digits(text);
    if (exponent == 0) return false;
    text.remove_prefix(exponent);
  }
  return text.empty();
}

WholeNumber parse_whole(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);

  // The number is `mantissa` x 10^exponent, the mantissa without zeros at either end.
  const std::size_t e = text.find_first_of("eE");
  std::string_view exponent_text = e == text.npos ? "0" : text.substr(e + 1);
  text = text.substr(0, e);
  const std::size_t point = text.find('.');
  std::string mantissa(text.substr(0, point));
  std::int64_t exponent = 0;
  if (point != text.npos) {
    mantissa += text.substr(point + 1);
    exponent -= static_cast<std::int64_t>(text.size() - point - 1);
  }
  mantissa.erase(0, mantissa.find_first_not_of('0'));
  if (mantissa.empty()) return {};  // zero, whatever the exponent
  while (mantissa.back() == '0') {
    mantissa.pop_back();
    ++exponent;
  }
  if (exponent_text.starts_with('+')) exponent_text.remove_prefix(1);
  std::int64_t written = 0;
  const auto parsed =
      std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), written);
  constexpr std::int64_t kBeyond = 1'000'000'000;  // more digits than any text here has
  if (parsed.ec != std::errc() || written > kBeyond || written < -kBeyond) {
    written = exponent_text.starts_with('-') ? -kBeyond : kBeyond;
  }
  exponent += written;

  if (exponent < 0) return {Whole::kFractional, 0};
  constexpr std::int64_t kMaxDigits = std::numeric_limits<std::int64_t>::digits10 + 1;
  if (exponent + static_cast<std::int64_t>(mantissa.size()) > kMaxDigits) {
    return {Whole::kTooLarge, 0};
  }
  mantissa.append(static_cast<std::size_t>(exponent), '0');
  if (negative) mantissa.insert(0, 1, '-');
  std::int64_t value = 0;
  const auto result = std::from_chars(mantissa.data(), mantissa.data() + mantissa.size(), value);
  if (result.ec != std::errc()) return {Whole::kTooLarge, 0};
  return {Whole::kYes, value};
}

std::optional<double> parse_double(std::string_view text) {
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec == std::errc::result_out_of_range) {
    // Too small is zero, as everywhere; too large has no value.
    const std::size_t e = text.find_first_of("eE");
    const bool tiny = e != text.npos && text.substr(e + 1).starts_with('-');
    return tiny ? std::optional<double>(0.0) : std::nullopt;
  }
  if (result.ec != std::errc()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> parse_size(std::string_view text) {
  struct Unit {
    std::string_view name;
    double bytes;
  };
  static constexpr double kKi = 1024;
  static constexpr std::array<Unit, 12> kUnits = {{{"", 1},
                                                   {"b", 1},
                                                   {"kb", 1e3},
                                                   {"mb", 1e6},
                                                   {"gb", 1e9},
                                                   {"tb", 1e12},
                                                   {"pb", 1e15},
                                                   {"kib", kKi},
                                                   {"mib", kKi * kKi},
                                                   {"gib", kKi * kKi * kKi},
                                                   {"tib", kKi * kKi * kKi * kKi},
                                                   {"pib", kKi * kKi * kKi * kKi * kKi}}};
  const std::size_t end = text.find_first_not_of("0123456789.eE+-");
  std::string_view number = text.substr(0, end);
  std::string_view unit = end == text.npos ? std::string_view() : text.substr(end);
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  if (!is_json_number(number)) return std::nullopt;
  const std::string wanted = lowercase(unit);
  for (const Unit& known : kUnits) {
    if (known.name != wanted) continue;
    if (known.bytes == 1) {
      const WholeNumber whole = parse_whole(number);
      if (whole.verdict != Whole::kYes) return std::nullopt;
      return whole.value;
    }
    const auto value = parse_double(number);
    const double bytes = value.has_value() ? std::floor(*value * known.bytes) : -1;
    if (!(bytes >= 0 && bytes < 0x1p63)) return std::nullopt;
    return static_cast<std::int64_t>(bytes);
  }
  return std::nullopt;
}

}  // namespace zero::detail
