#include "src/checkpoint_seal.hpp"

#include <algorithm>
#include <charconv>

#include "src/checkpoint_hash.hpp"
#include "zero/error.hpp"

namespace zero::checkpoint {

namespace {

std::string last_line(std::string_view body) {
  return "\"xxh3\": \"" + hex(xxh3_of(std::as_bytes(std::span(body)))) + "\"}\n";
}

}  // namespace

std::string hex(std::uint64_t value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(16, '0');
  for (auto at = text.rbegin(); at != text.rend(); ++at, value >>= 4) *at = kDigits[value & 15u];
  return text;
}

std::uint64_t parse_hex(std::string_view digits, const std::string& where) {
  std::uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (error != std::errc() || end != digits.data() + digits.size() || hex(value) != digits) {
    throw CheckpointError(
        detail::concat(where, ": \"", digits, "\" is no checksum of 16 hexadecimal digits"));
  }
  return value;
}

std::string sealed(std::string body) {
  body += last_line(body);
  return body;
}

std::string_view unsealed(std::span<const std::byte> bytes, const std::string& where) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::size_t line = last_line("").size();
  const std::string_view body = text.substr(0, text.size() - std::min(text.size(), line));
  if (text.substr(body.size()) != last_line(body)) {
    throw CheckpointError(where +
                          ": it is damaged: its last line is not the checksum of what is before");
  }
  return text;
}

}  // namespace zero::checkpoint
