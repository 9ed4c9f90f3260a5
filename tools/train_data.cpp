#include "tools/train_data.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace train {

namespace {

// Steele et al. 2014, SplitMix.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

void resize(Batch& batch, int rows, int context) {
  const auto n = static_cast<std::size_t>(rows) * static_cast<std::size_t>(context);
  batch.tokens.resize(n);
  batch.targets.resize(n);
}

}  // namespace

Corpus Corpus::load(const std::vector<std::string>& paths) {
  std::ostringstream all;
  for (const std::string& path : paths) {
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    // Opening a directory succeeds; reading from it does not.
    if (!file || file.peek() == std::ifstream::traits_type::eof()) {
      throw std::runtime_error("--data " + path + ": " +
                               (errno != 0 ? std::strerror(errno) : "the file is empty"));
    }
    all << file.rdbuf();
  }
  return Corpus(std::move(all).str());
}

Corpus::Corpus(std::string bytes)
    : bytes_(std::move(bytes)), train_bytes_(bytes_.size() - bytes_.size() / 10) {}

std::uint64_t Corpus::hash() const { return XXH3_64bits(bytes_.data(), bytes_.size()); }

void Corpus::check_context(int context) const {
  const auto need = static_cast<std::size_t>(context) + 1;
  if (train_bytes_ >= need && held_out_bytes() >= need) return;
  std::ostringstream out;
  out << "--data: " << bytes() << " bytes are too few for --context " << context
      << ": the held-out tenth (" << held_out_bytes() << " bytes) must hold " << need
      << ", so at least " << 10 * need << " bytes are needed, or --context "
      << (held_out_bytes() > 1 ? held_out_bytes() - 1 : 1) << " at most";
  throw std::runtime_error(out.str());
}

void Corpus::window(std::size_t at, int row, int context, Batch& batch) const {
  const auto n = static_cast<std::size_t>(context);
  const std::size_t out = static_cast<std::size_t>(row) * n;
  std::memcpy(batch.tokens.data() + out, bytes_.data() + at, n);
  std::memcpy(batch.targets.data() + out, bytes_.data() + at + 1, n);
}

void Corpus::draw(std::uint64_t seed, std::uint64_t slot, int rows, int context,
                  Batch& batch) const {
  resize(batch, rows, context);
  const std::uint64_t places = train_bytes_ - static_cast<std::size_t>(context);
  for (int row = 0; row < rows; ++row) {
    const std::uint64_t hash = mix(mix(mix(seed) + slot) + static_cast<std::uint64_t>(row));
    window(hash % places, row, context, batch);
  }
}

void Corpus::held_out(std::int64_t first, std::int64_t count, int rows, int context,
                      Batch& batch) const {
  resize(batch, rows, context);
  const auto last_place =
      static_cast<std::int64_t>(held_out_bytes()) - static_cast<std::int64_t>(context) - 1;
  for (int row = 0; row < rows; ++row) {
    const std::int64_t at = last_place * (first + row) / std::max<std::int64_t>(1, count - 1);
    window(train_bytes_ + static_cast<std::size_t>(at), row, context, batch);
  }
}

double tree_sum(std::span<const double> values) {
  if (values.empty()) return 0;
  if (values.size() == 1) return values[0];
  const std::size_t half = std::bit_ceil(values.size()) / 2;
  return tree_sum(values.first(half)) + tree_sum(values.subspan(half));
}

}  // namespace train
