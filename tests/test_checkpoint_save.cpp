// Saves that go wrong at any point, and what is there afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/checkpoint_fixtures.hpp"
#include "tests/faulty_file_system.hpp"
#include "tests/memory_file_system.hpp"
#include "zero/checkpoint_tools.hpp"

namespace zero::ckpt {
namespace {

using faults::FaultyFileSystem;
using faults::Killed;
using faults::MemoryFileSystem;
using Fault = FaultyFileSystem::Fault;
using std::chrono::steady_clock;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Sample small(std::int64_t step, int keep = 0) {
  return {.params = {{"w", {5}, DType::kBFloat16, 0, true, true, 1},
                     {"mask", {3}, DType::kFloat16, 0, false, false, 0}},
          .world_size = 2,
          .step = step,
          .keep = keep};
}

// The step that is found, after looking at every byte of it.
std::int64_t loaded_step(FileSystem& files) {
  CheckpointReader reader(files, "/run");
  EXPECT_THAT(verify(reader), IsEmpty());
  const Sample sample = small(reader.manifest().step);
  for (const StateRange& range : tensors_of(sample)) {
    EXPECT_EQ(read(reader, range), bytes_of(range, sample.step)) << to_string(range);
  }
  return reader.manifest().step;
}

std::vector<std::string> temporaries(FileSystem& files) {
  std::vector<std::string> found;
  for (const std::string& name : files.list("/run")) {
    if (name != "latest" && (name.size() != 13 || !name.starts_with("step-")))
      found.push_back(name);
  }
  return found;
}

// A sanitizer finds in every third save what it finds in all.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kStride = 3;
#else
constexpr int kStride = 1;
#endif

// What comes before the save that is broken: how many steps, and which is next.
struct Before {
  std::vector<std::int64_t> steps;
  std::int64_t next;
  int keep = 0;
  const char* name;
};
const Before kBefore[] = {
    {{}, 1, 0, "first"}, {{1}, 2, 0, "second"},        {{1, 2}, 3, 1, "pruning"},
    {{1}, 1, 0, "same"}, {{1, 2, 3}, 2, 2, "resumed"}, {{1, 3, 2}, 2, 0, "resumed twice"},
};

// Makes `before` and breaks the next save at call k, for every k; `after` looks at what is left.
// Ends when k is beyond the calls of a save.
template <class After>
void for_every_call(const Before& before, Fault fault, After after) {
  for (int k = 0;; k += kStride) {
    SCOPED_TRACE(detail::concat(before.name, ", call ", k));
    MemoryFileSystem disk;
    FaultyFileSystem files(disk);
    for (const std::int64_t step : before.steps) save(files, "/run", small(step, before.keep));
    files.arm(fault, k);
    std::string error;
    try {
      save(files, "/run", small(before.next, before.keep));
    } catch (const Killed&) {
      error = "killed";
    } catch (const CheckpointError& e) {
      error = e.what();
    }
    const bool done = files.calls() <= k;
    const std::string failed = files.failed();
    files.arm(Fault::kNone, 0);
    after(disk, error, failed);
    if (done || ::testing::Test::HasFatalFailure()) {
      EXPECT_GT(k, 30);
      return;
    }
  }
}

TEST(CheckpointSave, AnyCallMayFail) {
  for (const Before& before : kBefore) {
    for (const Fault fault : {Fault::kError, Fault::kNoSpace, Fault::kReadOnly}) {
      // What needs space or changes something is much the same in all of them.
      if (fault != Fault::kError && before.keep == 0) continue;
      for_every_call(before, fault,
                     [&](FileSystem& files, const std::string& error, const std::string& failed) {
                       // What failed is told, and where.
                       if (!error.empty() && !failed.empty()) {
                         EXPECT_THAT(error,
                                     AnyOf(HasSubstr("Input/output error"),
                                           HasSubstr("No space left"), HasSubstr("Read-only")));
                         EXPECT_THAT(error, HasSubstr("/run"));
                         if (fault == Fault::kError) {
                           EXPECT_THAT(error, HasSubstr(failed));
                         }
                       }
                       const std::int64_t last = before.steps.empty() ? 0 : before.steps.back();
                       if (!error.empty() && last == 0) {
                         if (files.exists("/run") && !list_checkpoints(files, "/run").empty()) {
                           EXPECT_EQ(loaded_step(files), before.next);
                         }
                       } else {
                         EXPECT_THAT(loaded_step(files), AnyOf(last, before.next));
                         if (error.empty()) {
                           EXPECT_EQ(loaded_step(files), before.next);
                         }
                       }
                       // The next save is not hindered, and tidies up.
                       save(files, "/run", small(9, before.keep));
                       EXPECT_EQ(loaded_step(files), 9);
                       EXPECT_THAT(temporaries(files), IsEmpty());
                     });
    }
  }
}

TEST(CheckpointSave, TheProcessMayBeKilledAtAnyCall) {
  for (const Before& before : kBefore) {
    for_every_call(before, Fault::kKilled,
                   [&](FileSystem& files, const std::string& error, const std::string&) {
                     if (!before.steps.empty()) {
                       EXPECT_THAT(loaded_step(files), AnyOf(before.steps.back(), before.next));
                     }
                     if (error.empty()) {
                       EXPECT_EQ(loaded_step(files), before.next);
                     }
                     // What is called a checkpoint is one, in every case.
                     if (files.exists("/run")) {
                       for (const std::string& name : list_checkpoints(files, "/run")) {
                         EXPECT_EQ(find_checkpoint(files, "/run/" + name).note, "");
                       }
                     }
                     save(files, "/run", small(9, before.keep));
                     EXPECT_EQ(loaded_step(files), 9);
                     EXPECT_THAT(temporaries(files), IsEmpty());
                   });
  }
}

// The power fails: what was not synced is gone, or part of it.
TEST(CheckpointSave, ThePowerMayFailAtAnyCall) {
  std::mt19937 chance(1);
  for (const Before& before : kBefore) {
    for (int luck = 0; luck < 2; ++luck) {
      for_every_call(before, Fault::kKilled,
                     [&](MemoryFileSystem& files, const std::string& error, const std::string&) {
                       files.power_loss(luck == 0 ? nullptr : &chance);
                       if (!before.steps.empty()) {
                         EXPECT_THAT(loaded_step(files), AnyOf(before.steps.back(), before.next));
                       }
                       if (error.empty()) {
                         EXPECT_EQ(loaded_step(files), before.next);
                       }
                       save(files, "/run", small(9, before.keep));
                       files.power_loss();
                       EXPECT_EQ(loaded_step(files), 9);
                     });
    }
  }
}

// Killed while it puts one checkpoint in the place of another, and again while the next save tidies
// up: one of the two is always there.
TEST(CheckpointSave, KilledTwice) {
  for (int k = 0;; ++k) {
    SCOPED_TRACE(k);
    MemoryFileSystem disk;
    FaultyFileSystem files(disk);
    save(files, "/run", small(1));
    files.rename("/run/step-00000001", "/run/step-00000001-replaced");
    EXPECT_EQ(loaded_step(disk), 1);
    EXPECT_EQ(find_checkpoint(disk, "/run").note,
              "/run/step-00000001, which latest names, is missing; taken is "
              "/run/step-00000001-replaced");
    files.arm(Fault::kKilled, k);
    try {
      save(files, "/run", small(1));
    } catch (const Killed&) {
    }
    ASSERT_EQ(loaded_step(disk), 1);
    save(disk, "/run", small(1));
    ASSERT_THAT(disk.list("/run"), ElementsAre("latest", "step-00000001"));
    if (files.calls() <= k) return;
  }
}

TEST(CheckpointSave, TheNewestAreKept) {
  MemoryFileSystem files;
  for (const int step : {1, 2, 3, 10, 9}) save(files, "/run", small(step));
  EXPECT_THAT(list_checkpoints(files, "/run"),
              ElementsAre("step-00000001", "step-00000002", "step-00000003", "step-00000009",
                          "step-00000010"));
  // Nine digits: by number, not by name.
  save(files, "/run", small(99999999));
  save(files, "/run", small(100000000, 3));
  EXPECT_THAT(list_checkpoints(files, "/run"),
              ElementsAre("step-00000010", "step-99999999", "step-100000000"));
  // Older than all that are there, after a resume: it stays, being the latest.
  save(files, "/run", small(4, 2));
  EXPECT_THAT(list_checkpoints(files, "/run"),
              ElementsAre("step-00000004", "step-99999999", "step-100000000"));
  EXPECT_EQ(loaded_step(files), 4);
  EXPECT_THAT(prune_checkpoints(files, "/run", 1), ElementsAre("step-99999999"));
  EXPECT_THAT(files.list("/run"), ElementsAre("latest", "step-00000004", "step-100000000"));
  EXPECT_THROW(prune_checkpoints(files, "/run", 0), UsageError);
}

TEST(CheckpointSave, WhatIsNotOursStays) {
  MemoryFileSystem files;
  files.create_folder("/run");
  for (const char* name : {"/run/step-1", "/run/step-00000001x", "/run/notes.txt",
                           "/run/step--0000001", "/run/.tmp-mine"}) {
    files.create_folder(name);
  }
  save(files, "/run", small(1, 1));
  save(files, "/run", small(2, 1));
  EXPECT_THAT(files.list("/run"), ElementsAre(".tmp-mine", "latest", "notes.txt", "step--0000001",
                                              "step-00000001x", "step-00000002", "step-1"));
}

TEST(CheckpointSave, ARankThatFailsIsNamed) {
  MemoryFileSystem files;
  save(files, "/run", small(1));
  const auto give_up = [&](auto other_rank) {
    const std::string name = checkpoint::begin(files, "/run", 2);
    const std::string folder = "/run/" + name;
    save_rank(files, folder, small(2), 0);
    other_rank(folder);
    const std::string error = refusal([&] {
      checkpoint::commit(files, "/run", name, manifest_of(small(2)),
                         steady_clock::now() + std::chrono::milliseconds(20), 0);
    });
    EXPECT_THAT(files.list("/run"), ElementsAre("latest", "step-00000001"));
    return error;
  };
  EXPECT_THAT(give_up([&](const std::string& folder) {
                checkpoint::publish_failure(files, folder, 1, "bad luck \xff");
              }),
              HasSubstr("the checkpoint of step 2 in /run is given up: rank 1 could not write its "
                        "file: bad luck"));
  EXPECT_THAT(give_up([](const std::string&) {}),
              AllOf(HasSubstr("rank 1 of 2 wrote nothing into /run/.tmp-step-00000002-"),
                    HasSubstr("share")));
  EXPECT_THAT(give_up([&](const std::string& folder) {
                save_rank(files, folder, small(2), 1);
                files.remove(folder + "/" + checkpoint::shard_file(1, 2));
              }),
              AllOf(HasSubstr("rank-00001-of-00002.safetensors is missing"), HasSubstr("share")));
  EXPECT_THAT(give_up([&](const std::string& folder) {
                save_rank(files, folder, small(2), 1);
                files.bytes(folder + "/" + checkpoint::shard_file(1, 2)).pop_back();
              }),
              HasSubstr("bytes here, but its rank wrote"));
  EXPECT_EQ(loaded_step(files), 1);
}

TEST(CheckpointSave, RanksMayWriteAtOnce) {
  MemoryFileSystem files;
  Sample sample = small(3);
  sample.world_size = 5;
  const std::string name = checkpoint::begin(files, "/run", 3);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 5; ++rank) {
    ranks.emplace_back([&, rank] { save_rank(files, "/run/" + name, sample, rank); });
  }
  checkpoint::commit(files, "/run", name, manifest_of(sample),
                     steady_clock::now() + std::chrono::minutes(1), 0);
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(loaded_step(files), 3);
}

TEST(CheckpointSave, FoldersThatCannotBe) {
  MemoryFileSystem files;
  files.create("/file");
  EXPECT_THAT(refusal([&] { checkpoint::begin(files, "/file", 1); }),
              HasSubstr("/file is no folder"));
  // Where a resume would not find what is saved.
  save(files, "/run", small(1));
  EXPECT_THAT(refusal([&] { checkpoint::begin(files, "/run/step-00000001", 2); }),
              HasSubstr("/run/step-00000001 has the name of a checkpoint"));
  EXPECT_THAT(refusal([&] { checkpoint::begin(files, "/step-00000100//", 2); }),
              HasSubstr("/step-00000100// has the name of a checkpoint"));
  EXPECT_EQ(files.kind("/step-00000100"), FileKind::kMissing);
  files.rename("/run/step-00000001", "/best");
  EXPECT_THAT(refusal([&] { checkpoint::begin(files, "/best", 2); }),
              HasSubstr("/best is a checkpoint itself"));
  EXPECT_THROW(checkpoint::begin(files, "/run", -1), UsageError);
  checkpoint::begin(files, "/a/b/c", 0);
  EXPECT_EQ(files.kind("/a/b/c"), FileKind::kFolder);
}

// Before hours of training.
TEST(CheckpointSave, WhetherAFolderCanBeSavedInIsTried) {
  MemoryFileSystem files;
  prepare_checkpoint_folder(files, "/runs/a");
  prepare_checkpoint_folder(files, "/runs/a");
  EXPECT_THAT(files.list("/runs/a"), IsEmpty());
  files.create("/file");
  EXPECT_THAT(refusal([&] { prepare_checkpoint_folder(files, "/file"); }),
              HasSubstr("/file is no folder"));
  EXPECT_THAT(refusal([&] { prepare_checkpoint_folder(files, "/runs/step-00000001"); }),
              HasSubstr("has the name of a checkpoint"));
  FaultyFileSystem read_only(files);
  read_only.arm(FaultyFileSystem::Fault::kReadOnly, 0);
  EXPECT_THAT(refusal([&] { prepare_checkpoint_folder(read_only, "/runs/a"); }),
              HasSubstr("Read-only"));
}

// Which one is found, and what is said about it.
TEST(CheckpointSave, TheLatestIsFoundOrWhatComesNext) {
  MemoryFileSystem files;
  const auto found = [&] { return find_checkpoint(files, "/run"); };
  files.create_folder("/run");
  EXPECT_THAT(refusal(found), HasSubstr("there is no checkpoint in /run"));
  EXPECT_THAT(refusal([&] { find_checkpoint(files, "/nowhere"); }),
              HasSubstr("/nowhere is no folder"));
  for (const int step : {1, 2, 3}) save(files, "/run", small(step));
  EXPECT_EQ(found().folder, "/run/step-00000003");
  EXPECT_EQ(found().note, "");
  EXPECT_EQ(find_checkpoint(files, "/run/step-00000001/").folder, "/run/step-00000001/");

  const std::vector<std::byte> latest = files.bytes("/run/latest");
  for (std::size_t i = 0; i < latest.size(); ++i) {
    files.bytes("/run/latest")[i] ^= std::byte{0x40};
    EXPECT_EQ(found().folder, "/run/step-00000003");
    EXPECT_THAT(found().note, HasSubstr("latest"));
    files.bytes("/run/latest") = latest;
  }
  files.remove("/run/latest");
  EXPECT_EQ(found().folder, "/run/step-00000003");
  EXPECT_EQ(found().note, "/run/latest is missing; taken is /run/step-00000003");
  files.create_folder("/run/latest");
  files.create("/run/step-00000009");
  EXPECT_EQ(found().folder, "/run/step-00000003");
  EXPECT_EQ(found().note, "/run/latest names no checkpoint; taken is /run/step-00000003");
  files.remove_all("/run/latest");

  files.remove("/run/step-00000003/rank-00001-of-00002.safetensors");
  EXPECT_EQ(found().folder, "/run/step-00000002");
  EXPECT_THAT(found().note, HasSubstr("rank-00001-of-00002.safetensors is missing"));
  files.remove("/run/step-00000002/manifest.json");
  files.bytes("/run/step-00000001/manifest.json").pop_back();
  EXPECT_THAT(refusal(found), AllOf(HasSubstr("no checkpoint in /run is whole"),
                                    HasSubstr("step-00000001/manifest.json: it is damaged"),
                                    HasSubstr("step-00000002/manifest.json is missing"),
                                    HasSubstr("rank-00001-of-00002.safetensors is missing")));
  // Copied elsewhere and renamed, it is still one.
  files.rename("/run/step-00000003", "/best");
  EXPECT_THAT(refusal([&] { find_checkpoint(files, "/best"); }), HasSubstr("is missing"));
}

}  // namespace
}  // namespace zero::ckpt
