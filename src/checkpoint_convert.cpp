// convert_checkpoint(): the same state, cut evenly for another number of ranks.
#include <algorithm>
#include <chrono>

#include "src/checkpoint_commit.hpp"
#include "src/checkpoint_folder.hpp"
#include "src/checkpoint_names.hpp"
#include "src/checkpoint_writer.hpp"
#include "zero/checkpoint_tools.hpp"
#include "zero/error.hpp"

namespace zero {

namespace {

constexpr std::int64_t kChunkElems = 1 << 18;

bool holds_gradients(const CheckpointManifest& manifest) {
  for (const CheckpointFile& file : manifest.files) {
    for (const CheckpointFile::Entry& entry : file.entries) {
      if (entry.range.kind == StateKind::kGradients) return true;
    }
  }
  return false;
}

// What rank `rank` gets of everything, wider dtypes first.
std::vector<StateRange> ranges_of(const CheckpointReader& from, int rank, int world_size) {
  const auto cut = [&](std::int64_t numel, int at) {  // numel * at / world_size, without overflow
    return numel / world_size * at + numel % world_size * at / world_size;
  };
  std::vector<StateRange> ranges;
  for (int k = 0; k < kStateKindCount; ++k) {
    const auto kind = static_cast<StateKind>(k);
    for (const CheckpointParam& param : from.manifest().params) {
      for (const std::string& part : from.parts(kind, param.name)) {
        const std::int64_t numel = param.numel();
        ranges.push_back({param.name, kind, cut(numel, rank), cut(numel, rank + 1),
                          from.dtype(kind, param.name, part), part});
      }
    }
  }
  std::erase_if(ranges, [](const StateRange& r) { return r.begin == r.end; });
  std::stable_sort(ranges.begin(), ranges.end(), [](const StateRange& a, const StateRange& b) {
    return dtype_bytes(a.dtype) > dtype_bytes(b.dtype);
  });
  return ranges;
}

CheckpointFile write_shard(FileSystem& files, CheckpointReader& from, const std::string& folder,
                           int rank, int world_size) {
  const std::vector<StateRange> ranges = ranges_of(from, rank, world_size);
  checkpoint::ShardWriter writer(files, folder, rank, world_size, ranges);
  std::vector<std::byte> chunk(static_cast<std::size_t>(kChunkElems) * sizeof(float));
  std::vector<std::byte> scratch(static_cast<std::size_t>(from.scratch_bytes()));
  for (const StateRange& range : ranges) {
    for (std::int64_t begin = range.begin; begin < range.end; begin += kChunkElems) {
      const std::int64_t end = std::min(begin + kChunkElems, range.end);
      const auto elements =
          std::span(chunk).first(static_cast<std::size_t>(end - begin) * dtype_bytes(range.dtype));
      from.read(range.kind, range.param, begin, end, range.part, elements, scratch);
      writer.append(elements);
    }
  }
  return writer.finish();
}

}  // namespace

std::string convert_checkpoint(FileSystem& files, CheckpointReader& from, const std::string& root,
                               int world_size) {
  CheckpointManifest manifest = from.manifest();
  if (world_size < 1) {
    throw UsageError(detail::concat("convert: world size ", world_size, ", valid: 1 or more"));
  }
  if (manifest.micro_step != 0 || holds_gradients(manifest)) {
    throw CheckpointError(detail::concat(
        from.folder(), " holds a step that is half done (", manifest.micro_step, " of ",
        manifest.accumulation_steps, " micro-steps): its sums belong to the ", manifest.world_size,
        " ranks that made them. It can be loaded at any world size, but not converted"));
  }
  manifest.files.clear();
  manifest.world_size = world_size;
  const std::string name = checkpoint::begin(files, root, manifest.step);
  try {
    const std::string folder = checkpoint::join(root, name);
    for (int rank = 0; rank < world_size; ++rank) {
      checkpoint::publish_record(files, folder, rank,
                                 write_shard(files, from, folder, rank, world_size));
    }
  } catch (const Error&) {
    checkpoint::abandon(files, root, name);
    throw;
  }
  // A newer one stays the one that a resume takes.
  const std::int64_t step = manifest.step;
  const std::optional<std::string> latest = checkpoint::read_latest(files, root);
  std::string path = checkpoint::commit(files, root, name, std::move(manifest),
                                        std::chrono::steady_clock::now(), 0);
  const auto named = latest ? checkpoint::parse_step_folder(*latest) : std::nullopt;
  if (named && named->step > step) checkpoint::write_latest(files, root, *latest);
  return path;
}

}  // namespace zero
