// How zero-mem writes figures for people. Programs read --json, where all figures are exact.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mem {

// Bytes as GB (1e9 bytes): three digits that matter, from 10 GB on one decimal, never more than
// nine decimals (a byte): "120.0", "1.88", "0.00123", "0". Negative figures keep their sign.
std::string gigabytes(std::int64_t bytes);

// "7500000000" -> "7,500,000,000".
std::string grouped(std::int64_t value);

// "1 unit", "2,000 units".
std::string counted(std::int64_t count, const std::string& noun);

// Text that JSON and XML can hold: what is no character in UTF-8 becomes U+FFFD, and so do U+FFFE
// and U+FFFF, which XML refuses.
std::string valid_utf8(const std::string& text);

// Columns as wide as they must be; the first one is aligned left, the others right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : rows_{std::move(header)} {}
  // REQUIRES: as many cells as the header has.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // One line per row, `indent` before each.
  std::string text(const std::string& indent = "") const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace mem
