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

}  // namespace

void consolidate_checkpoint(FileSystem& files, CheckpointReader& from, const std::string& path,
                            WeightsDtype dtype) {
  const std::size_t slash = path.rfind('/');
  const std::string parent =
      slash == std::string::npos ? "." : (slash == 0 ? "/" : path.substr(0, slash));
  const std::string temporary = checkpoint::join(
      parent, detail::concat(checkpoint::kTemporary, path.substr(slash + 1)));  // npos + 1 is 0
  if (files.exists(temporary)) files.remove(temporary);
  try {
    const auto file = files.create(temporary);
    write_weights(*file, from, dtype);
    file->sync();
    file->close();
    files.rename(temporary, path);
  } catch (const Error&) {
    try {
      if (files.exists(temporary)) files.remove(temporary);
    } catch (const Error&) {  // What went wrong first is told.
    }
    throw;
  }
  files.sync_folder(parent);
}

}  // namespace zero
