// What a checkpoint looks like on disk, and what comes back of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/checkpoint_json.hpp"
#include "tests/checkpoint_fixtures.hpp"
#include "tests/memory_file_system.hpp"

namespace zero::ckpt {
namespace {

using faults::MemoryFileSystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The format as its own documentation has it, read without the library.
struct Plain {
  nlohmann::json header;
  std::string data;
};
Plain read_safetensors(const std::string& file) {
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) {
    length = length << 8 | static_cast<unsigned char>(file[static_cast<std::size_t>(i)]);
  }
  return {nlohmann::json::parse(file.substr(8, length)), file.substr(8 + length)};
}

TEST(CheckpointFormat, ShardsAreSafetensors) {
  MemoryFileSystem files;
  const Sample sample{.params = awkward_params(), .world_size = 3, .half_done = true};
  const std::string folder = save(files, "/run", sample);
  EXPECT_EQ(folder, "/run/step-00000001");
  EXPECT_THAT(files.list(folder),
              ElementsAre("manifest.json", "rank-00000-of-00003.safetensors",
                          "rank-00001-of-00003.safetensors", "rank-00002-of-00003.safetensors"));
  for (int rank = 0; rank < 3; ++rank) {
    const std::string bytes =
        text_of(read_file(files, folder + "/" + checkpoint::shard_file(rank, 3)));
    Plain plain = read_safetensors(bytes);
    EXPECT_EQ((bytes.size() - plain.data.size()) % 64, 0u);
    EXPECT_EQ(plain.header["__metadata__"]["rank"], std::to_string(rank));
    plain.header.erase("__metadata__");
    std::size_t end = 0;
    for (const StateRange& range : shard_of(sample, rank)) {
      const nlohmann::json row = plain.header.at(to_string(range));
      const std::map<DType, std::string> names = {
          {DType::kFloat32, "F32"}, {DType::kFloat16, "F16"}, {DType::kBFloat16, "BF16"}};
      EXPECT_EQ(row["dtype"], names.at(range.dtype));
      EXPECT_EQ(row["shape"], nlohmann::json({range.end - range.begin}));
      EXPECT_EQ(row["data_offsets"][0], end);
      const auto expected = bytes_of(range, sample.step);
      EXPECT_EQ(plain.data.substr(end, expected.size()), text_of(expected)) << to_string(range);
      end += expected.size();
      EXPECT_EQ(row["data_offsets"][1], end);
      plain.header.erase(to_string(range));
    }
    EXPECT_EQ(end, plain.data.size()) << "nothing but the tensors: no padding";
    EXPECT_TRUE(plain.header.empty()) << plain.header;
  }
}

TEST(CheckpointFormat, EveryRangeOfEveryCutComesBack) {
  const std::vector<std::pair<int, std::int64_t>> cuts = {
      {1, 13}, {1, checkpoint::kBlockBytes}, {2, 1}, {3, 13},
      {5, 64}, {8, checkpoint::kBlockBytes}, {40, 4}};
  for (const auto& [world_size, block_bytes] : cuts) {
    MemoryFileSystem files;
    const Sample sample{.params = awkward_params(),
                        .world_size = world_size,
                        .half_done = true,
                        .block_bytes = block_bytes};
    CheckpointReader reader(files, save(files, "/run", sample));
    for (StateRange range : tensors_of(sample)) {
      const std::int64_t numel = range.end;
      ASSERT_EQ(reader.dtype(range.kind, range.param, range.part), range.dtype);
      for (range.begin = 0; range.begin <= numel; ++range.begin) {
        for (range.end = range.begin; range.end <= numel; ++range.end) {
          ASSERT_EQ(read(reader, range), bytes_of(range, sample.step))
              << to_string(range) << " of " << world_size << " ranks, blocks of " << block_bytes;
        }
      }
    }
    EXPECT_THAT(verify(reader), IsEmpty());
    EXPECT_THAT(reader.parts(StateKind::kGradients, "w"), ElementsAre("level 1", "rank 0"));
  }
}

TEST(CheckpointFormat, ModelsOfNothing) {
  for (const std::vector<CheckpointParam>& params :
       {std::vector<CheckpointParam>{},
        std::vector<CheckpointParam>{{"empty", {0}, DType::kFloat32, 0, true, true, 0}}}) {
    MemoryFileSystem files;
    CheckpointReader reader(files, save(files, "/run", {.params = params}));
    EXPECT_EQ(reader.manifest().params, params);
    EXPECT_THAT(verify(reader), IsEmpty());
    if (!params.empty()) {
      EXPECT_THAT(read(reader, {"empty", StateKind::kExpAvg, 0, 0, DType::kFloat32, ""}),
                  IsEmpty());
    }
  }
}

TEST(CheckpointFormat, AManifestComesBackAsItWas) {
  CheckpointManifest m = manifest_of({.params = awkward_params()});
  m.groups.push_back({std::numeric_limits<double>::infinity(), -0.0,
                      -std::numeric_limits<double>::infinity(), 1.7976931348623157e308, 0.1});
  m.params.push_back({"größe/\n\\\"x", {1, 2, 3}, DType::kFloat16, 1, true, false, 1});
  m.files = {{"rank-00000-of-00001.safetensors",
              std::int64_t{1} << 62,
              0xfedcba9876543210u,
              std::int64_t{1} << 40,
              {0, 1, ~std::uint64_t{0}},
              {{{"w", StateKind::kGradients, 3, std::int64_t{1} << 61, DType::kBFloat16, "rank 3"},
                640}}}};
  const std::string text = checkpoint::manifest_text(m);
  const CheckpointManifest back =
      checkpoint::parse_manifest(std::as_bytes(std::span(text)), "manifest.json");
  EXPECT_EQ(back, m);
  EXPECT_TRUE(std::signbit(back.groups.back().beta1));
  EXPECT_EQ(checkpoint::manifest_text(back), text);
  // For other programs it is plain JSON.
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["user_data"], m.user_data);
  EXPECT_EQ(json["groups"][2]["lr"], "inf");

