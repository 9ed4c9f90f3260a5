// CheckpointReader::verify(): every byte once.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/checkpoint_hash.hpp"
#include "src/checkpoint_reader.hpp"
#include "zero/error.hpp"

namespace zero {

namespace {

using detail::concat;

// Looks for values that are not finite in tensors that come along in blocks.
class FiniteCheck {
 public:
  FiniteCheck(const CheckpointFile& file, std::string path, std::vector<std::string>& problems)
      : file_(file), path_(std::move(path)), problems_(problems) {}

  // `bytes` are those of the file from `offset` on, and in front of them are those of the block
  // before, as many as an element has.
  void block(std::int64_t offset, std::span<const std::byte> bytes) {
    const std::int64_t end = offset + static_cast<std::int64_t>(bytes.size());
    for (; next_ < file_.entries.size(); ++next_) {
      const CheckpointFile::Entry& entry = file_.entries[next_];
      if (entry.offset >= end) return;
      const std::int64_t stop = entry.offset + entry.range.bytes();
      if (entry.range.kind != StateKind::kGradients) {
        with_dtype(entry.range.dtype, [&](auto tag) {
          using T = decltype(tag);
          constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
          // Whole elements that end in this block; the first may begin before it.
          const std::int64_t from = std::max<std::int64_t>((offset - entry.offset) / kSize, 0);
          const std::int64_t to = (std::min(end, stop) - entry.offset) / kSize;
          const std::byte* first = bytes.data() + (entry.offset + from * kSize - offset);
          for (std::int64_t i = from; i < to; ++i, first += kSize) {
            T value;
            std::memcpy(&value, first, sizeof value);
            if (!std::isfinite(to_float(value))) found(entry.range.begin + i, to_float(value));
          }
        });
      }
      if (stop > end) return;
      report(entry);
    }
  }
  // In the place of a block that is not as it was written.
  void skip(std::int64_t end) {
    while (next_ < file_.entries.size() &&
           file_.entries[next_].offset + file_.entries[next_].range.bytes() <= end) {
      report(file_.entries[next_++]);
    }
  }

 private:
  void found(std::int64_t element, float value) {
    if (count_++ == 0) first_ = concat("element ", element, " is ", value);
  }
  void report(const CheckpointFile::Entry& entry) {
    if (count_ == 0) return;
    problems_.push_back(concat(path_, ": ", to_string(entry.range), ": ", count_,
                               count_ == 1 ? " value is" : " values are", " not finite: ", first_));
    count_ = 0;
  }

  const CheckpointFile& file_;
  std::string path_;
  std::vector<std::string>& problems_;
  std::size_t next_ = 0;  // the entry that the coming byte is of, or that comes after it
  std::int64_t count_ = 0;
  std::string first_;
};

}  // namespace

std::vector<std::string> CheckpointReader::verify(std::span<std::byte> scratch) {
  if (scratch.size() < static_cast<std::size_t>(scratch_bytes())) {
    throw UsageError(concat("CheckpointReader::verify: ", scratch.size(),
                            " bytes of scratch, needed are ", scratch_bytes()));
  }
  std::vector<std::string> problems;
  for (std::size_t f = 0; f < impl_->manifest.files.size(); ++f) {
    const CheckpointFile& file = impl_->manifest.files[f];
    checkpoint::Xxh3 whole;
    FiniteCheck finite(file, impl_->path_of(f), problems);
    bool readable = true;
    const std::size_t problems_before = problems.size();
    for (std::size_t b = 0; b < file.block_xxh3.size() && readable; ++b) {
      const std::int64_t offset = static_cast<std::int64_t>(b) * file.block_bytes;
      const auto size = static_cast<std::size_t>(std::min(file.block_bytes, file.bytes - offset));
      const auto block = scratch.subspan(checkpoint::kCarryBytes, size);
      try {
        const ReadableFile& open = impl_->open(f);
        open.read_at(offset, block);
      } catch (const CheckpointError& error) {
        problems.push_back(error.what());
        readable = false;
        break;
      }
      whole.update(block);
      if (checkpoint::xxh3_of(block) == file.block_xxh3[b]) {
        finite.block(offset, block);
      } else {
        problems.push_back(impl_->damage(f, b));
        finite.skip(offset + static_cast<std::int64_t>(size));
      }
      std::memmove(scratch.data(), scratch.data() + size, checkpoint::kCarryBytes);
    }
    if (problems.size() == problems_before && whole.digest() != file.xxh3) {
      problems.push_back(impl_->path_of(f) + ": its xxh3 is not that of the manifest");
    }
  }
  return problems;
}

}  // namespace zero
