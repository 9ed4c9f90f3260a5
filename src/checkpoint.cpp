#include "zero/checkpoint.hpp"

#include <algorithm>
#include <array>

#include "zero/error.hpp"

namespace zero {

std::string_view state_kind_name(StateKind kind) {
  static constexpr std::array<std::string_view, kStateKindCount> kNames = {
      "master_weights", "exp_avg", "exp_avg_sq", "frozen", "gradients"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string to_string(const StateRange& range) {
  return detail::concat(state_kind_name(range.kind), "/", range.param, "[", range.begin, ":",
                        range.end, "]", range.part.empty() ? "" : " (" + range.part + ")");
}

std::int64_t CheckpointParam::numel() const {
  std::int64_t product = 1;
  for (const std::int64_t dimension : shape) product *= dimension;
  return product;
}

const CheckpointParam* CheckpointManifest::find(std::string_view param) const {
  const auto at = std::find_if(params.begin(), params.end(),
                               [&](const CheckpointParam& p) { return p.name == param; });
  return at == params.end() ? nullptr : &*at;
}

}  // namespace zero
