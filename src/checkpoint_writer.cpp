#include "src/checkpoint_writer.hpp"

#include <algorithm>

#include "src/checkpoint_names.hpp"
#include "src/checkpoint_safetensors.hpp"
#include "zero/error.hpp"

namespace zero::checkpoint {

HashedFile::HashedFile(FileSystem& files, const std::string& folder, const std::string& name,
                       std::int64_t block_bytes)
    : file_(files.create(join(folder, name))) {
  result_.name = name;
  result_.block_bytes = block_bytes;
}

void HashedFile::write(std::span<const std::byte> bytes) {
  file_->write(bytes);
  whole_.update(bytes);
  while (!bytes.empty()) {
    const std::int64_t left = result_.block_bytes - result_.bytes % result_.block_bytes;
    const auto part = bytes.first(std::min(bytes.size(), static_cast<std::size_t>(left)));
    block_.update(part);
    bytes = bytes.subspan(part.size());
    result_.bytes += static_cast<std::int64_t>(part.size());
    if (result_.bytes % result_.block_bytes == 0) {
      result_.block_xxh3.push_back(block_.digest());
      block_.reset();
    }
  }
}

CheckpointFile HashedFile::finish() {
  if (result_.bytes % result_.block_bytes != 0) result_.block_xxh3.push_back(block_.digest());
  result_.xxh3 = whole_.digest();
  file_->sync();
  file_->close();
  return std::move(result_);
}

std::string shard_header(int rank, int world_size, std::span<const StateRange> ranges) {
  std::vector<SafeTensor> tensors;
  tensors.reserve(ranges.size());
  for (const StateRange& range : ranges) {
    tensors.push_back({to_string(range), range.dtype, {range.end - range.begin}});
  }
  return safetensors_header(tensors, {{"format", "zero checkpoint"},
                                      {"rank", std::to_string(rank)},
                                      {"world_size", std::to_string(world_size)}});
}

ShardWriter::ShardWriter(FileSystem& files, const std::string& folder, int rank, int world_size,
                         std::vector<StateRange> ranges, std::int64_t block_bytes)
    : header_(shard_header(rank, world_size, ranges)),
      file_(files, folder, shard_file(rank, world_size), block_bytes) {
  auto offset = static_cast<std::int64_t>(header_.size());
  entries_.reserve(ranges.size());
  for (StateRange& range : ranges) {
    const std::int64_t bytes = range.bytes();
    entries_.push_back({std::move(range), offset});
    offset += bytes;
    left_ += bytes;
  }
  file_.write(std::as_bytes(std::span(header_)));
  header_.clear();
}

void ShardWriter::append(std::span<const std::byte> bytes) {
  if (static_cast<std::int64_t>(bytes.size()) > left_) {
    throw UsageError(detail::concat("ShardWriter::append: ", bytes.size(), " bytes, but only ",
                                    left_, " of the ranges are left"));
  }
  file_.write(bytes);
  left_ -= static_cast<std::int64_t>(bytes.size());
}

CheckpointFile ShardWriter::finish() {
  if (left_ != 0) {
    throw UsageError(detail::concat("ShardWriter::finish: ", left_,
                                    " bytes of the ranges are "
                                    "missing"));
  }
  CheckpointFile result = file_.finish();
  result.entries = std::move(entries_);
  return result;
}

}  // namespace zero::checkpoint
