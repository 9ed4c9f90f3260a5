#include "src/checkpoint_reader.hpp"

#include <algorithm>
#include <cstring>

#include "src/checkpoint_folder.hpp"
#include "src/checkpoint_hash.hpp"
#include "src/checkpoint_names.hpp"
#include "src/checkpoint_writer.hpp"
#include "zero/error.hpp"

namespace zero {

using checkpoint::Tensor;
using detail::concat;

namespace {

std::size_t to_size(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }

// The start of the file as its manifest row says it has to be.
std::string expected_header(const CheckpointFile& file, std::size_t number, std::size_t count) {
  std::vector<StateRange> ranges;
  ranges.reserve(file.entries.size());
  for (const CheckpointFile::Entry& entry : file.entries) ranges.push_back(entry.range);
  return checkpoint::shard_header(static_cast<int>(number), static_cast<int>(count), ranges);
}

}  // namespace

CheckpointReader::Impl::Impl(FileSystem& fs, const std::string& path) : files(fs) {
  const CheckpointPlace place = find_checkpoint(fs, path);
  folder = place.folder;
  note = place.note;
  manifest = checkpoint::read_whole(fs, folder);
  index = checkpoint::make_index(manifest, folder);
  header_seen.resize(manifest.files.size());
  for (const CheckpointFile& file : manifest.files) {
    largest_block = std::max(largest_block, std::min(file.block_bytes, file.bytes));
  }
}

const Tensor& CheckpointReader::Impl::tensor(StateKind kind, std::string_view param,
                                             std::string_view part) const {
  const auto at = index.find({kind, std::string(param), std::string(part)});
  if (at != index.end()) return at->second;
  throw CheckpointError(concat(folder, " holds no ", state_kind_name(kind), " of ", param,
                               part.empty() ? "" : " (" + std::string(part) + ")"));
}

std::string CheckpointReader::Impl::path_of(std::size_t number) const {
  return checkpoint::join(folder, manifest.files[number].name);
}

const ReadableFile& CheckpointReader::Impl::open(std::size_t number) {
  if (open_file != nullptr && open_number == number) return *open_file;
  open_file.reset();
  const CheckpointFile& file = manifest.files[number];
  auto opened = files.open(path_of(number));
  if (opened->size() != file.bytes) {
    throw CheckpointError(
        concat(path_of(number), " has ", opened->size(), " bytes, expected ", file.bytes));
  }
  if (!header_seen[number]) {
    const std::string expected = expected_header(file, number, manifest.files.size());
    std::string header(std::min(expected.size(), to_size(file.bytes)), '\0');
    opened->read_at(0, std::as_writable_bytes(std::span(header)));
    if (header != expected) {
      throw CheckpointError(path_of(number) +
                            " is not the file of its manifest: another header (safetensors)");
    }
    header_seen[number] = true;
  }
  open_number = number;
  open_file = std::move(opened);
  return *open_file;
}

std::string CheckpointReader::Impl::damage(std::size_t number, std::size_t block) const {
  constexpr std::size_t kNamed = 3;
  const CheckpointFile& file = manifest.files[number];
  const std::int64_t begin = static_cast<std::int64_t>(block) * file.block_bytes;
  const std::int64_t end = std::min(begin + file.block_bytes, file.bytes);
  std::string in;
  std::size_t found = 0;
  if (file.entries.empty() || begin < file.entries.front().offset) in = ", its header";
  for (const CheckpointFile::Entry& entry : file.entries) {
    const bool inside = entry.offset < end && entry.offset + entry.range.bytes() > begin;
    if (inside && ++found <= kNamed) in += ", " + to_string(entry.range);
  }
  if (found > kNamed) in += concat(" and ", found - kNamed, " more");
  return concat(path_of(number), ": bytes ", begin, " to ", end,
                " are not those that were written (xxh3); in them:", in.substr(in.empty() ? 0 : 1));
}

void CheckpointReader::Impl::read_block(std::size_t number, std::size_t block,
                                        std::span<std::byte> out) {
  const CheckpointFile& file = manifest.files[number];
  open(number).read_at(static_cast<std::int64_t>(block) * file.block_bytes, out);
  if (checkpoint::xxh3_of(out) != file.block_xxh3[block]) {
    throw CheckpointError(damage(number, block));
  }
}

void CheckpointReader::Impl::read_bytes(std::size_t number, std::int64_t offset,
                                        std::span<std::byte> out, std::span<std::byte> scratch) {
  const CheckpointFile& file = manifest.files[number];
  while (!out.empty()) {
    const std::int64_t block = offset / file.block_bytes;
    const std::int64_t block_begin = block * file.block_bytes;
    const auto block_size = to_size(std::min(file.block_bytes, file.bytes - block_begin));
    const std::size_t skip = to_size(offset - block_begin);
    const std::size_t part = std::min(block_size - skip, out.size());
    if (part == block_size) {  // all of it is wanted: no copy
      read_block(number, to_size(block), out.first(part));
    } else {
      const bool there = scratch_full && lent == scratch.data() && scratch_file == number &&
                         scratch_block == block;
      if (!there) {
        scratch_full = false;
        read_block(number, to_size(block), scratch.first(block_size));
        scratch_full = lent == scratch.data();
        scratch_file = number;
        scratch_block = block;
      }
      std::memcpy(out.data(), scratch.data() + skip, part);
    }
    out = out.subspan(part);
    offset += static_cast<std::int64_t>(part);
  }
}

CheckpointReader::CheckpointReader(FileSystem& files, const std::string& path)
    : impl_(std::make_unique<Impl>(files, path)) {}
void CheckpointReader::lend(std::span<std::byte> scratch) {
  impl_->lent = scratch.data();
  impl_->scratch_full = false;
}

CheckpointReader::~CheckpointReader() = default;
CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;

const CheckpointManifest& CheckpointReader::manifest() const { return impl_->manifest; }
const std::string& CheckpointReader::folder() const { return impl_->folder; }
const std::string& CheckpointReader::note() const { return impl_->note; }
std::int64_t CheckpointReader::scratch_bytes() const {
  return impl_->largest_block + static_cast<std::int64_t>(checkpoint::kCarryBytes);
}

std::vector<std::string> CheckpointReader::parts(StateKind kind, std::string_view param) const {
  std::vector<std::string> found;
  const std::string name(param);
  for (auto at = impl_->index.lower_bound({kind, name, ""});
       at != impl_->index.end() && std::get<0>(at->first) == kind && std::get<1>(at->first) == name;
       ++at) {
    found.push_back(std::get<2>(at->first));
  }
  return found;
}

DType CheckpointReader::dtype(StateKind kind, std::string_view param, std::string_view part) const {
  return impl_->tensor(kind, param, part).dtype;
}

void CheckpointReader::read(StateKind kind, std::string_view param, std::int64_t begin,
                            std::int64_t end, std::string_view part, std::span<std::byte> out,
                            std::span<std::byte> scratch) {
  const Tensor& tensor = impl_->tensor(kind, param, part);
  const auto element = static_cast<std::int64_t>(dtype_bytes(tensor.dtype));
  if (begin < 0 || begin > end || end > tensor.numel ||
      out.size() != to_size((end - begin) * element) || scratch.size() < to_size(scratch_bytes())) {
    throw UsageError(concat("CheckpointReader::read: elements ", begin, " to ", end, " of ", param,
                            ", which has ", tensor.numel, ", into ", out.size(), " bytes with ",
                            scratch.size(), " of scratch"));
  }
  // The first piece that ends behind `begin`.
  auto piece = std::upper_bound(tensor.pieces.begin(), tensor.pieces.end(), begin,
                                [](std::int64_t at, const Tensor::Piece& p) { return at < p.end; });
  for (; piece != tensor.pieces.end() && piece->begin < end; ++piece) {
    const std::int64_t from = std::max(begin, piece->begin);
    const std::int64_t to = std::min(end, piece->end);
    impl_->read_bytes(
        piece->file, piece->offset + (from - piece->begin) * element,
        out.subspan(to_size((from - begin) * element), to_size((to - from) * element)), scratch);
  }
}

}  // namespace zero
