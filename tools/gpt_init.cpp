// The first values of the weights.
#include <cmath>
#include <cstring>
#include <numbers>

#include "tools/gpt.hpp"

namespace gpt {

namespace {

// Counter-based: element i of parameter p depends on nothing else (Steele et al. 2014, SplitMix).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// In (0, 1].
double uniform(std::uint64_t bits) { return static_cast<double>((bits >> 11) + 1) * 0x1p-53; }

// Box & Muller 1958.
float normal(std::uint64_t key, std::uint64_t element) {
  const double radius = std::sqrt(-2.0 * std::log(uniform(mix(key + 2 * element))));
  const double angle = 2.0 * std::numbers::pi * uniform(mix(key + 2 * element + 1));
  return static_cast<float>(radius * std::cos(angle));
}

}  // namespace

void fill_initial(const Parameter& parameter, std::uint64_t seed, Storage storage,
                  std::span<std::byte> out) {
  const auto n = static_cast<std::size_t>(parameter.numel());
  std::vector<float> values(n, parameter.init == InitKind::kOne ? 1.0f : 0.0f);
  if (parameter.init == InitKind::kNormal) {
    const std::uint64_t key = mix(mix(seed) + static_cast<std::uint64_t>(parameter.index));
    for (std::size_t i = 0; i < n; ++i) values[i] = parameter.stddev * normal(key, i);
  }
  std::memset(out.data(), 0, out.size());
  best_kernels().add_into(out.data(), storage, values.data(), static_cast<std::ptrdiff_t>(n));
}

}  // namespace gpt
