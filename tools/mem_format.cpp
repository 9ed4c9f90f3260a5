#include "tools/mem_format.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace mem {

std::string gigabytes(std::int64_t bytes) {
  if (bytes == 0) return "0";
  const double value = static_cast<double>(bytes) / 1e9;
  double magnitude = std::abs(value);
  int decimals = 1;
  for (; magnitude < 10 && decimals < 9; ++decimals) magnitude *= 10;
  std::array<char, 48> text;
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::size_t first = digits.starts_with('-') ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string counted(std::int64_t count, const std::string& noun) {
  return grouped(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string valid_utf8(const std::string& text) {
  using nlohmann::json;
  constexpr const char* kReplacement = "\xEF\xBF\xBD";
  std::string out = json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace));
  for (const char* none : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"}) {  // characters in JSON, none in XML
    for (std::size_t at = 0; (at = out.find(none, at)) != std::string::npos;) {
      out.replace(at, 3, kReplacement);
    }
  }
  return out;
}

std::string TextTable::text(const std::string& indent) const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line = indent;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string space(widths[c] - row[c].size(), ' ');
      line += c == 0 ? row[c] + space : "  " + space + row[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace mem
