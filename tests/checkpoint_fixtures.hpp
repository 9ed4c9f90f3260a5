// A small model's state as ranks would save it, value by value from a formula, so that what a
// reader gives can be told without reading.
#pragma once

#include <chrono>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "src/checkpoint_commit.hpp"
#include "src/checkpoint_names.hpp"
#include "src/checkpoint_writer.hpp"
#include "zero/checkpoint.hpp"
#include "zero/error.hpp"

namespace zero::ckpt {

struct Sample {
  std::vector<CheckpointParam> params;
  int world_size = 2;
  std::int64_t step = 1;
  bool has_moments = true;
  bool half_done = false;  // with gradients of rank 0 and of the others
  std::int64_t block_bytes = checkpoint::kBlockBytes;
  int keep = 0;
};

inline std::vector<CheckpointParam> awkward_params() {
  return {{"w", {3, 5}, DType::kBFloat16, 0, true, true, 3},
          {"nothing", {0, 4}, DType::kFloat32, 0, true, true, 3},
          {"scalar \"s\"", {}, DType::kFloat32, 1, true, true, 2},
          {"mask", {7}, DType::kFloat16, 0, false, false, 0},
          {"late", {1}, DType::kFloat16, 0, true, false, 0}};
}

// Element i of a tensor at a step: small integers, exact in every dtype.
inline float value_of(StateKind kind, const std::string& param, const std::string& part,
                      std::int64_t i, std::int64_t step) {
  std::size_t salt = static_cast<std::size_t>(kind) * 17 + static_cast<std::size_t>(step) * 5;
  for (const char c : param + part) salt = salt * 31 + static_cast<unsigned char>(c);
  return static_cast<float>((salt + static_cast<std::size_t>(i) * 7) % 251) - 125.0f;
}

inline std::vector<std::byte> bytes_of(const StateRange& range, std::int64_t step) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(range.bytes()));
  with_dtype(range.dtype, [&](auto tag) {
    using T = decltype(tag);
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const T x = from_float<T>(value_of(range.kind, range.param, range.part, i, step));
      std::memcpy(bytes.data() + static_cast<std::size_t>(i - range.begin) * sizeof x, &x,
                  sizeof x);
    }
  });
  return bytes;
}

// Everything a sample holds, whole.
inline std::vector<StateRange> tensors_of(const Sample& sample) {
  std::vector<StateRange> all;
  for (const CheckpointParam& p : sample.params) {
    const std::int64_t n = p.numel();
    if (!p.has_state) {
      all.push_back({p.name, StateKind::kFrozen, 0, n, p.dtype, ""});
      continue;
    }
    all.push_back({p.name, StateKind::kMasterWeights, 0, n, DType::kFloat32, ""});
    if (sample.has_moments) {
      all.push_back({p.name, StateKind::kExpAvg, 0, n, DType::kFloat32, ""});
      all.push_back({p.name, StateKind::kExpAvgSq, 0, n, DType::kFloat32, ""});
    }
    if (sample.half_done) {
      all.push_back({p.name, StateKind::kGradients, 0, n, p.dtype, "rank 0"});
      all.push_back({p.name, StateKind::kGradients, 0, n, DType::kFloat32, "level 1"});
    }
  }
  return all;
}

// What rank r holds of it: unequal parts, some of them empty.
inline std::vector<StateRange> shard_of(const Sample& sample, int rank) {
  std::vector<StateRange> shard = tensors_of(sample);
  for (StateRange& range : shard) {
    const auto cut = [&](std::int64_t r) {
      return range.end * r * r / (std::int64_t{sample.world_size} * sample.world_size);
    };
    const std::int64_t begin = cut(rank), end = cut(rank + 1);
    range.begin = begin;
    range.end = end;
  }
  return shard;
}

