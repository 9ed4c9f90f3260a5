// Checkpoints on disk: what is in one, and how to read it.
//
// A checkpoint is a folder: manifest.json and one file per rank that wrote it, in safetensors
// format. A file holds ranges of flattened parameters, each cut where the writer's shards were cut,
// without padding. Since every range carries its parameter's name and its place in it, any world
// size, stage and bucket size can read any checkpoint. Folders of one run stand beside each other:
//
//   DIR/step-00000100/manifest.json
//                     rank-00000-of-00002.safetensors
//                     rank-00001-of-00002.safetensors
//   DIR/latest        the name of the newest one: "step-00000100"
//
// A folder is named so only when all of it is on the disk; what is still being written has a name
// that starts with ".tmp-". The manifest holds xxh3 checksums: of itself, of each file, and of
// each block of each file, so that a rank verifies what it reads and reads no more.
//
// Host only; every call blocks. Errors are CheckpointError and name the file, and the tensor where
// it is about one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zero/dtype.hpp"
#include "zero/file_system.hpp"
#include "zero/param_spec.hpp"

namespace zero {

enum class StateKind : std::uint8_t {
  kMasterWeights,  // fp32; the parameters themselves where those are fp32
  kExpAvg,         // fp32
  kExpAvgSq,       // fp32
  kFrozen,         // a parameter without optimizer state, in its own dtype
  kGradients,      // of an accumulation window that is half done: sums so far, any dtype
};
inline constexpr int kStateKindCount = 5;
// "master_weights", "exp_avg", "exp_avg_sq", "frozen", "gradients".
std::string_view state_kind_name(StateKind kind);

// Elements [begin, end) of a flattened parameter.
struct StateRange {
  std::string param;
  StateKind kind = StateKind::kMasterWeights;
  std::int64_t begin = 0, end = 0;
  DType dtype = DType::kFloat32;
  // Tells several of one kind apart, e.g. gradients "rank 3" (what that rank has summed) or
  // "level 2" (a node of the tree). Empty where there is only one.
  std::string part = {};

  std::int64_t bytes() const {
    return (end - begin) * static_cast<std::int64_t>(dtype_bytes(dtype));
  }
  friend bool operator==(const StateRange&, const StateRange&) = default;
};
// "exp_avg/qkv.weight[0:1234]", with " (rank 3)" for a part. Its name in a file.
std::string to_string(const StateRange& range);

struct CheckpointFile {
  struct Entry {
    StateRange range;
    std::int64_t offset = 0;  // bytes from the start of the file
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  std::string name;
  std::int64_t bytes = 0;
  std::uint64_t xxh3 = 0;                 // of the whole file
  std::int64_t block_bytes = 1;           // of every block but the last
  std::vector<std::uint64_t> block_xxh3;  // of each block, from the start of the file
  std::vector<Entry> entries;             // in the order of the file, nothing between them
  friend bool operator==(const CheckpointFile&, const CheckpointFile&) = default;
};

struct CheckpointParam {
  std::string name;
  std::vector<std::int64_t> shape;
  DType dtype = DType::kFloat32;
  int group = 0;
  bool has_state = true;  // registered trainable: has master weights; else it is kFrozen
  bool requires_grad = true;
  std::int64_t step_count = 0;     // applied updates
  std::int32_t contributions = 1;  // backward passes that bring it a gradient in a micro-step
  bool touched = false;            // had a gradient on any rank in the open window

  std::int64_t numel() const;
  friend bool operator==(const CheckpointParam&, const CheckpointParam&) = default;
};

// The whole state of the loss scaler beyond its settings.
struct CheckpointScaler {
  bool dynamic = false;
  double scale = 1.0;
  std::int64_t iteration = 0;       // steps counted
  std::int64_t last_overflow = -1;  // the iteration of the last overflow
  std::int32_t hysteresis_left = 1;
  friend bool operator==(const CheckpointScaler&, const CheckpointScaler&) = default;
};

struct CheckpointManifest {
  static constexpr int kFormat = 1;

