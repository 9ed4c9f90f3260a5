// How the files of all ranks become a checkpoint, by the shared file system alone, so that an
// asynchronous save needs no communicator.
//
//   rank 0          name = begin(files, root, step), told to all ranks
//   every rank      ShardWriter in ROOT/NAME, then publish_record(); publish_failure() instead if
//                   that went wrong
//   rank 0          commit()
//
// Written first is what is needed first: files, records (each synced), the manifest, then one
// rename, then `latest`, then old ones go. A crash between any two of these leaves the checkpoint
// before loadable, and begin() of the next save removes what was left. One save at a time in a
// folder.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "zero/checkpoint.hpp"
#include "zero/file_system.hpp"

namespace zero::checkpoint {

// make_root(), then clears away what crashes left, and creates the folder to write in. Returns its
// name.
std::string begin(FileSystem& files, const std::string& root, std::int64_t step);

// Says that a rank's file is on the disk, or why it is not. Where there is no room even for that,
// the folder is renamed: that takes none.
void publish_record(FileSystem& files, const std::string& folder, int rank,
                    const CheckpointFile& file);
void publish_failure(FileSystem& files, const std::string& folder, int rank,
                     std::string_view message);

// Waits for what every rank of manifest.world_size publishes in ROOT/NAME, adds it to the manifest
// (whose `files` is empty) and makes it the checkpoint of manifest.step, in the place of another of
// that step if there is one. Then keeps the newest `keep` checkpoints (0: all), this one, and the
// one that `latest` names. Returns its path.
// On an error before it is a checkpoint ROOT/NAME is removed as far as that can be done: a rank
// that failed, or published nothing by the deadline, is named. `given_up`, if not null, set
// meanwhile leaves the others two more seconds.
std::string commit(FileSystem& files, const std::string& root, const std::string& name,
                   CheckpointManifest manifest, std::chrono::steady_clock::time_point deadline,
                   int keep, const std::atomic<bool>* given_up = nullptr);

// Removes ROOT/NAME; for a save that is given up before commit(). Never throws.
void abandon(FileSystem& files, const std::string& root, const std::string& name) noexcept;

}  // namespace zero::checkpoint
