// Whatever happens to the bytes of a checkpoint is told by name, and never loaded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/checkpoint_fixtures.hpp"
#include "tests/faulty_file_system.hpp"
#include "tests/memory_file_system.hpp"

namespace zero::ckpt {
namespace {

using faults::MemoryFileSystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Sample small() {
  return {.params = {{"w", {5}, DType::kBFloat16, 0, true, true, 1},
                     {"mask", {3}, DType::kFloat16, 0, false, false, 0}},
          .world_size = 2};
}

// Everything that is not right with the checkpoint, as someone hears who loads all of it.
std::string loading(FileSystem& files, const Sample& sample, const std::string& folder) {
  return refusal([&] {
    CheckpointReader reader(files, folder);
    for (const StateRange& range : tensors_of(sample)) {
      if (read(reader, range) != bytes_of(range, sample.step)) {
        throw std::logic_error("loaded what was not written: " + to_string(range));
      }
    }
  });
}

std::string verifying(FileSystem& files, const std::string& folder) {
  return refusal([&] {
    CheckpointReader reader(files, folder);
    std::string all;
    for (const std::string& problem : verify(reader)) all += problem + "\n";
    if (!all.empty()) throw CheckpointError(all);
  });
}

// Does something to each file in turn; both ways of looking at it name the file.
void expect_named(const Sample& sample,
                  const std::function<void(std::vector<std::byte>&, std::size_t)>& damage) {
  MemoryFileSystem files;
  const std::string folder = save(files, "/run", sample);
  for (const std::string& name : files.list(folder)) {
    std::vector<std::byte>& bytes = files.bytes(folder + "/" + name);
    const std::vector<std::byte> whole = bytes;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      damage(bytes, i);
      ASSERT_THAT(verifying(files, folder), HasSubstr(name)) << "byte " << i;
      ASSERT_THAT(loading(files, sample, folder), HasSubstr(name)) << "byte " << i;
      bytes = whole;
    }
  }
  EXPECT_EQ(verifying(files, folder), "");
  EXPECT_EQ(loading(files, sample, folder), "");
}

TEST(CheckpointDamage, EveryFlippedByte) {
  expect_named(small(), [](std::vector<std::byte>& bytes, std::size_t i) {
    bytes[i] ^= std::byte(1u << i % 8);
  });
}

TEST(CheckpointDamage, EveryTruncation) {
  expect_named(small(), [](std::vector<std::byte>& bytes, std::size_t i) { bytes.resize(i); });
}

TEST(CheckpointDamage, AnAppendedByte) {
  MemoryFileSystem files;
  const std::string folder = save(files, "/run", small());
  for (const std::string& name : files.list(folder)) {
    for (const char extra : {'\0', '\n', ' '}) {
      files.bytes(folder + "/" + name).push_back(std::byte(extra));
      EXPECT_THAT(loading(files, small(), folder), HasSubstr(name));
      files.bytes(folder + "/" + name).pop_back();
    }
  }
}

TEST(CheckpointDamage, AMissingFile) {
  for (const char* name :
       {"manifest.json", "rank-00000-of-00002.safetensors", "rank-00001-of-00002.safetensors"}) {
    MemoryFileSystem files;
    const std::string folder = save(files, "/run", small());
    files.remove(folder + "/" + name);
    EXPECT_THAT(loading(files, small(), folder), AllOf(HasSubstr(name), HasSubstr("missing")));
    EXPECT_THAT(loading(files, small(), "/run"), HasSubstr(name));
  }
  // Both are named at once.
  MemoryFileSystem files;
  const std::string folder = save(files, "/run", small());
  for (const int rank : {0, 1}) files.remove(folder + "/" + checkpoint::shard_file(rank, 2));
  EXPECT_THAT(loading(files, small(), folder),
              AllOf(HasSubstr("rank-00000-of-00002"), HasSubstr("rank-00001-of-00002")));
}

TEST(CheckpointDamage, ExchangedFiles) {
  // Shards of two ranks, as long as each other.
  const Sample even{.params = {{"w", {4}, DType::kFloat32, 0, true, true, 1}}, .world_size = 2};
  MemoryFileSystem files;
  const std::string name = checkpoint::begin(files, "/run", 1);
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<StateRange> ranges = tensors_of(even);
    for (StateRange& range : ranges) {
      range.begin = 2 * rank;
      range.end = 2 * rank + 2;
    }
    checkpoint::ShardWriter writer(files, "/run/" + name, rank, 2, ranges);
    for (const StateRange& range : ranges) writer.append(bytes_of(range, 1));
    checkpoint::publish_record(files, "/run/" + name, rank, writer.finish());
  }
  const std::string folder = checkpoint::commit(files, "/run", name, manifest_of(even),
                                                std::chrono::steady_clock::now(), 0);
  const auto shard = [&](const std::string& in, int rank) -> std::vector<std::byte>& {
    return files.bytes(in + "/" + checkpoint::shard_file(rank, 2));
  };
  EXPECT_EQ(loading(files, even, folder), "");
  std::swap(shard(folder, 0), shard(folder, 1));
  EXPECT_THAT(loading(files, even, folder), HasSubstr("rank-00000-of-00002.safetensors is not"));
  EXPECT_THAT(verifying(files, folder), AllOf(HasSubstr("rank-00000-of-00002.safetensors is not"),
                                              HasSubstr("rank-00001-of-00002.safetensors is not")));
  std::swap(shard(folder, 0), shard(folder, 1));

