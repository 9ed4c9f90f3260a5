// zero-ckpt: what it says of checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/checkpoint_fixtures.hpp"
#include "tests/memory_file_system.hpp"
#include "tools/ckpt_diff.hpp"
#include "tools/ckpt_inspect.hpp"
#include "tools/ckpt_verify.hpp"

namespace zero::ckpt {
namespace {

using faults::MemoryFileSystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> diff(FileSystem& files, const std::string& a, const std::string& b) {
  CheckpointReader in_a(files, a), in_b(files, b);
  return ::ckpt::differences(in_a, in_b).lines;
}

TEST(CkptTool, HowItIsCutMakesNoDifference) {
  MemoryFileSystem files;
  save(files, "/a", {.params = awkward_params(), .world_size = 2, .half_done = true});
  Sample other{.params = awkward_params(), .world_size = 5, .half_done = true, .block_bytes = 40};
  CheckpointManifest manifest = manifest_of(other);
  manifest.stage = 3;
  manifest.version = "0.2.0";
  manifest.config = "{}";
  std::swap(manifest.params[0], manifest.params[3]);  // registered in another order
  save_as(files, "/b", other, manifest);
  EXPECT_THAT(diff(files, "/a", "/b"), IsEmpty());
  CheckpointReader a(files, "/a"), b(files, "/b");
  EXPECT_THAT(::ckpt::differences(a, b).notes,
              ElementsAre("world size: 2 -> 5", "stage: 2 -> 3", "version: 0.1.0 -> 0.2.0",
                          "the configurations are not the same"));
}

TEST(CkptTool, ADifferenceInAnyTensorIsTold) {
  // One bit of one element, in each of the tensors.
  const Sample sample{.params = awkward_params(), .world_size = 2, .half_done = true};
  MemoryFileSystem files;
  save(files, "/a", sample);
  for (const StateRange& changed : tensors_of(sample)) {
    if (changed.end == 0) continue;
    const std::string name = checkpoint::begin(files, "/b", 1);
    for (int rank = 0; rank < 2; ++rank) {
      checkpoint::ShardWriter writer(files, "/b/" + name, rank, 2, shard_of(sample, rank));
      for (const StateRange& range : shard_of(sample, rank)) {
        std::vector<std::byte> bytes = bytes_of(range, 1);
        const bool last = range.end == changed.end && !bytes.empty();
        if (last && range.kind == changed.kind && range.param == changed.param &&
            range.part == changed.part) {
          bytes.back() ^= std::byte{0x80};  // the sign of the last element
        }
        writer.append(bytes);
      }
      checkpoint::publish_record(files, "/b/" + name, rank, writer.finish());
    }
    checkpoint::commit(files, "/b", name, manifest_of(sample), std::chrono::steady_clock::now(), 0);
    const float value = value_of(changed.kind, changed.param, changed.part, changed.end - 1, 1);
    EXPECT_THAT(diff(files, "/a", "/b"),
                ElementsAre(detail::concat(
                    state_kind_name(changed.kind), "/", changed.param,
                    changed.part.empty() ? "" : " (" + changed.part + ")", ": 1 of ", changed.end,
                    changed.end == 1 ? " element" : " elements", " differs, the first is element ",
                    changed.end - 1, ": ", value, " -> ", -value)));
  }
}

TEST(CkptTool, ADifferenceInAnythingElseIsTold) {
  using Edit = void (*)(CheckpointManifest&);
  const std::vector<std::pair<Edit, std::string>> cases = {
      {[](CheckpointManifest& m) { m.applied_steps = 7; }, "applied_steps: 1 -> 7"},
      {[](CheckpointManifest& m) { m.skipped_steps = 7; }, "skipped_steps: 2 -> 7"},
      {[](CheckpointManifest& m) { m.micro_step = 3; }, "micro_step: 1 -> 3"},
      {[](CheckpointManifest& m) { m.window = "tree"; }, "window: (none) -> tree"},
      {[](CheckpointManifest& m) { m.scaler.scale = 0.5; }, "loss_scale: 65536.0 -> 0.5"},
      {[](CheckpointManifest& m) { m.scaler.dynamic = false; },
       "loss_scale dynamic: true -> false"},
      {[](CheckpointManifest& m) { m.scaler.iteration = 7; }, "loss_scale iteration: 12 -> 7"},
      {[](CheckpointManifest& m) { m.scaler.last_overflow = 7; },
       "loss_scale last_overflow: 5 -> 7"},
      {[](CheckpointManifest& m) { m.scaler.hysteresis_left = 7; },
       "loss_scale hysteresis_left: 2 -> 7"},
      {[](CheckpointManifest& m) { m.scheduler = ""; }, "scheduler: WarmupLR -> (none)"},
      {[](CheckpointManifest& m) { m.scheduler_settings = "K 3"; },
       "scheduler settings: (none) -> K 3"},
      {[](CheckpointManifest& m) { m.scheduler_position = -1; }, "scheduler position: 0 -> -1"},
      {[](CheckpointManifest& m) { m.groups[0].lr = 0.5; },
       "group 0: lr 0.001, betas 0.9 0.999, eps 1e-08, weight_decay 0.1 -> lr 0.5, betas 0.9 "
       "0.999, eps 1e-08, weight_decay 0.1"},
      {[](CheckpointManifest& m) { m.groups.push_back({}); },
       "group 2: (none) -> lr 0.001, betas 0.9 0.999, eps 1e-08, weight_decay 0.0"},
      {[](CheckpointManifest& m) { m.initial_groups.push_back({}); },
       "initial group 0: (none) -> lr 0.001, betas 0.9 0.999, eps 1e-08, weight_decay 0.0"},
      {[](CheckpointManifest& m) { m.groups_by_hand = true; }, "groups_by_hand: false -> true"},
      {[](CheckpointManifest& m) { m.user_data = R"({"position":1,"x":[2]})"; },
       "user_data position: 9007199254740993 -> 1; user_data x: (none) -> [2]"},
      {[](CheckpointManifest& m) { m.user_data = "3"; },
       "user_data position: 9007199254740993 -> (none); user_data: (none) -> 3"},
      {[](CheckpointManifest& m) {
         m.params[0].shape = {5, 3};
       },
       "parameter w: shape: [3, 5] -> [5, 3]"},
      {[](CheckpointManifest& m) { m.params[0].dtype = DType::kFloat16; },
       "parameter w: dtype: bf16 -> fp16"},
      {[](CheckpointManifest& m) { m.params[0].group = 1; }, "parameter w: group: 0 -> 1"},
      {[](CheckpointManifest& m) { m.params[0].requires_grad = false; },
       "parameter w: requires_grad: true -> false"},
      {[](CheckpointManifest& m) { m.params[0].step_count = 4; },
       "parameter w: step_count: 3 -> 4"},
      {[](CheckpointManifest& m) { m.params[0].contributions = 2; },
       "parameter w: contributions: 1 -> 2"},
      {[](CheckpointManifest& m) { m.params[0].touched = !m.params[0].touched; },
       "parameter w: touched: false -> true"},
  };
  const Sample sample{.params = awkward_params(), .half_done = true};
  MemoryFileSystem files;
  save(files, "/a", sample);
  for (const auto& [edit, expected] : cases) {
    CheckpointManifest manifest = manifest_of(sample);
    edit(manifest);
    save_as(files, "/b", sample, manifest);
    std::string all;
    for (const std::string& line : diff(files, "/a", "/b")) all += (all.empty() ? "" : "; ") + line;
    EXPECT_EQ(all, expected);
  }
}

TEST(CkptTool, OtherParametersAreTold) {
  MemoryFileSystem files;
  Sample sample{.params = awkward_params()};
  save(files, "/a", sample);
  sample.params[4].name = "new";
  sample.params[3] = {"mask", {7}, DType::kFloat16, 0, true, true, 0};
  sample.params[0].shape = {16};
  save(files, "/b", sample);
  EXPECT_THAT(
      diff(files, "/a", "/b"),
      ElementsAre(
          "parameter w: shape: [3, 5] -> [16]", "parameter mask: has_state: false -> true",
          "parameter mask: requires_grad: false -> true",
          "master_weights/mask: only in /b/step-00000001", "exp_avg/mask: only in /b/step-00000001",
          "exp_avg_sq/mask: only in /b/step-00000001", "frozen/mask: only in /a/step-00000001",
          "parameter late: only in /a/step-00000001", "parameter new: only in /b/step-00000001"));
}

TEST(CkptTool, EveryCheckpointOfAFolderIsVerified) {
  MemoryFileSystem files;
  for (const int step : {1, 2, 3}) save(files, "/run", {.params = awkward_params(), .step = step});
  ::ckpt::Verified verified = ::ckpt::verify(files, "/run");
  EXPECT_TRUE(verified.whole());
  EXPECT_EQ(verified.checkpoints.size(), 3u);
  EXPECT_THAT(::ckpt::verify_text(verified), HasSubstr("a resume takes /run/step-00000003\n"));

  // A value in an old one: the newest is taken all the same.
  files.bytes("/run/step-00000001/" + checkpoint::shard_file(1, 2)).back() ^= std::byte{1};
  verified = ::ckpt::verify(files, "/run");
  EXPECT_FALSE(verified.whole());
  EXPECT_EQ(verified.taken, "/run/step-00000003");
  EXPECT_THAT(::ckpt::verify_text(verified),
              HasSubstr("/run/step-00000001: DAMAGED\n  /run/step-00000001/rank-00001-of-00002"));
  EXPECT_FALSE(::ckpt::verify(files, "/run/step-00000001").whole());
  EXPECT_TRUE(::ckpt::verify(files, "/run/step-00000002").whole());

  // The newest cannot be read at all.
  files.remove("/run/step-00000003/manifest.json");
  verified = ::ckpt::verify(files, "/run/");
  EXPECT_EQ(verified.taken, "/run/step-00000002");
  EXPECT_THAT(verified.note, HasSubstr("manifest.json is missing"));
  const nlohmann::ordered_json json = ::ckpt::verify_json(verified);
  EXPECT_EQ(json["whole"], false);
  EXPECT_EQ(json["checkpoints"][1]["whole"], true);
  EXPECT_EQ(json["checkpoints"][2]["problems"].size(), 1u);
  EXPECT_FALSE(::ckpt::verify(files, "/run/step-00000003").whole());

  for (const int step : {1, 2})
    files.bytes(detail::concat("/run/step-0000000", step, "/manifest.json")).clear();
  verified = ::ckpt::verify(files, "/run");
  EXPECT_FALSE(verified.whole());
  EXPECT_THAT(::ckpt::verify_text(verified),
              HasSubstr("none that a resume could take: no checkpoint in /run is whole"));

  files.create_folder("/empty");
  for (const char* nothing : {"/empty", "/nowhere"}) {
    EXPECT_THROW(::ckpt::verify(files, nothing), CheckpointError);
  }
}

TEST(CkptTool, OneThatHoldsOthersIsVerifiedItself) {
  MemoryFileSystem files;
  const std::string outer = save(files, "/run", {.params = awkward_params(), .step = 4});
  files.rename(save(files, "/other", {.params = awkward_params(), .step = 8}),
               outer + "/step-00000008");
  ::ckpt::Verified verified = ::ckpt::verify(files, outer);
  EXPECT_TRUE(verified.all_is_well());
  ASSERT_EQ(verified.checkpoints.size(), 2u);
  EXPECT_EQ(verified.checkpoints[0].folder, outer + "/step-00000008");
  EXPECT_EQ(verified.checkpoints[1].folder, outer);
  files.bytes(outer + "/" + checkpoint::shard_file(1, 2)).back() ^= std::byte{1};
  verified = ::ckpt::verify(files, outer);
  EXPECT_FALSE(verified.all_is_well());
  EXPECT_THAT(verified.checkpoints[0].problems, IsEmpty());
  EXPECT_EQ(verified.checkpoints[1].problems.size(), 1u);
}

TEST(CkptTool, WhyAResumeTakesNoneOfThoseThatAreWhole) {
  MemoryFileSystem files;
  save(files, "/run", {.params = awkward_params(), .step = 4});
  files.rename("/run", "/step-00000100");
  const ::ckpt::Verified verified = ::ckpt::verify(files, "/step-00000100");
  EXPECT_TRUE(verified.whole());
  EXPECT_FALSE(verified.all_is_well());
  EXPECT_THAT(verified.why_none, HasSubstr("/step-00000100/manifest.json is missing"));
  EXPECT_THAT(::ckpt::verify_text(verified), HasSubstr("could take: " + verified.why_none + "\n"));
  EXPECT_EQ(::ckpt::verify_json(verified)["why_none"], verified.why_none);
  // Told once where it is what is wrong with the one that is looked at.
  files.create_folder("/alone");
  files.create("/alone/rank-00000-of-00001.safetensors");
  const ::ckpt::Verified alone = ::ckpt::verify(files, "/alone");
  EXPECT_FALSE(alone.all_is_well());
  const std::string text = ::ckpt::verify_text(alone);
  ASSERT_THAT(text, HasSubstr(alone.why_none));
  EXPECT_EQ(text.find(alone.why_none), text.rfind(alone.why_none));
}

TEST(CkptTool, WhatIsInOne) {
  MemoryFileSystem files;
  CheckpointReader reader(files,
                          save(files, "/run", {.params = awkward_params(), .half_done = true}));
  const std::string text = ::ckpt::inspect_text(reader);
  for (const char* part :
       {"/run/step-00000001: format 1, by version 0.1.0\n",
        "step 1: 1 update, 2 skipped; 1 of 4 "
        "micro-steps of the next one\n",
        "written by 2 ranks at stage 2: ", "loss scale 65536.0, dynamic\n",
        "scheduler WarmupLR at t = 0\n",
        "group 1: lr 0.30000000000000004, betas 0.5 0.3333333333333333, eps 5e-324, weight_decay",
        "user data {\"position\":9007199254740993}\n", "[3,5]", "frozen for now",
        "5 parameters, 24 elements\n"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  const nlohmann::ordered_json json = ::ckpt::inspect_json(reader);
  EXPECT_EQ(json["user_data"]["position"], 9007199254740993);
  EXPECT_EQ(json["config"]["train_batch_size"], 4);
  EXPECT_EQ(json["bytes"]["master_weights"], (15 + 1 + 1) * 4);
  EXPECT_EQ(json["bytes"]["frozen"], 7 * 2);
  EXPECT_EQ(json["params"][0]["shape"], nlohmann::ordered_json({3, 5}));
  EXPECT_EQ(json["files"].size(), 2u);
}

}  // namespace
}  // namespace zero::ckpt