  m.scaler.scale = std::nan("");
  const std::string nan = checkpoint::manifest_text(m);
  EXPECT_TRUE(
      std::isnan(checkpoint::parse_manifest(std::as_bytes(std::span(nan)), "").scaler.scale));
}

TEST(CheckpointFormat, WhatNoManifestCanHoldIsRefused) {
  CheckpointManifest m = manifest_of({});
  m.user_data = "{";
  EXPECT_THAT(refusal([&] { checkpoint::manifest_text(m); }), HasSubstr("user_data"));
  m = manifest_of({});
  m.params = {{"\xff", {1}, DType::kFloat32, 0, true, true, 0}};
  EXPECT_THAT(refusal([&] { checkpoint::manifest_text(m); }), HasSubstr("UTF-8"));
  m = manifest_of({});
  m.format = 2;
  const std::string text = checkpoint::manifest_text(m);
  EXPECT_THAT(refusal([&] { checkpoint::parse_manifest(std::as_bytes(std::span(text)), "M"); }),
              HasSubstr("M: it is of format 2; this version of the library reads format 1"));
}

TEST(CheckpointFormat, TheWriterTakesExactlyItsBytes) {
  MemoryFileSystem files;
  files.create_folder("/f");
  const std::vector<StateRange> ranges = {{"w", StateKind::kExpAvg, 2, 4, DType::kFloat32, ""}};
  checkpoint::ShardWriter writer(files, "/f", 0, 1, ranges);
  const std::vector<std::byte> bytes(9);
  EXPECT_THROW(writer.append(bytes), UsageError);
  writer.append(std::span(bytes).first(7));
  EXPECT_THROW(writer.finish(), UsageError);
  writer.append(std::span(bytes).first(1));
  EXPECT_EQ(writer.finish().entries.front().range, ranges.front());
  EXPECT_THAT(refusal([&] {
                checkpoint::ShardWriter(files, "/f", 1, 2, {ranges.front(), ranges.front()});
              }),
              HasSubstr("two tensors \"exp_avg/w[2:4]\""));
}

