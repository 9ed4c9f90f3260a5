#include "src/rank_agreement.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "src/rank_exchange.hpp"
#include "zero/error.hpp"

namespace zero {
namespace {

// Of the first so many lines; of none, 0. Lines beyond the last count as empty, which none is.
class Hashes {
 public:
  explicit Hashes(const std::vector<std::string>& lines) : of_first_(1) {
    for (const std::string& line : lines) of_first_.push_back(next(line, of_first_.back()));
  }
  std::uint64_t of(std::uint64_t lines) const {
    std::uint64_t hash = of_first_[std::min<std::uint64_t>(lines, of_first_.size() - 1)];
    for (std::uint64_t i = of_first_.size(); i <= lines; ++i) hash = next({}, hash);
    return hash;
  }

 private:
  static std::uint64_t next(std::string_view line, std::uint64_t before) {
    return XXH3_64bits_withSeed(line.data(), line.size(), before);
  }
  std::vector<std::uint64_t> of_first_;
};

bool all_equal(const std::vector<std::uint64_t>& words) {
  return std::equal(words.begin() + 1, words.end(), words.begin());
}

std::string has(std::size_t rank, const std::string& line) {
  return detail::concat("rank ", rank, " has ", line.empty() ? "nothing more" : line);
}

}  // namespace

void require_alike(Runtime& rt, const std::vector<std::string>& lines) {
  const OpTag tag = {Purpose::kControl, "prepare(): whether the ranks are set up alike"};
  const Hashes hashes(lines);
  const std::uint64_t mine[] = {lines.size(), hashes.of(lines.size())};
  const std::vector<std::uint64_t> all = all_gather_words(rt, mine, tag);
  // Up to `same` lines all ranks agree, of the first `other` they do not.
  std::uint64_t same = 0;
  std::uint64_t other = 0;
  bool alike = true;
  for (std::size_t i = 0; i < all.size(); i += 2) {
    other = std::max(other, all[i]);
    alike = alike && all[i] == all[0] && all[i + 1] == all[1];
  }
  if (alike) return;
  while (other - same > 1) {
    const std::uint64_t middle = same + (other - same) / 2;
    const std::uint64_t hash = hashes.of(middle);
    (all_equal(all_gather_words(rt, {&hash, 1}, tag)) ? same : other) = middle;
  }
  const std::vector<std::string> texts =
      all_gather_text(rt, same < lines.size() ? lines[same] : std::string(), tag);
  const auto differs = std::find_if(texts.begin(), texts.end(),
                                    [&](const std::string& text) { return text != texts[0]; });
  throw ConfigError(
      detail::concat("prepare(): the ranks are not set up alike: ", has(0, texts[0]), "; ",
                     has(static_cast<std::size_t>(differs - texts.begin()), *differs)));
}

}  // namespace zero
