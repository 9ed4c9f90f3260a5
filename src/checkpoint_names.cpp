#include "src/checkpoint_names.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace zero::checkpoint {

namespace {

constexpr std::string_view kStep = "step-";

std::string digits(std::int64_t number, int width) {
  char text[32];
  std::snprintf(text, sizeof text, "%0*lld", width, static_cast<long long>(number));
  return text;
}

}  // namespace

std::string join(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.empty() && path.back() != '/') path += '/';
  return path.append(name);
}

std::string step_folder(std::int64_t step) { return std::string(kStep) + digits(step, 8); }

std::optional<StepName> parse_step_folder(std::string_view name) {
  StepName result{0, name.ends_with(kReplaced)};
  const std::string_view plain =
      name.substr(0, name.size() - (result.replaced ? kReplaced.size() : 0));
  if (!plain.starts_with(kStep)) return std::nullopt;
  const std::string_view number = plain.substr(kStep.size());
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), result.step);
  // Only as it is written: no sign, the zeros as they have to be.
  if (error != std::errc() || end != number.data() + number.size() || result.step < 0 ||
      step_folder(result.step) != plain) {
    return std::nullopt;
  }
  return result;
}

bool named_as_checkpoint(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return parse_step_folder(path.substr(path.rfind('/') + 1)).has_value();  // npos + 1 is 0
}

bool is_left_over(std::string_view name) {
  return name.starts_with(std::string(kTemporary) + std::string(kStep)) ||
         name.starts_with(kLeaving) || name == std::string(kTemporary) + std::string(kLatest);
}

std::string shard_file(int rank, int world_size) {
  return "rank-" + digits(rank, 5) + "-of-" + digits(world_size, 5) + ".safetensors";
}

std::string record_file(int rank) { return "rank-" + digits(rank, 5) + ".json"; }
std::string failed_folder(std::string_view name, int rank) {
  return std::string(name) + "-failed-" + digits(rank, 5);
}

}  // namespace zero::checkpoint
