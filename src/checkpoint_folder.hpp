// What the folder around the checkpoints holds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "zero/checkpoint.hpp"
#include "zero/file_system.hpp"

namespace zero::checkpoint {

// Creates the root if it is missing. Throws CheckpointError where a resume would not find what is
// saved there.
void make_root(FileSystem& files, const std::string& root);

// What ROOT/latest says; none if it is not there, empty if it is no plain file.
std::optional<std::string> read_latest(FileSystem& files, const std::string& root);
void write_latest(FileSystem& files, const std::string& root, const std::string& name);

// Makes ROOT/NAME vanish at once, then removes it.
void discard(FileSystem& files, const std::string& root, const std::string& name);

// prune_checkpoints(), with `also` in place of what a resume takes.
std::vector<std::string> prune(FileSystem& files, const std::string& root, int keep,
                               const std::string& also);

// The manifest of a checkpoint of which every file is there with its size. Throws CheckpointError
// that says what is missing.
CheckpointManifest read_whole(FileSystem& files, const std::string& folder);

}  // namespace zero::checkpoint
