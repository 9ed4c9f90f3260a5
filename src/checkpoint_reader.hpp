// The inside of CheckpointReader: one file open at a time, blocks verified as they are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/checkpoint_index.hpp"
#include "zero/checkpoint.hpp"

namespace zero {

namespace checkpoint {
// Scratch has room in front of a block for the start of an element that began in the block before.
inline constexpr std::size_t kCarryBytes = 8;
}  // namespace checkpoint

struct CheckpointReader::Impl {
  FileSystem& files;
  std::string folder;
  std::string note;
  CheckpointManifest manifest;
  checkpoint::Index index;
  std::int64_t largest_block = 0;

  std::vector<bool> header_seen;  // of each file; it was right

  // Which block is in the memory that was lent.
  const std::byte* lent = nullptr;
  bool scratch_full = false;
  std::size_t scratch_file = 0;
  std::int64_t scratch_block = 0;

  // What is open.
  std::size_t open_number = 0;
  std::unique_ptr<ReadableFile> open_file;

  Impl(FileSystem& fs, const std::string& path);

  const checkpoint::Tensor& tensor(StateKind kind, std::string_view param,
                                   std::string_view part) const;
  // Opens a file of the manifest, if it is not open. Its size and header are right.
  const ReadableFile& open(std::size_t number);
  std::string path_of(std::size_t number) const;
  // What is wrong with a block that is not as it was written.
  std::string damage(std::size_t number, std::size_t block) const;
  // A whole block, which has to be as it was written.
  void read_block(std::size_t number, std::size_t block, std::span<std::byte> out);
  // Bytes from `offset` on.
  void read_bytes(std::size_t number, std::int64_t offset, std::span<std::byte> out,
                  std::span<std::byte> scratch);
};

}  // namespace zero
