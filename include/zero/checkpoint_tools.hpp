// What can be done with checkpoints on disk besides loading them; zero-ckpt is a command line for
// it. Host only, blocking, CheckpointError, and memory for a block or two at a time, whatever the
// size of the model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zero/checkpoint.hpp"
#include "zero/file_system.hpp"

namespace zero {

// Makes sure that checkpoints can be saved in the folder and found there by a resume, before hours
// of training: creates it if it is missing, and tries whether it can be written to. Throws where it
// cannot, where it is a checkpoint itself, or has a name as one ("step-00000100").
void prepare_checkpoint_folder(FileSystem& files, const std::string& root);

// Removes all but the newest `keep` whole checkpoints of a folder (as find_checkpoint() counts them
// whole), the one that `latest` names and the one that find_checkpoint() finds; without that one it
// throws. Damaged ones that are newer than those stay. Returns the names of those removed, the
// oldest first.
// REQUIRES: keep > 0.
std::vector<std::string> prune_checkpoints(FileSystem& files, const std::string& root, int keep);

enum class WeightsDtype : std::uint8_t {
  kMaster,   // fp32 master weights; frozen parameters in their own dtype
  kWorking,  // every parameter in its own dtype, rounded to nearest even as training does
};
// Writes the whole parameters in their shapes into one safetensors file, under their own names. The
// file appears when it is complete and takes the place of an older one, at the end of a link of
// that. Refused where there is anything but a plain file, inside of a checkpoint's folder, and in
// the place of the `latest` of a folder of checkpoints.
void consolidate_checkpoint(FileSystem& files, CheckpointReader& from, const std::string& path,
                            WeightsDtype dtype);

// Writes the same checkpoint cut evenly for another number of ranks into the folder `root`, as a
// save would. Returns its path. Throws if an accumulation window is half done in it: its sums
// belong to the ranks that made them.
std::string convert_checkpoint(FileSystem& files, CheckpointReader& from, const std::string& root,
                               int world_size);

}  // namespace zero
