// What save() and load() refuse, what they say, and which settings hold after a load.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "tests/checkpoint_trainer.hpp"
#include "tests/device_access.hpp"
#include "tests/faulty_file_system.hpp"
#include "tests/memory_file_system.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/toy_model.hpp"
#include "zero/checkpoint.hpp"
#include "zero/error.hpp"

namespace zero::test {
namespace {

using faults::FaultyFileSystem;
using faults::MemoryFileSystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ToySetup setup_of(int stage, int world_size = 2, const std::string& more = "") {
  ToySetup setup;
  setup.units = odd_units();
  setup.world_size = world_size;
  setup.steps = 1;
  setup.config = R"({"zero_optimization": {"stage": )" + std::to_string(stage) + "}" + more + "}";
  return setup;
}

void save_after_training(ToySetup setup, const std::string& folder, int accumulation = 1) {
  setup.accumulation = accumulation;
  setup.foreseen.saves = true;
  setup.after_micro_step = [&](ZeroOptimizer& optimizer, int step, int micro) {
    if (micro == 0) optimizer.save(folder, step);
  };
  run_toy(setup);
}

// The message with which a load at `setup` is refused; empty: it is not.
std::string refusal(ToySetup setup, const std::string& folder, const LoadOptions& options = {}) {
  setup.steps = 0;
  setup.foreseen.loads = true;
  std::string message;
  setup.prepared = [&](ZeroOptimizer& optimizer) { optimizer.load(folder, options); };
  try {
    run_toy(setup);
  } catch (const CheckpointError& error) {
    message = error.what();
  }
  return message;
}

// The report of rank 0.
LoadReport report_of(ToySetup setup, const std::string& folder, const LoadOptions& options = {}) {
  setup.steps = 0;
  setup.foreseen.loads = true;
  LoadReport report;
  setup.prepared = [&](ZeroOptimizer& optimizer) {
    LoadReport own = optimizer.load(folder, options);
    if (optimizer.rank() == 0) report = std::move(own);
  };
  run_toy(setup);
  return report;
}

class Load : public testing::TestWithParam<int> {
 protected:
  Load() { save_after_training(setup_of(GetParam()), folder_.path()); }
  const std::string& folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

TEST_P(Load, NamesEveryParameterThatDiffers) {
  ToySetup other = setup_of(3 - GetParam(), 3);
  other.units[1].params[0].numel = 256;
  other.units[2].params[0].name = "h1.other";
  EXPECT_THAT(
      refusal(other, folder()),
      AllOf(HasSubstr("parameter h0.w is [257] in it and [256] in this run"),
            HasSubstr("parameter h1.other is not in it"),
            HasSubstr("parameter h1.w of it is not in this run"), HasSubstr("step-00000000")));
  LoadOptions some;
  some.strict = false;  // takes what fits, but no other shape
  EXPECT_THAT(refusal(other, folder(), some),
              AllOf(HasSubstr("parameter h0.w is [257]"), Not(HasSubstr("h1.other"))));
  other.units[1].params[0].numel = 257;
  EXPECT_THAT(
      report_of(other, folder(), some).notes,
      ElementsAre("parameter h1.other is not in it", "parameter h1.w of it is not in this run"));
}

TEST_P(Load, AnotherDtypeIsForWeightsAlone) {
  ToySetup other = setup_of(GetParam());
  other.dtype = DType::kBFloat16;
  EXPECT_THAT(refusal(other, folder()),
              HasSubstr("parameter wte is fp32 in it and bf16 in this run"));
  LoadOptions weights;
  weights.weights_only = true;
  EXPECT_THAT(report_of(other, folder(), weights).notes, IsEmpty());
}

TEST_P(Load, WithoutACheckpointSaysWhereItLooked) {
  const TemporaryFolder empty;
  EXPECT_THAT(refusal(setup_of(GetParam()), empty.path()), HasSubstr(empty.path()));
  EXPECT_THAT(refusal(setup_of(GetParam()), empty.path() + "/none"),
              HasSubstr(empty.path() + "/none"));
}

// A value that was read wrong: this optimizer is of no more use, and says so.
TEST_P(Load, AFlippedByteIsFoundAndNothingGoesOn) {
  const std::string file = folder() + "/step-00000000/rank-00001-of-00002.safetensors";
  const auto size = std::filesystem::file_size(file);
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekp(static_cast<std::streamoff>(size) - 3);
  const int old = bytes.peek();
  bytes.put(static_cast<char>(old ^ 1));
  bytes.close();
  ToySetup setup = setup_of(GetParam());
  setup.prepared = [&](ZeroOptimizer& optimizer) {
    try {
      optimizer.load(folder());
      ADD_FAILURE() << "loaded";
    } catch (const CheckpointError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank-00001-of-00002.safetensors"));
    }
  };
  try {
    run_toy(setup);
    ADD_FAILURE() << "trained on";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("half-way"));
  }
}

// Weights come, and nothing else: Adam begins anew.
TEST_P(Load, WeightsAlone) {
  ToySetup other = setup_of(GetParam(), 3);
  other.steps = 0;
  other.foreseen.loads = true;
  other.prepared = [&](ZeroOptimizer& optimizer) {
    LoadOptions weights;
    weights.weights_only = true;
    optimizer.load(folder(), weights);
    EXPECT_EQ(optimizer.applied_steps(), 0);
    for (const auto& info : optimizer.params()) EXPECT_EQ(info.step_count, 0) << info.name;
  };
  const ToyResult got = run_toy(other);
  const ToyResult saved = run_toy(setup_of(GetParam()));
  EXPECT_TRUE(got.masters == saved.masters);
  for (const auto& [name, values] : got.exp_avg) {
    EXPECT_THAT(values, testing::Each(0.0f)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, Load, testing::Values(0, 1, 2, 3),
                         [](const auto& stage) { return "Stage" + std::to_string(stage.param); });

// Settings that the configuration has changed since hold; the others are the checkpoint's.
TEST(LoadSettings, WhatTheConfigurationChangedHolds) {
  const TemporaryFolder folder;
  ToySetup first = setup_of(1);
  first.foreseen.saves = true;
  first.after_micro_step = [&](ZeroOptimizer& optimizer, int step, int) {
    ParamGroup group = optimizer.groups()[0];
    group.lr = 0.5;
    group.beta1 = 0.5;
    optimizer.set_group(0, group);
    optimizer.save(folder.path(), step);
  };
  run_toy(first);
  ToySetup second = setup_of(1, 2, R"(, "optimizer": {"params": {"lr": 0.25}})");
  second.steps = 0;
  second.prepared = [&](ZeroOptimizer& optimizer) {
    const LoadReport report = optimizer.load(folder.path());
    EXPECT_EQ(optimizer.groups()[0].lr, 0.25);
    EXPECT_EQ(optimizer.groups()[0].beta1, 0.5);
    EXPECT_EQ(optimizer.groups()[1].lr, second.lr_of_group1);
    EXPECT_THAT(report.notes,
                ElementsAre("lr of param group 0 was 0.01 in the configuration at the save and is "
                            "0.25 now: 0.25 holds"));
  };
  second.foreseen.loads = true;
  run_toy(second);
}

TEST(LoadSettings, TheCallersOwnDataComesBack) {
  // To the letter: a state of 128 bits is no number that a reader of JSON would give back.
  const std::string kData = R"({"rng": 340282366920938463463374607431768211455, "rng": [ 1 ]})";
  const TemporaryFolder folder;
  ToySetup first = setup_of(2);
  first.foreseen.saves = true;
  first.after_micro_step = [&](ZeroOptimizer& optimizer, int, int) {
    optimizer.save(folder.path(), 41, {.user_data = kData});
  };
  run_toy(first);
  const LoadReport report = report_of(setup_of(0, 3), folder.path());
  EXPECT_EQ(report.step, 41);
  EXPECT_EQ(report.user_data, kData);
  EXPECT_EQ(report.folder, folder.path() + "/step-00000041");
}

// A window can be continued where the sums in it mean the same.
TEST(LoadWindow, IsContinuedAnewOrRefused) {
  const TemporaryFolder folder;
  save_after_training(setup_of(2, 2), folder.path(), 3);
  const auto at = [](int stage, int world_size, int accumulation) {
    ToySetup setup = setup_of(stage, world_size);
    setup.accumulation = accumulation;
    return setup;
  };
  EXPECT_EQ(refusal(at(2, 2, 3), folder.path()), "");
  EXPECT_EQ(refusal(at(3, 2, 3), folder.path()), "");
  for (const ToySetup& other : {at(1, 2, 3), at(2, 3, 3), at(2, 2, 4), at(2, 3, 2)}) {
    EXPECT_THAT(
        refusal(other, folder.path()),
        AllOf(HasSubstr("after 1 of 3 micro-steps of 2 ranks"), HasSubstr("restart_window")));
    LoadOptions anew;
    anew.restart_window = true;
    const LoadReport report = report_of(other, folder.path(), anew);
    EXPECT_EQ(report.micro_step, 0);
    EXPECT_THAT(report.notes, ElementsAre(HasSubstr("the window begins anew")));
  }
}

// What had added up before the load has no part in what comes.
TEST(LoadWindow, TheOneThatWasOpenIsForgotten) {
  for (const int stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(stage);
    const TemporaryFolder folder;
    run_ranks(2, [&](World& world) {
      faults::Trainer whole(world, stage, 60, 2);
      whole.step();
      whole.optimizer.save(folder.path() + "/inside", 1);
      whole.step();
      whole.optimizer.save(folder.path() + "/between", 1);
      const faults::State first = whole.state();
      for (int micro = 0; micro < 2; ++micro) whole.step();
      const faults::State second = whole.state();

      faults::Trainer other(world, stage, 60, 2);
      for (int micro = 0; micro < 5; ++micro) other.step();
      EXPECT_EQ(other.optimizer.load(folder.path() + "/between").micro_step, 0);
      EXPECT_EQ(other.state(), first);
      for (int micro = 0; micro < 2; ++micro) other.step();
      EXPECT_EQ(other.state(), second);
      other.step();
      EXPECT_EQ(other.optimizer.load(folder.path() + "/inside").micro_step, 1);
      other.step();
      EXPECT_EQ(other.state(), first);
    });
  }
}

// One parameter under the optimizer of that type; what `use` does with it.
void with_optimizer(const char* type, const std::function<void(ZeroOptimizer&)>& use) {
  run_on_device(2, [&](World& world) {
    ZeroOptimizer optimizer(Config::parse(std::string(R"({"train_micro_batch_size_per_gpu": 1,
          "zero_optimization": {"stage": 1}, "optimizer": {"params": {"lr": 1}, "type": ")") +
                                          type + "\"}}"),
                            world);
    std::vector<float> start(5, 1.0f);
    float* data = start.data();
    float* grad = nullptr;
    ParamSpec spec{.name = "w", .shape = {5}, .data = &data, .grad = &grad};
    optimizer.add_unit("unit", {spec});
    optimizer.prepare();
    use(optimizer);
  });
}

TEST(LoadMoments, ThatAreNotThereAreNamed) {
  const TemporaryFolder folder;
  with_optimizer("SGD", [&](ZeroOptimizer& optimizer) { optimizer.save(folder.path(), 1); });
  with_optimizer("AdamW", [&](ZeroOptimizer& optimizer) {
    try {
      optimizer.load(folder.path());
      ADD_FAILURE() << "loaded";
    } catch (const CheckpointError& error) {
      EXPECT_THAT(error.what(), HasSubstr("it has no moments"));
    }
    LoadOptions some;
    some.strict = false;  // nothing had been changed before
    EXPECT_THAT(optimizer.load(folder.path(), some).notes, testing::SizeIs(1));
  });
}

// The budget holds for what a save takes on its way, and is told before anything is written.
TEST(SaveBudget, HasNoRoomForACopy) {
  ToySetup setup = setup_of(1);
  std::int64_t peak = 0;
  setup.after_micro_step = [&](ZeroOptimizer& optimizer, int, int) {
    if (optimizer.rank() == 0) peak = optimizer.plan().peak_bytes();
  };
  run_toy(setup);
  const TemporaryFolder folder;
  setup = setup_of(1, 2, R"(, "runtime": {"memory_budget": )" + std::to_string(peak) + "}");
  setup.after_micro_step = [&](ZeroOptimizer& optimizer, int step, int) {
    for (const bool async : {false, true}) {
      try {
        optimizer.save(folder.path(), step, {.async = async});
        ADD_FAILURE() << "saved";
      } catch (const CheckpointError& error) {
        EXPECT_THAT(error.what(),
                    AllOf(HasSubstr("runtime.memory_budget is " + std::to_string(peak)),
                          HasSubstr("saves")));
      }
    }
  };
  run_toy(setup);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// An error that no one waited for is told through the caller's function, which is still there.
TEST(SaveLog, TellsOfTheLastSaveAtTheEnd) {
  MemoryFileSystem disk;
  FaultyFileSystem files(disk);
  std::string told;
  run_on_device(1, [&](World& world) {
    ZeroOptimizer optimizer(
        Config::parse(R"({"train_batch_size": 1, "optimizer": {"type": "SGD"}})"), world);
    const std::string prefix = "told, at some length so that it is on the heap: ";
    optimizer.set_log(
        [&told, prefix](std::string_view line) { told = prefix + std::string(line); });
    optimizer.prepare();
    files.arm(FaultyFileSystem::Fault::kReadOnly, 4);  // after the folder is made
    optimizer.save("/run", 1, {.async = true, .file_system = &files});
  });
  EXPECT_THAT(told, AllOf(HasSubstr("told, at"), HasSubstr("Read-only")));
}

TEST(SaveCalls, UserDataThatIsNoJsonIsRefusedBeforeAnythingIsWritten) {
  for (const int culprit : {0, 1}) {
    for (const bool async : {false, true}) {
      MemoryFileSystem files;
      run_on_device(2, [&](World& world) {
        ZeroOptimizer optimizer(Config::parse(R"({"train_batch_size": 2})"), world);
        optimizer.prepare();
        SaveOptions options{.async = async, .file_system = &files};
        if (world.rank() == culprit) options.user_data = "{\"at\": }";
        try {
          optimizer.save("/run", 1, options);
          ADD_FAILURE() << "saved";
        } catch (const CheckpointError& error) {
          EXPECT_THAT(error.what(), AllOf(HasSubstr("rank " + std::to_string(culprit)),
                                          HasSubstr("user_data of a checkpoint is no JSON")));
        }
      });
      EXPECT_EQ(files.kind("/run"), FileKind::kMissing);
    }
  }
}

// What the ranks ask for has to be the same, or each would go its own way.
TEST(SaveCalls, OfRanksThatDifferAreRefused) {
  MemoryFileSystem files;
  run_on_device(3, [&](World& world) {
    ZeroOptimizer optimizer(Config::parse(R"({"train_batch_size": 3})"), world);
    optimizer.prepare();
    const bool other = world.rank() == 2;
    const auto refused = [&](const auto& call, const std::string& first, const std::string& third) {
      try {
        call();
        ADD_FAILURE() << "done";
      } catch (const UsageError& error) {
        EXPECT_EQ(error.what(), first + "; rank 2 for " + third);
      }
    };
    const auto save = [&](const std::string& root, int step, SaveOptions options) {
      options.file_system = &files;
      optimizer.save(root, step, options);
    };
    const std::string differ = "the ranks ask for different things: rank 0 for ";
    refused([&] { save("/run", other ? 8 : 7, {}); },
            "save(): " + differ + "directory /run, step 7, keep 0",
            "directory /run, step 8, keep 0");
    refused([&] { save(other ? "/walk" : "/run", 7, {.keep = 2}); },
            "save(): " + differ + "directory /run, step 7, keep 2",
            "directory /walk, step 7, keep 2");
    refused([&] { save("/run", 7, {.async = other}); },
            "save(): " + differ + "directory /run, step 7, keep 0",
            "directory /run, step 7, keep 0, async");
    save("/run", 7, {});
    const auto load = [&](LoadOptions options) {
      options.file_system = &files;
      optimizer.load("/run", options);
    };
    refused([&] { load({.weights_only = other}); }, "load(): " + differ + "/run, strict",
            "/run, weights_only, strict");
    refused([&] { load({.strict = !other, .restart_window = true}); },
            "load(): " + differ + "/run, strict, restart_window", "/run, restart_window");
    load({});
  });
}

// Also one without elements, which no file holds.
TEST(SaveCalls, ANameThatIsNotUtf8IsRefusedByName) {
  for (const std::size_t bad : {0, 2}) {
    const TemporaryFolder folder;
    ToySetup setup = setup_of(2);
    std::string& name = setup.units[1].params[bad].name;
    const std::string readable = name;
    name += "\xff";
    std::string message;
    try {
      save_after_training(setup, folder.path());
    } catch (const CheckpointError& error) {
      message = error.what();
    }
    EXPECT_THAT(message, AllOf(HasSubstr("UTF-8"), HasSubstr(readable)));
    EXPECT_THAT(list_checkpoints(posix_file_system(), folder.path()), IsEmpty());
  }
}

TEST(SaveCalls, AreRefusedOutOfOrder) {
  run_on_device(1, [](World& world) {
    const TemporaryFolder folder;
    ZeroOptimizer optimizer(Config::parse(R"({"train_batch_size": 1})"), world);
    EXPECT_THROW(optimizer.save(folder.path(), 0), UsageError);
    EXPECT_THROW(optimizer.load(folder.path()), UsageError);
  });
}

}  // namespace
}  // namespace zero::test