  // The same shard, the same manifest of another step: header and size agree, values do not.
  const std::string first = save(files, "/two", small());
  Sample later = small();
  later.step = 2;
  const std::string second = save(files, "/two", later);
  std::swap(shard(first, 1), shard(second, 1));
  EXPECT_THAT(loading(files, later, second),
              AllOf(HasSubstr("rank-00001-of-00002.safetensors: bytes"),
                    HasSubstr("master_weights/w[1:5]")));
  std::swap(shard(first, 1), shard(second, 1));
  std::swap(files.bytes(first + "/manifest.json"), files.bytes(second + "/manifest.json"));
  EXPECT_THAT(loading(files, later, second), HasSubstr("rank-00000-of-00002.safetensors: bytes"));
}

// Only what is read is looked at: a rank does not read what it does not need.
TEST(CheckpointDamage, OnlyTheBlocksThatAreReadAreVerified) {
  MemoryFileSystem files;
  Sample sample{.params = {{"w", {64}, DType::kFloat32, 0, true, true, 1}}, .world_size = 1};
  sample.block_bytes = 64;
  const std::string folder = save(files, "/run", sample);
  CheckpointReader reader(files, folder);
  EXPECT_EQ(reader.scratch_bytes(), 64 + 8);
  std::vector<std::byte>& bytes = files.bytes(folder + "/" + checkpoint::shard_file(0, 1));
  bytes[bytes.size() - 128] ^= std::byte{1};  // element 32 of exp_avg_sq
  const auto reading = [&](std::int64_t begin, std::int64_t end) {
    return refusal([&] {
      read(reader, {"w", StateKind::kExpAvgSq, begin, end, DType::kFloat32, ""});
    });
  };
  EXPECT_EQ(reading(0, 32), "");
  EXPECT_EQ(reading(48, 64), "");
  EXPECT_THAT(reading(0, 33), HasSubstr("exp_avg_sq/w[0:64]"));
  EXPECT_THAT(reading(32, 48), HasSubstr("exp_avg_sq/w[0:64]"));
  EXPECT_THAT(reading(47, 50), HasSubstr("exp_avg_sq/w[0:64]"));
}

TEST(CheckpointDamage, CallsThatAskForWhatIsNotThere) {
  MemoryFileSystem files;
  CheckpointReader reader(files, save(files, "/run", small()));
  EXPECT_THAT(refusal([&] { reader.dtype(StateKind::kExpAvg, "mask"); }),
              HasSubstr("/run/step-00000001 holds no exp_avg of mask"));
  EXPECT_THAT(refusal([&] { reader.dtype(StateKind::kGradients, "w", "rank 1"); }),
              HasSubstr("holds no gradients of w (rank 1)"));
  EXPECT_THROW(read(reader, {"w", StateKind::kExpAvg, 0, 6, DType::kFloat32, ""}), UsageError);
  EXPECT_THROW(read(reader, {"w", StateKind::kExpAvg, -1, 1, DType::kFloat32, ""}), UsageError);
  EXPECT_THROW(read(reader, {"w", StateKind::kExpAvg, 0, 2, DType::kBFloat16, ""}), UsageError);
  EXPECT_THROW(reader.verify({}), UsageError);
}

