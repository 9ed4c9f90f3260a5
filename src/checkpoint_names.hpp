// Names of folders and files of a checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zero::checkpoint {

inline constexpr std::string_view kManifest = "manifest.json";
inline constexpr std::string_view kLatest = "latest";
// What is being written, or on its way out. Nothing of it counts as a checkpoint.
inline constexpr std::string_view kTemporary = ".tmp-";
// A checkpoint that another of the same step takes the place of: it counts until that is there.
inline constexpr std::string_view kReplaced = "-replaced";

std::string join(std::string_view folder, std::string_view name);

std::string step_folder(std::int64_t step);  // "step-00000100"
struct StepName {
  std::int64_t step;
  bool replaced;
};
std::optional<StepName> parse_step_folder(std::string_view name);

std::string shard_file(int rank, int world_size);  // "rank-00001-of-00004.safetensors"
std::string record_file(int rank);                 // "rank-00001.json"

}  // namespace zero::checkpoint
