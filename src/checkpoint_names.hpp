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
inline constexpr std::string_view kLeaving = ".tmp-removed-";
// A checkpoint that another of the same step takes the place of: it counts until that is there.
inline constexpr std::string_view kReplaced = "-replaced";

std::string join(std::string_view folder, std::string_view name);

std::string step_folder(std::int64_t step);  // "step-00000100"
struct StepName {
  std::int64_t step;
  bool replaced;
};
std::optional<StepName> parse_step_folder(std::string_view name);
// Whether the last part of a path is such a name.
bool named_as_checkpoint(std::string_view path);
// Whether it is the name of something that a save had begun, or was taking away.
bool is_left_over(std::string_view name);

std::string shard_file(int rank, int world_size);  // "rank-00001-of-00004.safetensors"
std::string record_file(int rank);                 // "rank-00001.json"
// What a temporary folder is renamed to by a rank that could not write: "NAME-failed-00001".
std::string failed_folder(std::string_view name, int rank);

}  // namespace zero::checkpoint