// A value that is not finite, as training that went wrong would leave it: checksums are right.
TEST(CheckpointDamage, ValuesThatAreNotFinite) {
  // Blocks that cut elements in two: fp16 in front puts fp32 at odd places.
  for (const std::int64_t block_bytes :
       {std::int64_t{1}, std::int64_t{3}, std::int64_t{30}, checkpoint::kBlockBytes}) {
    for (std::int64_t bad = 0; bad < 9; ++bad) {
      MemoryFileSystem files;
      Sample sample{.params = {{"mask", {3}, DType::kFloat16, 0, false, false, 0},
                               {"w", {9}, DType::kFloat32, 0, true, true, 1}},
                    .world_size = 1,
                    .has_moments = false,
                    .half_done = true};
      const std::string name = checkpoint::begin(files, "/run", 1);
      checkpoint::ShardWriter writer(files, "/run/" + name, 0, 1, tensors_of(sample), block_bytes);
      for (const StateRange& range : tensors_of(sample)) {
        std::vector<std::byte> bytes = bytes_of(range, 1);
        const float inf = -std::numeric_limits<float>::infinity();
        if (range.dtype == DType::kFloat32 && range.kind == StateKind::kMasterWeights) {
          std::memcpy(bytes.data() + 4 * bad, &inf, 4);
        }
        if (range.kind == StateKind::kFrozen && bad == 1) bytes[3] = std::byte{0x7e};  // NaN
        if (range.kind == StateKind::kGradients) std::memcpy(bytes.data(), &inf, 4);   // may be
        writer.append(bytes);
      }
      checkpoint::publish_record(files, "/run/" + name, 0, writer.finish());
      CheckpointReader reader(files, checkpoint::commit(files, "/run", name, manifest_of(sample),
                                                        std::chrono::steady_clock::now(), 0));
      const std::string of_w = detail::concat(
          "/run/step-00000001/rank-00000-of-00001.safetensors: master_weights/"
          "w[0:9]: 1 value is not finite: element ",
          bad, " is -inf");
      if (bad == 1) {
        EXPECT_THAT(verify(reader), ElementsAre(HasSubstr("frozen/mask[0:3]: 1 value is not "
                                                          "finite: element 1 is nan"),
                                                of_w));
      } else {
        EXPECT_THAT(verify(reader), ElementsAre(of_w)) << "blocks of " << block_bytes;
      }
    }
  }
}

// A disk that fails once, at any call of someone who loads or verifies.
TEST(CheckpointDamage, AnyReadMayFail) {
  MemoryFileSystem disk;
  faults::FaultyFileSystem files(disk);
  const std::string folder = save(files, "/run", small());
  for (const bool loads : {true, false}) {
    for (int k = 0;; ++k) {
      files.arm(faults::FaultyFileSystem::Fault::kError, k);
      const std::string error = loads ? loading(files, small(), folder) : verifying(files, folder);
      if (files.calls() <= k) {
        EXPECT_EQ(error, "");
        EXPECT_GT(k, 10);
        break;
      }
      EXPECT_THAT(error, HasSubstr("cannot " + files.failed() + ": Input/output error"));
    }
  }
}

TEST(CheckpointDamage, AllThatIsWrongIsTold) {
  MemoryFileSystem files;
  Sample sample{.params = {{"w", {40}, DType::kFloat32, 0, true, true, 1}}};
  sample.block_bytes = 32;
  const std::string folder = save(files, "/run", sample);
  CheckpointReader reader(files, folder);
  for (const int rank : {0, 1}) {
    std::vector<std::byte>& bytes = files.bytes(folder + "/" + checkpoint::shard_file(rank, 2));
    bytes.back() ^= std::byte{1};
    bytes[bytes.size() - 34] ^= std::byte{1};
  }
  EXPECT_EQ(verify(reader).size(), 4u);
}

}  // namespace
}  // namespace zero::ckpt