  int format = kFormat;
  std::string version;    // of the library that wrote it
  std::int64_t step = 0;  // as the caller counts; names the folder
  int world_size = 1;     // of the run that wrote it; one file for each rank
  int stage = 0;
  bool has_moments = true;  // exp_avg and exp_avg_sq of every parameter with state; false for SGD
  std::vector<CheckpointParam> params;     // in registration order
  std::vector<CheckpointFile> files;       // by rank
  std::vector<ParamGroup> groups;          // as they were in force
  std::vector<ParamGroup> initial_groups;  // as the run was set up, before any schedule
  bool groups_by_hand = false;  // set for the coming update, in the place of the schedule's
  std::string config;           // JSON: the effective configuration; empty if there is none
  std::int64_t applied_steps = 0, skipped_steps = 0;
  std::int64_t micro_step = 0;  // micro-steps of the coming step that are done
  std::int64_t accumulation_steps = 1;
  std::string window;  // how the sums of an open window are kept, e.g. "sums of shards"
  CheckpointScaler scaler;
  std::string scheduler;                 // its type; empty if there is none
  std::string scheduler_settings;        // key and value, a line each
  std::int64_t scheduler_position = -1;  // t of lr_schedule.hpp
  std::string user_data;                 // JSON of the caller's own; empty if there is none

  // Null if there is none of that name.
  const CheckpointParam* find(std::string_view param) const;
  friend bool operator==(const CheckpointManifest&, const CheckpointManifest&) = default;
};

// Where a checkpoint is found.
struct CheckpointPlace {
  std::string folder;  // path
  std::string note;    // why it is not the one that `latest` names; empty if it is
};
// `path` is the folder of a checkpoint, or one with checkpoints in it. Of these the one that
// `latest` names; if that is not there, or something is missing of it, the newest that is whole:
// its manifest is as it was written, and every file is there with its size (checksums of the files
// are not looked at). Ranks that load together let one of them decide. Throws if there is none.
CheckpointPlace find_checkpoint(FileSystem& files, const std::string& path);

// The checkpoints in a folder by step, oldest first: names of the folders, whole or not. None in a
// folder that is not there yet, so that a program can ask whether there is something to resume.
std::vector<std::string> list_checkpoints(FileSystem& files, const std::string& root);

// Reads a checkpoint. Nothing is handed out that is not as it was written.
//
// Thread-safety: none; each rank has its own. REQUIRES: the file system outlives it.
class CheckpointReader {
 public:
  // `path` as in find_checkpoint(). Reads and verifies the manifest; every file has to be there
  // with its size, and every element of what has to be there exactly once: master weights, moments
  // of parameters with state, frozen parameters, and gradients if there are any.
  CheckpointReader(FileSystem& files, const std::string& path);
  ~CheckpointReader();
  CheckpointReader(CheckpointReader&&) noexcept;

  const CheckpointManifest& manifest() const;
  const std::string& folder() const;  // path
  const std::string& note() const;    // of find_checkpoint()

  // Bytes of scratch memory that read() and verify() need: of the largest block, 1 MiB or less, and
  // a few more. Of what this version writes at most kMostScratchBytes.
  static constexpr std::int64_t kMostScratchBytes = (std::int64_t{1} << 20) + 64;
  std::int64_t scratch_bytes() const;

  // The parts that there are of a parameter's gradients (or other kind), sorted; empty: none.
  std::vector<std::string> parts(StateKind kind, std::string_view param) const;
  // The dtype in which it is stored. Throws if there is no such thing.
  DType dtype(StateKind kind, std::string_view param, std::string_view part = {}) const;

  // Memory of scratch_bytes() in which read() keeps a block from call to call, where it is given as
  // scratch: ranges that lie side by side are then read and verified once. No one else writes to it
  // until the reader is gone or is lent something else.
  void lend(std::span<std::byte> scratch);
  // Elements [begin, end) of the flattened parameter, gathered from the files that hold them, in
  // the dtype in which they are stored. `out` has exactly their bytes, `scratch` at least
  // scratch_bytes(). Reads the blocks that hold them and verifies each.
  void read(StateKind kind, std::string_view param, std::int64_t begin, std::int64_t end,
            std::string_view part, std::span<std::byte> out, std::span<std::byte> scratch);

  // Reads everything, once. Returns what is wrong, a line each; empty if nothing is: headers,
  // checksums of blocks and files, values that are not finite (but for gradients, which may
  // overflow). `scratch` as above.
  std::vector<std::string> verify(std::span<std::byte> scratch);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zero
