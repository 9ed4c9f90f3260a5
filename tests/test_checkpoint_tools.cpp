// Checkpoints in other forms: one file of weights, another number of shards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/checkpoint_fixtures.hpp"
#include "tests/faulty_file_system.hpp"
#include "tests/memory_file_system.hpp"
#include "zero/checkpoint_tools.hpp"

namespace zero::ckpt {
namespace {

using faults::FaultyFileSystem;
using faults::MemoryFileSystem;
using Fault = FaultyFileSystem::Fault;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Weights {
  nlohmann::json header;
  std::string data;

  explicit Weights(const std::vector<std::byte>& bytes) {
    const std::string file(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    header = nlohmann::json::parse(file.substr(8, length));
    data = file.substr(8 + length);
  }
  template <class T>
  std::vector<T> values(const std::string& name) const {
    const auto& offsets = header.at(name)["data_offsets"];
    std::vector<T> out((offsets[1].get<std::size_t>() - offsets[0].get<std::size_t>()) / sizeof(T));
    if (out.empty()) return out;
    std::memcpy(out.data(), data.data() + offsets[0].get<std::size_t>(), out.size() * sizeof(T));
    return out;
  }
};

TEST(CheckpointTools, WeightsInOneFile) {
  MemoryFileSystem files;
  const Sample sample{.params = awkward_params(), .world_size = 3, .half_done = true};
  CheckpointReader reader(files, save(files, "/run", sample));
  for (const bool master : {true, false}) {
    // The second time in the place of the first.
    consolidate_checkpoint(files, reader, "/model.safetensors",
                           master ? WeightsDtype::kMaster : WeightsDtype::kWorking);
    const Weights weights(read_file(files, "/model.safetensors"));
    EXPECT_EQ(weights.header.size(), sample.params.size() + 1);
    EXPECT_EQ(weights.header["__metadata__"]["format"], "pt");
    std::size_t bytes = 0;
    for (const CheckpointParam& p : sample.params) {
      const DType dtype = master && p.has_state ? DType::kFloat32 : p.dtype;
      const std::map<DType, std::string> names = {
          {DType::kFloat32, "F32"}, {DType::kFloat16, "F16"}, {DType::kBFloat16, "BF16"}};
      EXPECT_EQ(weights.header.at(p.name)["dtype"], names.at(dtype));
      EXPECT_EQ(weights.header.at(p.name)["shape"], nlohmann::json(p.shape));
      // Aligned to its elements, which a reader that maps the file needs.
      EXPECT_EQ(
          weights.header.at(p.name)["data_offsets"][0].get<std::size_t>() % dtype_bytes(dtype), 0u);
      with_dtype(dtype, [&](auto tag) {
        using T = decltype(tag);
        const std::vector<T> values = weights.values<T>(p.name);
        ASSERT_EQ(values.size(), static_cast<std::size_t>(p.numel()));
        bytes += values.size() * sizeof(T);
        for (std::size_t i = 0; i < values.size(); ++i) {
          EXPECT_EQ(to_float(values[i]),
                    value_of(p.has_state ? StateKind::kMasterWeights : StateKind::kFrozen, p.name,
                             "", static_cast<std::int64_t>(i), sample.step));
        }
      });
    }
    EXPECT_EQ(bytes, weights.data.size());
  }
  EXPECT_THAT(files.list("/"), ElementsAre("model.safetensors", "run"));
}

TEST(CheckpointTools, WorkingWeightsAreRoundedToEven) {
  MemoryFileSystem files;
  const std::string name = checkpoint::begin(files, "/run", 1);
  const Sample sample{.params = {{"w", {3}, DType::kBFloat16, 0, true, true, 1}},
                      .world_size = 1,
                      .has_moments = false};
  // Half-way between two bf16 (spacing 2^-7 at 1): to the even one, down and up; and just above.
  const float masters[3] = {1 + 0x1p-8f, 1 + 3 * 0x1p-8f, 1 + 0x1p-8f + 0x1p-20f};
  checkpoint::ShardWriter writer(files, "/run/" + name, 0, 1, tensors_of(sample));
  writer.append(std::as_bytes(std::span(masters)));
  checkpoint::publish_record(files, "/run/" + name, 0, writer.finish());
  CheckpointReader reader(files, checkpoint::commit(files, "/run", name, manifest_of(sample),
                                                    std::chrono::steady_clock::now(), 0));
  consolidate_checkpoint(files, reader, "/w", WeightsDtype::kWorking);
  const auto values = Weights(read_file(files, "/w")).values<bf16>("w");
  ASSERT_EQ(values.size(), 3u);
  EXPECT_EQ(to_float(values[0]), 1.0f);
  EXPECT_EQ(to_float(values[1]), 1 + 0x1p-6f);
  EXPECT_EQ(to_float(values[2]), 1 + 0x1p-7f);
}

// Larger than a chunk and than a block.
TEST(CheckpointTools, LargeTensorsGoThroughInParts) {
  MemoryFileSystem files;
  const Sample sample{.params = {{"w", {3, 200001}, DType::kFloat16, 0, true, true, 1}},
                      .world_size = 2,
                      .has_moments = false};
  CheckpointReader reader(files, save(files, "/run", sample));
  EXPECT_EQ(reader.scratch_bytes(), (1 << 20) + 8);
  consolidate_checkpoint(files, reader, "/w", WeightsDtype::kWorking);
  const auto values = Weights(read_file(files, "/w")).values<fp16>("w");
  ASSERT_EQ(values.size(), 600003u);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(to_float(values[i]),
              value_of(StateKind::kMasterWeights, "w", "", static_cast<std::int64_t>(i), 1));
  }
  CheckpointReader converted(files, convert_checkpoint(files, reader, "/other", 5));
  EXPECT_THAT(verify(converted), IsEmpty());
  const StateRange all = tensors_of(sample).front();
  EXPECT_EQ(read(converted, all), bytes_of(all, 1));
}

// Where a run saves, a resume goes on from the newest all the same.
TEST(CheckpointTools, ConvertingAnOlderOneLeavesLatestAsItIs) {
  MemoryFileSystem files;
  const std::string older = save(files, "/run", {.params = awkward_params(), .step = 2});
  save(files, "/run", {.params = awkward_params(), .step = 4});
  CheckpointReader reader(files, older);
  convert_checkpoint(files, reader, "/run", 3);
  EXPECT_EQ(find_checkpoint(files, "/run").folder, "/run/step-00000004");
  EXPECT_EQ(find_checkpoint(files, "/run").note, "");
}

TEST(CheckpointTools, WhatIsWrittenInTheMeantimeHasANameThatNobodyHas) {
  MemoryFileSystem files;
  CheckpointReader reader(files, save(files, "/run", {.params = awkward_params()}));
  for (const char* name : {"/.tmp-w", "/.tmp-w-0", "/.tmp-w-2"}) files.create(name);
  for (const char* name : {"/.tmp-w", "/.tmp-w-0", "/.tmp-w-2"}) files.bytes(name).resize(3);
  consolidate_checkpoint(files, reader, "/w", WeightsDtype::kMaster);
  EXPECT_THAT(files.list("/"), ElementsAre(".tmp-w", ".tmp-w-0", ".tmp-w-2", "run", "w"));
  for (const char* name : {"/.tmp-w", "/.tmp-w-0", "/.tmp-w-2"}) {
    EXPECT_EQ(files.bytes(name).size(), 3u);
  }
}

TEST(CheckpointTools, WeightsTakeThePlaceOfNothingButAFileOutsideOfCheckpoints) {
  MemoryFileSystem files;
  const Sample sample{.params = awkward_params()};
  CheckpointReader reader(files, save(files, "/run", sample));
  save(files, "/other", sample);
  files.rename("/other/step-00000001", "/other/best");
  files.create_folders("/run/step-00000001/below");
  files.create_folders("/other/step-00000007/below");  // named as one, whatever is in it
  const auto refused = [&](const std::string& path) {
    return refusal([&] { consolidate_checkpoint(files, reader, path, WeightsDtype::kMaster); });
  };
  for (const char* path : {"/run/step-00000001/new", "/run/step-00000001/manifest.json",
                           "/other/best/new", "/run/step-00000001/below/new",
                           "/other/step-00000007/new", "/other/step-00000007/below/new"}) {
    EXPECT_THAT(refused(path), AllOf(HasSubstr(path), HasSubstr("inside of the checkpoint")));
  }
  EXPECT_THAT(refused("/run/latest"), AllOf(HasSubstr("/run/latest"), HasSubstr("newest")));
  EXPECT_THAT(refused("/run"), HasSubstr("/run: it is no plain file"));
  EXPECT_THAT(refused("/new/"), HasSubstr("names no file"));
  EXPECT_THAT(refused(""), HasSubstr("names no file"));
  EXPECT_THAT(verify(reader), IsEmpty());
  EXPECT_EQ(find_checkpoint(files, "/run").note, "");
  // Names that are of no account elsewhere.
  for (const char* path : {"/latest", "/manifest", "/run/w", "/manifest.json"}) {
    EXPECT_EQ(refused(path), "") << path;
  }
}

TEST(CheckpointTools, ANameThatTheFormatKeepsForItselfIsTold) {
  MemoryFileSystem files;
  Sample sample{.params = awkward_params()};
  sample.params[1].name = "__metadata__";
  CheckpointReader reader(files, save(files, "/run", sample));
  EXPECT_THAT(verify(reader), IsEmpty());
  EXPECT_THAT(
      refusal([&] { consolidate_checkpoint(files, reader, "/w", WeightsDtype::kMaster); }),
      AllOf(HasSubstr("__metadata__"), HasSubstr("safetensors keeps that name for itself")));
}

TEST(CheckpointTools, AFileThatCannotBeWrittenIsNotThere) {
  MemoryFileSystem disk;
  FaultyFileSystem files(disk);
  const Sample sample{.params = awkward_params()};
  CheckpointReader reader(files, save(files, "/run", sample));
  write_file(disk, "/model", std::as_bytes(std::span("old", 3)));
  for (const Fault fault : {Fault::kError, Fault::kNoSpace}) {
    for (int k = 0;; ++k) {
      files.arm(fault, k);
      const std::string error =
          refusal([&] { consolidate_checkpoint(files, reader, "/model", WeightsDtype::kMaster); });
      const bool done = files.calls() <= k;
      const bool renamed = read_file(disk, "/model").size() > 3;
      files.arm(Fault::kNone, 0);
      if (fault == Fault::kError) {
        EXPECT_EQ(error.empty(), done) << error;
      }
      EXPECT_THAT(disk.list("/"), ElementsAre("model", "run")) << files.failed();
      EXPECT_TRUE(renamed || !error.empty());
      if (renamed) disk.bytes("/model").resize(3);
      if (done) break;
      ASSERT_LT(k, 1000);
    }
  }
}

TEST(CheckpointTools, CutForAnyNumberOfRanks) {
  const Sample sample{.params = awkward_params(), .world_size = 3};
  MemoryFileSystem files;
  CheckpointReader reader(files, save(files, "/run", sample));
  for (const int world_size : {1, 2, 3, 5, 8, 40}) {
    const std::string root = "/out" + std::to_string(world_size);
    CheckpointReader converted(files, convert_checkpoint(files, reader, root, world_size));
    EXPECT_EQ(converted.folder(), root + "/step-00000001");
    EXPECT_EQ(converted.manifest().files.size(), static_cast<std::size_t>(world_size));
    CheckpointManifest expected = reader.manifest(), got = converted.manifest();
    expected.world_size = world_size;
    expected.files.clear();
    got.files.clear();
    EXPECT_EQ(got, expected);
    EXPECT_THAT(verify(converted), IsEmpty());
    for (const StateRange& range : tensors_of(sample)) {
      EXPECT_EQ(read(converted, range), bytes_of(range, 1)) << to_string(range);
    }
    // No rank has more than its part.
    for (const CheckpointFile& file : converted.manifest().files) {
      for (const auto& entry : file.entries) {
        EXPECT_LE(entry.range.end - entry.range.begin, 15 / world_size + 1);
      }
    }
  }
  EXPECT_THROW(convert_checkpoint(files, reader, "/x", 0), UsageError);

  // Into the folder that it comes from: in the place of itself.
  CheckpointReader again(files, convert_checkpoint(files, reader, "/run", 2));
  EXPECT_THAT(files.list("/run"), ElementsAre("latest", "step-00000001"));
  EXPECT_THAT(verify(again), IsEmpty());
}

TEST(CheckpointTools, ASumThatIsHalfDoneIsNotCutAnew) {
  MemoryFileSystem files;
  CheckpointReader reader(files,
                          save(files, "/run", {.params = awkward_params(), .half_done = true}));
  EXPECT_THAT(refusal([&] { convert_checkpoint(files, reader, "/out", 3); }),
              AllOf(HasSubstr("half done (1 of 4 micro-steps)"), HasSubstr("2 ranks"),
                    HasSubstr("any world size")));
  // Where the caller alone knows where a window ends, there are sums and no count.
  const Sample sample{.params = awkward_params(), .half_done = true};
  CheckpointManifest manifest = manifest_of(sample);
  manifest.micro_step = 0;
  CheckpointReader uncounted(files, save_as(files, "/run", sample, manifest));
  EXPECT_THAT(refusal([&] { convert_checkpoint(files, uncounted, "/out", 3); }),
              HasSubstr("half done"));
  EXPECT_EQ(files.kind("/out"), FileKind::kMissing);
}

TEST(CheckpointTools, WhatIsPrunedIsNeverTheLastThatIsWhole) {
  MemoryFileSystem files;
  files.create_folder("/run");
  EXPECT_THAT(prune_checkpoints(files, "/run", 1), IsEmpty());
  for (const int step : {1, 2, 3}) save(files, "/run", {.params = awkward_params(), .step = step});
  files.remove("/run/latest");
  files.remove("/run/step-00000003/manifest.json");
  EXPECT_THAT(prune_checkpoints(files, "/run", 1), ElementsAre("step-00000001"));
  EXPECT_THAT(files.list("/run"), ElementsAre("step-00000002", "step-00000003"));
  files.remove("/run/step-00000002/manifest.json");
  EXPECT_THAT(refusal([&] { prune_checkpoints(files, "/run", 1); }), HasSubstr("is whole"));
  EXPECT_EQ(files.list("/run").size(), 2u);
}

// What is damaged takes no place among those that are kept, newer than they or older.
TEST(CheckpointTools, OnlyWholeOnesCountAsKept) {
  MemoryFileSystem files;
  for (int step = 1; step <= 7; ++step) {
    save(files, "/run", {.params = awkward_params(), .step = step});
  }
  for (const int step : {2, 4, 6, 7}) {
    files.bytes("/run/" + checkpoint::step_folder(step) + "/manifest.json").pop_back();
  }
  files.create("/run/step-00000009");
  files.create_folder("/run/step-00000010");
  EXPECT_THAT(prune_checkpoints(files, "/run", 2), ElementsAre("step-00000001", "step-00000002"));
  EXPECT_THAT(files.list("/run"),
              ElementsAre("latest", "step-00000003", "step-00000004", "step-00000005",
                          "step-00000006", "step-00000007", "step-00000009", "step-00000010"));
}

}  // namespace
}  // namespace zero::ckpt
