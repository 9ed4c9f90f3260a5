#include "src/checkpoint_index.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include "src/checkpoint_names.hpp"
#include "zero/error.hpp"

namespace zero::checkpoint {

namespace {

using detail::concat;

// A checksum says that a manifest is as it was written, not that what was written makes sense.
std::int64_t checked_numel(const CheckpointParam& param) {
  std::int64_t product = 1;
  for (const std::int64_t dimension : param.shape) {
    // In bytes it has to fit too.
    if (dimension < 0 || __builtin_mul_overflow(product, dimension, &product) ||
        product > std::int64_t{1} << 60) {
      throw CheckpointError("parameter " + param.name + " has a shape that no tensor has");
    }
  }
  return product;
}

void check_file(const CheckpointFile& file, const std::string& expected_name) {
  if (file.name != expected_name) {
    throw CheckpointError(
        concat("a file is named ", file.name, " where ", expected_name, " is expected"));
  }
  if (file.block_bytes < 1 || file.bytes < 0 ||
      static_cast<std::int64_t>(file.block_xxh3.size()) !=
          file.bytes / file.block_bytes + (file.bytes % file.block_bytes != 0 ? 1 : 0)) {
    throw CheckpointError(concat(file.name, ": ", file.block_xxh3.size(), " blocks of ",
                                 file.block_bytes, " bytes are not ", file.bytes, " bytes"));
  }
  std::int64_t at = file.entries.empty() ? file.bytes : file.entries.front().offset;
  for (const CheckpointFile::Entry& entry : file.entries) {
    if (entry.offset != at || entry.range.end - entry.range.begin > file.bytes) {
      throw CheckpointError(
          concat(file.name, ": ", to_string(entry.range), " is out of place in the file"));
    }
    at += entry.range.bytes();
  }
  if (at != file.bytes) {
    throw CheckpointError(concat(file.name, ": its tensors end at byte ", at, " of ", file.bytes));
  }
}

std::string name_of(const Index::key_type& key) {
  const auto& [kind, param, part] = key;
  return concat(state_kind_name(kind), "/", param, part.empty() ? "" : " (" + part + ")");
}

void check_covered(const CheckpointManifest& manifest, const Index::key_type& key, Tensor& tensor) {
  auto& pieces = tensor.pieces;
  std::sort(pieces.begin(), pieces.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  const auto missing = [&](std::int64_t begin, std::int64_t end) {
    throw CheckpointError(
        concat("elements ", begin, " to ", end, " of ", name_of(key), " are in no file"));
  };
  std::int64_t at = 0;
  for (const Tensor::Piece& piece : pieces) {
    if (piece.begin > at) missing(at, piece.begin);
    if (piece.begin < at) {
      throw CheckpointError(concat("elements ", piece.begin, " to ", std::min(at, piece.end),
                                   " of ", name_of(key), " are there twice, the second time in ",
                                   manifest.files[piece.file].name));
    }
    at = piece.end;
  }
  if (at < tensor.numel) missing(at, tensor.numel);
}

class Builder {
 public:
  explicit Builder(const CheckpointManifest& manifest) : manifest_(manifest) {}

  Index build() {
    for (const CheckpointParam& param : manifest_.params) add_param(param);
    for (std::size_t f = 0; f < manifest_.files.size(); ++f) {
      const CheckpointFile& file = manifest_.files[f];
      check_file(file, shard_file(static_cast<int>(f), static_cast<int>(manifest_.files.size())));
      for (const CheckpointFile::Entry& entry : file.entries) add_entry(entry, f);
    }
    for (auto& [key, tensor] : index_) check_covered(manifest_, key, tensor);
    return std::move(index_);
  }

 private:
  void add_param(const CheckpointParam& param) {
    const std::int64_t numel = checked_numel(param);
    if (!numel_.emplace(param.name, numel).second) {
      throw CheckpointError("two parameters are named " + param.name);
    }
    const auto expect = [&](StateKind kind, DType dtype) {
      index_[{kind, param.name, ""}] = {dtype, numel, {}};
    };
    if (!param.has_state) return expect(StateKind::kFrozen, param.dtype);
    expect(StateKind::kMasterWeights, DType::kFloat32);
    if (!manifest_.has_moments) return;
    expect(StateKind::kExpAvg, DType::kFloat32);
    expect(StateKind::kExpAvgSq, DType::kFloat32);
  }

  void add_entry(const CheckpointFile::Entry& entry, std::size_t f) {
    const StateRange& range = entry.range;
    const auto wrong = [&](const std::string& why) {
      throw CheckpointError(concat(manifest_.files[f].name, ": ", to_string(range), ": ", why));
    };
    const auto numel = numel_.find(range.param);
    if (numel == numel_.end()) wrong("there is no parameter of that name");
    if (range.begin < 0 || range.begin > range.end || range.end > numel->second) {
      wrong(concat("the parameter has ", numel->second, " elements"));
    }
    auto at = index_.find({range.kind, range.param, range.part});
    if (at == index_.end()) {
      if (range.kind != StateKind::kGradients) wrong("the parameter has no such state");
      at = index_
               .emplace(Index::key_type{range.kind, range.param, range.part},
                        Tensor{range.dtype, numel->second, {}})
               .first;
    }
    if (at->second.dtype != range.dtype) {
      wrong(concat("it is ", dtype_name(range.dtype), ", expected ", dtype_name(at->second.dtype)));
    }
    if (range.begin < range.end) {
      at->second.pieces.push_back({range.begin, range.end, f, entry.offset});
    }
  }

  const CheckpointManifest& manifest_;
  std::map<std::string, std::int64_t> numel_;
  Index index_;
};

}  // namespace

Index make_index(const CheckpointManifest& manifest, const std::string& where) {
  try {
    return Builder(manifest).build();
  } catch (const CheckpointError& error) {
    throw CheckpointError(concat(where, ": ", error.what()));
  }
}

}  // namespace zero::checkpoint
