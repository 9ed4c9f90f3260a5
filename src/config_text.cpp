#include "src/config_text.hpp"

#include <algorithm>
#include <array>

namespace zero::detail {
namespace {

constexpr std::size_t kKeyLimit = 80;  // longer keys are cut in messages

bool is_plain(std::string_view key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// Cuts between characters of UTF-8, never inside one.
std::string_view cut(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xc0u) == 0x80u) --limit;
  return text.substr(0, limit);
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

bool is_comment_key(std::string_view key) { return key.starts_with("_") || key.starts_with("//"); }

std::string lowercase(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::string join_path(std::string_view parent, std::string_view key) {
  std::string path(parent);
  if (!is_plain(key) || key.size() > kKeyLimit) return path + "[" + quoted(key, kKeyLimit) + "]";
  if (!path.empty()) path += '.';
  return path.append(key);
}

std::string quoted(std::string_view text, std::size_t limit) {
  constexpr std::array<char, 16> kHex = {'0', '1', '2', '3', '4', '5', '6', '7',
                                         '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'};
  const std::string_view kept = cut(text, limit);
  std::string result = "\"";
  for (const char c : kept) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (code < 0x20 || code == 0x7f) {
      result += "\\u00";
      result += kHex[code >> 4];
      result += kHex[code & 15u];
    } else {
      result += c;
    }
  }
  return result + (kept.size() < text.size() ? "...\"" : "\"");
}

std::string shortened(std::string_view text, std::size_t limit) {
  const std::string_view kept = cut(text, limit);
  std::string result(kept);
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return kept.size() < text.size() ? result + "..." : result;
}

std::string nearest(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string wanted = lowercase(cut(name, 2 * kKeyLimit));
  std::string best;
  std::size_t best_distance = std::string::npos;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(wanted, lowercase(candidate));
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  // With half of the letters changed it is another word.
  return 2 * best_distance > std::max(wanted.size(), best.size()) ? std::string() : best;
}

}  // namespace zero::detail
