// consolidate_checkpoint(): whole tensors in one safetensors file.
#include <algorithm>
#include <cstring>
#include <map>
#include <span>

#include "src/checkpoint_names.hpp"
#include "src/checkpoint_safetensors.hpp"
#include "zero/checkpoint_tools.hpp"
#include "zero/error.hpp"

namespace zero {

namespace {

constexpr std::int64_t kChunkElems = 1 << 18;

struct Export {
  const CheckpointParam* param;
  StateKind kind;
  DType dtype;  // as written
};

// Wider dtypes first, so that every tensor is aligned to its elements.
std::vector<Export> exports_of(const CheckpointManifest& manifest, WeightsDtype weights) {
  std::vector<Export> exports;
  for (const CheckpointParam& param : manifest.params) {
    const bool master = param.has_state && weights == WeightsDtype::kMaster;
    exports.push_back({&param, param.has_state ? StateKind::kMasterWeights : StateKind::kFrozen,
                       master ? DType::kFloat32 : param.dtype});
  }
  std::stable_sort(exports.begin(), exports.end(), [](const Export& a, const Export& b) {
    return dtype_bytes(a.dtype) > dtype_bytes(b.dtype);
  });
  return exports;
}

// fp32 elements, each rounded to `to`, in the place where they are.
std::span<const std::byte> rounded(std::span<std::byte> elements, DType to) {
  const std::size_t count = elements.size() / sizeof(float);
  with_dtype(to, [&](auto tag) {
    using T = decltype(tag);
    for (std::size_t i = 0; i < count; ++i) {
      float value;
      std::memcpy(&value, elements.data() + i * sizeof value, sizeof value);
      const T narrow = from_float<T>(value);
      std::memcpy(elements.data() + i * sizeof narrow, &narrow, sizeof narrow);
    }
  });
  return elements.first(count * dtype_bytes(to));
}

void write_weights(WritableFile& file, CheckpointReader& from, WeightsDtype weights) {
  const std::vector<Export> exports = exports_of(from.manifest(), weights);
  std::vector<checkpoint::SafeTensor> tensors;
  for (const Export& e : exports) tensors.push_back({e.param->name, e.dtype, e.param->shape});
  // "pt" is what the Python side asks for before it reads a file.
  const std::string header = checkpoint::safetensors_header(
      tensors, {{"format", "pt"}, {"step", std::to_string(from.manifest().step)}});
  file.write(std::as_bytes(std::span(header)));

  std::vector<std::byte> chunk(static_cast<std::size_t>(kChunkElems) * sizeof(float));
  std::vector<std::byte> scratch(static_cast<std::size_t>(from.scratch_bytes()));
  for (const Export& e : exports) {
    const std::int64_t numel = e.param->numel();
    const DType stored = from.dtype(e.kind, e.param->name);
    for (std::int64_t begin = 0; begin < numel; begin += kChunkElems) {
      const std::int64_t end = std::min(begin + kChunkElems, numel);
      const auto elements =
          std::span(chunk).first(static_cast<std::size_t>(end - begin) * dtype_bytes(stored));
      from.read(e.kind, e.param->name, begin, end, "", elements, scratch);
      file.write(stored == e.dtype ? elements : rounded(elements, e.dtype));
    }
  }
}

struct Target {
  std::string parent, name;
};
Target cut(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

// Of a path without links: the checkpoint that it lies in, or empty. `source` is one, whatever its
// name; of the others those that are named so, and those whose manifest would be beside the file.
std::string checkpoint_around(FileSystem& files, const std::string& path,
                              const std::string& source) {
  Target at = cut(path);
  if (files.exists(checkpoint::join(at.parent, checkpoint::kManifest))) return at.parent;
  while (at.parent != "/" && at.parent != ".") {
    const std::string folder = at.parent;
    at = cut(folder);
    if (folder == source || checkpoint::parse_step_folder(at.name)) return folder;
  }
  return "";
}

// Where the file is to be, links followed. Throws unless it is new or takes the place of a plain
// file, and of none that a checkpoint needs.
Target target_of(FileSystem& files, const std::string& path, const std::string& source) {
  const auto refuse = [&](const std::string& why) {
    throw CheckpointError(detail::concat("cannot write weights to ", path, ": ", why));
  };
  if (cut(path).name.empty()) refuse("it names no file");
  const FileKind kind = files.kind(path);
  if (kind != FileKind::kMissing && kind != FileKind::kFile) refuse("it is no plain file");
  const std::string resolved = files.resolve(path);
  const Target target = cut(resolved);
  const std::string around = checkpoint_around(files, resolved, files.resolve(source));
  if (!around.empty()) refuse("it is inside of the checkpoint " + around);
  if (target.name == checkpoint::kLatest && !list_checkpoints(files, target.parent).empty()) {
    refuse(
        detail::concat("this is where it says which checkpoint is the newest in ", target.parent));
  }
  return target;
}

// A name beside the target that is free.
std::string temporary_for(FileSystem& files, const Target& target) {
  for (int i = 0;; ++i) {
    const std::string path = checkpoint::join(
        target.parent, detail::concat(checkpoint::kTemporary, target.name, "-", i));
    if (!files.exists(path)) return path;
  }
}

}  // namespace

void consolidate_checkpoint(FileSystem& files, CheckpointReader& from, const std::string& path,
                            WeightsDtype dtype) {
  const Target target = target_of(files, path, from.folder());
  const std::string temporary = temporary_for(files, target);
  const auto file = files.create(temporary);  // of someone who was faster nothing is removed
  try {
    write_weights(*file, from, dtype);
    file->sync();
    file->close();
    files.rename(temporary, checkpoint::join(target.parent, target.name));
  } catch (const Error&) {
    try {
      if (files.exists(temporary)) files.remove(temporary);
    } catch (const Error&) {  // What went wrong first is told.
    }
    throw;
  }
  files.sync_folder(target.parent);
}

}  // namespace zero
