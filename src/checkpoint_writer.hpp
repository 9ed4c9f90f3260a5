// One rank's file of a checkpoint, in safetensors format: 8 bytes with the length of the header,
// the header (JSON), then the bytes of the tensors without anything between them. Every range is a
// tensor of one dimension.
//
// Not a copy is made of what is written; checksums are taken on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/checkpoint_hash.hpp"
#include "zero/checkpoint.hpp"
#include "zero/file_system.hpp"

namespace zero::checkpoint {

inline constexpr std::int64_t kBlockBytes = std::int64_t{1} << 20;

// A file that is hashed while it is written: the whole, and each block.
class HashedFile {
 public:
  HashedFile(FileSystem& files, const std::string& folder, const std::string& name,
             std::int64_t block_bytes);
  void write(std::span<const std::byte> bytes);
  // On the disk, when it returns. name, bytes, xxh3 and blocks are set.
  CheckpointFile finish();

 private:
  CheckpointFile result_;
  Xxh3 whole_, block_;
  std::unique_ptr<WritableFile> file_;
};

// How such a file starts: length, header, blanks.
std::string shard_header(int rank, int world_size, std::span<const StateRange> ranges);

// Thread-safety: none. Throws CheckpointError; what there is of the file is left for the caller to
// remove with the folder.
class ShardWriter {
 public:
  // Creates FOLDER/rank-00001-of-00004.safetensors with its header. REQUIRES: no two ranges have
  // the same name. Where wider dtypes come first, every tensor is aligned to its elements.
  ShardWriter(FileSystem& files, const std::string& folder, int rank, int world_size,
              std::vector<StateRange> ranges, std::int64_t block_bytes = kBlockBytes);
  // The next bytes of the ranges, in their order, cut in any way. UsageError for more than there
  // are.
  void append(std::span<const std::byte> bytes);
  // On the disk, when it returns. UsageError if bytes are missing.
  CheckpointFile finish();

 private:
  std::string header_;
  std::vector<CheckpointFile::Entry> entries_;
  std::int64_t left_ = 0;  // bytes still to come
  HashedFile file_;
};

}  // namespace zero::checkpoint