inline CheckpointManifest manifest_of(const Sample& sample) {
  CheckpointManifest m;
  m.version = "0.1.0";
  m.step = sample.step;
  m.world_size = sample.world_size;
  m.stage = 2;
  m.has_moments = sample.has_moments;
  m.params = sample.params;
  m.groups = {{1e-3, 0.9, 0.999, 1e-8, 0.1}, {0.1 + 0.2, 0.5, 1.0 / 3, 5e-324, 0.0}};
  m.config = R"({"train_batch_size":4,"optimizer":{"params":{"lr":0.001}}})";
  m.applied_steps = sample.step;
  m.skipped_steps = 2;
  m.micro_step = sample.half_done ? 1 : 0;
  m.accumulation_steps = 4;
  m.scaler = {true, 65536.0, 12, 5, 2};
  m.scheduler = "WarmupLR";
  m.scheduler_position = sample.step - 1;
  m.user_data = R"({"position":9007199254740993})";
  return m;
}

// Writes the file of one rank and publishes it. What goes wrong is published too, as far as that
// can be done, and returned.
inline std::string save_rank(FileSystem& files, const std::string& folder, const Sample& sample,
                             int rank) {
  try {
    const std::vector<StateRange> shard = shard_of(sample, rank);
    checkpoint::ShardWriter writer(files, folder, rank, sample.world_size, shard,
                                   sample.block_bytes);
    std::vector<std::byte> all;
    for (const StateRange& range : shard) {
      const auto bytes = bytes_of(range, sample.step);
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    // Cut anywhere.
    std::span<const std::byte> rest = all;
    for (std::size_t part = 1; !rest.empty(); part = part * 3 % 1000 + 1) {
      writer.append(rest.first(std::min(part, rest.size())));
      rest = rest.subspan(std::min(part, rest.size()));
    }
    checkpoint::publish_record(files, folder, rank, writer.finish());
    return "";
  } catch (const Error& error) {
    try {
      checkpoint::publish_failure(files, folder, rank, error.what());
    } catch (const Error&) {  // Then the deadline tells.
    }
    return error.what();
  }
}

// A save as all ranks make it, one after the other. Throws what any of them has to say.
inline std::string save(FileSystem& files, const std::string& root, const Sample& sample) {
  const std::string name = checkpoint::begin(files, root, sample.step);
  std::string errors;
  for (int rank = 0; rank < sample.world_size; ++rank) {
    errors += save_rank(files, checkpoint::join(root, name), sample, rank);
  }
  try {
    return checkpoint::commit(files, root, name, manifest_of(sample),
                              std::chrono::steady_clock::now(), sample.keep);
  } catch (const CheckpointError& error) {
    throw CheckpointError(error.what() + (errors.empty() ? "" : "; " + errors));
  }
}

// Saves a sample with another manifest.
inline std::string save_as(FileSystem& files, const std::string& root, const Sample& sample,
                           const CheckpointManifest& manifest) {
  const std::string name = checkpoint::begin(files, root, sample.step);
  for (int rank = 0; rank < sample.world_size; ++rank) {
    save_rank(files, root + "/" + name, sample, rank);
  }
  return checkpoint::commit(files, root, name, manifest, std::chrono::steady_clock::now(), 0);
}

inline std::vector<std::byte> read(CheckpointReader& reader, const StateRange& range) {
  std::vector<std::byte> out(static_cast<std::size_t>(range.bytes()));
  std::vector<std::byte> scratch(static_cast<std::size_t>(reader.scratch_bytes()));
  reader.read(range.kind, range.param, range.begin, range.end, range.part, out, scratch);
  return out;
}

inline std::vector<std::string> verify(CheckpointReader& reader) {
  std::vector<std::byte> scratch(static_cast<std::size_t>(reader.scratch_bytes()));
  return reader.verify(scratch);
}

// The message with which something is refused; empty if it is not.
template <class Body>
std::string refusal(Body body) {
  try {
    body();
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "";
}

}  // namespace zero::ckpt
