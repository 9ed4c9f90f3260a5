#include "src/config_number.hpp"

#include <charconv>
#include <iterator>
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

// `digits` x 10^exponent, without zeros at either end; no digits for zero. The sign is dropped.
struct Decimal {
  std::string digits;
  std::int64_t exponent = 0;
};

// REQUIRES: is_json_number(text).
Decimal decimal(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const std::size_t e = text.find_first_of("eE");
  std::string_view exponent_text = e == text.npos ? "0" : text.substr(e + 1);
  text = text.substr(0, e);
  const std::size_t point = text.find('.');
  Decimal number;
  number.digits = text.substr(0, point);
  if (point != text.npos) {
    number.digits += text.substr(point + 1);
    number.exponent -= static_cast<std::int64_t>(text.size() - point - 1);
  }
  number.digits.erase(0, number.digits.find_first_not_of('0'));
  if (number.digits.empty()) return {};
  const std::size_t kept = number.digits.find_last_not_of('0') + 1;
  number.exponent += static_cast<std::int64_t>(number.digits.size() - kept);
  number.digits.resize(kept);
  if (exponent_text.starts_with('+')) exponent_text.remove_prefix(1);
  std::int64_t written = 0;
  const auto parsed =
      std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), written);
  constexpr std::int64_t kBeyond = 1'000'000'000;  // more digits than any text here has
  if (parsed.ec != std::errc() || written > kBeyond || written < -kBeyond) {
    written = exponent_text.starts_with('-') ? -kBeyond : kBeyond;
  }
  number.exponent += written;
  return number;
}

// A decimal times a small factor, digit by digit: exact, where doubles would round.
void multiply(std::string& digits, int factor) {
  int carry = 0;
  for (std::size_t i = digits.size(); i-- > 0;) {
    carry += (digits[i] - '0') * factor;
    digits[i] = static_cast<char>('0' + carry % 10);
    carry /= 10;
  }
  for (; carry > 0; carry /= 10) digits.insert(digits.begin(), static_cast<char>('0' + carry % 10));
}

// Empty beyond 2^63 - 1.
std::optional<std::int64_t> rounded_down(const Decimal& number) {
  const std::int64_t length = std::ssize(number.digits) + number.exponent;
  if (number.digits.empty() || length <= 0) return 0;
  if (length > std::numeric_limits<std::int64_t>::digits10 + 1) return std::nullopt;
  std::string whole = number.digits.substr(0, static_cast<std::size_t>(length));
  whole.resize(static_cast<std::size_t>(length), '0');
  std::int64_t value = 0;
  const auto result = std::from_chars(whole.data(), whole.data() + whole.size(), value);
  return result.ec == std::errc() ? std::optional(value) : std::nullopt;
}

// The longest number at the start: "24E" of a unit EiB is no exponent.
std::string_view leading_number(std::string_view text) {
  std::size_t end = text.starts_with('-') ? 1 : 0;
  end += digits(text.substr(end));
  if (end < text.size() && text[end] == '.') end += 1 + digits(text.substr(end + 1));
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    const bool sign = end + 1 < text.size() && (text[end + 1] == '+' || text[end + 1] == '-');
    const std::size_t begin = end + (sign ? 2 : 1);
    if (begin < text.size() && is_digit(text[begin])) end = begin + digits(text.substr(begin));
  }
  return text.substr(0, end);
}

struct UnitSize {
  int base, power;
};

// "kb" is 1000^1, "gib" is 1024^3.
std::optional<UnitSize> unit_size(std::string_view lower) {
  static constexpr std::string_view kPrefixes = "kmgtpe";
  if (lower.size() < 2) return std::nullopt;
  const std::size_t power = kPrefixes.find(lower[0]);
  if (power == kPrefixes.npos) return std::nullopt;
  lower.remove_prefix(1);
  if (lower != "b" && lower != "ib") return std::nullopt;
  return UnitSize{lower == "b" ? 1000 : 1024, static_cast<int>(power) + 1};
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
  const Decimal number = decimal(text);
  if (number.digits.empty()) return {};
  if (number.exponent < 0) return {Whole::kFractional, 0};
  constexpr std::int64_t kMaxDigits = std::numeric_limits<std::int64_t>::digits10 + 1;
  if (number.exponent + std::ssize(number.digits) > kMaxDigits) return {Whole::kTooLarge, 0};
  const std::string written = (text.starts_with('-') ? "-" : "") + number.digits +
                              std::string(static_cast<std::size_t>(number.exponent), '0');
  std::int64_t value = 0;
  const auto result = std::from_chars(written.data(), written.data() + written.size(), value);
  if (result.ec != std::errc()) return {Whole::kTooLarge, 0};
  return {Whole::kYes, value};
}

std::optional<double> parse_double(std::string_view text) {
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec == std::errc::result_out_of_range) {
    // Too small is zero, as everywhere; too large has no value.
    const Decimal number = decimal(text);
    return number.exponent + std::ssize(number.digits) <= 0 ? std::optional<double>(0.0)
                                                            : std::nullopt;
  }
  if (result.ec != std::errc()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> parse_size(std::string_view text) {
  const std::string_view number = leading_number(text);
  std::string_view unit = text.substr(number.size());
  if (!is_json_number(number)) return std::nullopt;
  if (unit.starts_with(' ') && unit.size() > 1) unit.remove_prefix(1);
  if (unit.empty() || lowercase(unit) == "b") {
    const WholeNumber whole = parse_whole(number);
    return whole.verdict == Whole::kYes ? std::optional(whole.value) : std::nullopt;
  }
  const std::optional<UnitSize> size = unit_size(lowercase(unit));
  if (!size.has_value()) return std::nullopt;
  Decimal bytes = decimal(number);
  if (number.starts_with('-') && !bytes.digits.empty()) return std::nullopt;
  for (int i = 0; i < size->power; ++i) multiply(bytes.digits, size->base);
  return rounded_down(bytes);
}

}  // namespace zero::detail