// What the ranks wrote has to be the whole model, once; found when it is written.
TEST(CheckpointFormat, EveryElementIsThereOnce) {
  using Edit = void (*)(Sample&, CheckpointManifest&);
  const std::vector<std::pair<Edit, std::string>> cases = {
      {[](Sample& s, CheckpointManifest&) { s.params[0].shape = {14}; },
       "elements 14 to 15 of master_weights/w are in no file"},
      {[](Sample& s, CheckpointManifest&) { s.params[0].shape = {16}; },
       "rank-00001-of-00002.safetensors: master_weights/w[4:16]: the parameter has 15 elements"},
      {[](Sample& s, CheckpointManifest&) { s.params.pop_back(); },
       "elements 0 to 1 of master_weights/late are in no file"},
      {[](Sample&, CheckpointManifest& m) { m.params.pop_back(); },
       "master_weights/late[0:0]: there is no parameter of that name"},
      {[](Sample&, CheckpointManifest& m) { m.has_moments = false; },
       "exp_avg/w[0:3]: the parameter has no such state"},
      {[](Sample&, CheckpointManifest& m) { m.params[3].dtype = DType::kBFloat16; },
       "frozen/mask[0:1]: it is fp16, expected bf16"},
      {[](Sample&, CheckpointManifest& m) { m.params.push_back(m.params[0]); },
       "two parameters are named w"},
      {[](Sample&, CheckpointManifest& m) { m.params[0].shape = {-1}; }, "parameter w has a shape"},
      {[](Sample&, CheckpointManifest& m) {
         m.params[0].shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
       },
       "parameter w has a shape"},
  };
  for (const auto& [edit, expected] : cases) {
    MemoryFileSystem files;
    Sample sample{.params = awkward_params()};
    CheckpointManifest manifest = manifest_of(sample);
    edit(sample, manifest);
    const std::string name = checkpoint::begin(files, "/run", 1);
    for (int rank = 0; rank < 2; ++rank) save_rank(files, "/run/" + name, sample, rank);
    EXPECT_THAT(refusal([&] {
                  checkpoint::commit(files, "/run", name, manifest,
                                     std::chrono::steady_clock::now(), 0);
                }),
                HasSubstr(expected));
    EXPECT_THAT(files.list("/run"), IsEmpty());
  }

  // Rank 0 has the elements from 0 to 2, rank 1 the rest; but for one.
  for (const auto& [second, expected] : std::vector<std::pair<std::int64_t, std::string>>{
           {2, ""},
           {1,
            "elements 1 to 2 of master_weights/w are there twice, the second time in "
            "rank-00001-of-00002.safetensors"},
           {3, "elements 2 to 3 of master_weights/w are in no file"}}) {
    MemoryFileSystem files;
    const std::string name = checkpoint::begin(files, "/run", 1);
    const Sample sample{.params = {{"w", {4}, DType::kFloat32, 0, true, true, 1}}, .world_size = 2};
    for (int rank = 0; rank < 2; ++rank) {
      std::vector<StateRange> ranges = tensors_of(sample);
      for (StateRange& range : ranges) {
        if (rank == 0) range.end = 2;
        if (rank == 1) range.begin = second;
      }
      checkpoint::ShardWriter writer(files, "/run/" + name, rank, 2, ranges);
      for (const StateRange& range : ranges) writer.append(bytes_of(range, 1));
      checkpoint::publish_record(files, "/run/" + name, rank, writer.finish());
    }
    const std::string error = refusal([&] {
      checkpoint::commit(files, "/run", name, manifest_of(sample), std::chrono::steady_clock::now(),
                         0);
    });
    EXPECT_EQ(error.empty(), expected.empty()) << error;
    EXPECT_THAT(error, HasSubstr(expected));
  }
}

}  // namespace
}  // namespace zero::ckpt
