// A resumed run has the bits of one that was never ended: at every stage, from every world size to
// every other, inside an accumulation window, after an overflow.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "tests/memory_file_system.hpp"
#include "tests/toy_model.hpp"

namespace zero::test {
namespace {

using Disk = faults::MemoryFileSystem;
constexpr const char* kRoot = "/run";

struct Where {
  int stage = 0;
  int world_size = 1;
};

ToySetup setup_at(const Where& where, int steps, DType dtype = DType::kFloat32,
                  int accumulation = 1, const std::string& more = "") {
  ToySetup setup;
  setup.units = odd_units();
  setup.dtype = dtype;
  setup.world_size = where.world_size;
  setup.accumulation = accumulation;
  setup.steps = steps;
  setup.config =
      R"({"zero_optimization": {"stage": )" + std::to_string(where.stage) + "}" + more + "}";
  return setup;
}

// Ends `setup` after micro-step `micro` of step `step`, with a save.
ToyResult run_and_save(ToySetup setup, Disk& disk, int step, int micro, SaveOptions options = {}) {
  options.file_system = &disk;
  setup.steps = step + 1;
  setup.foreseen.saves = true;
  setup.after_micro_step = [&](ZeroOptimizer& optimizer, int at_step, int at_micro) {
    if (at_step == step && at_micro == micro) optimizer.save(kRoot, step, options);
  };
  return run_toy(setup);
}

// Goes on from there. What the file is told about the run is checked on the way.
ToyResult resume(ToySetup setup, Disk& disk, int step) {
  setup.first_step = step;
  setup.prepared = [&](ZeroOptimizer& optimizer) {
    const LoadReport report = optimizer.load(kRoot, {.file_system = &disk});
    EXPECT_EQ(report.micro_step, setup.first_micro_step);
  };
  setup.foreseen.loads = true;
  return run_toy(setup);
}

// Without the norms of the steps before.
void expect_same_end(const ToyResult& resumed, ToyResult whole) {
  ASSERT_GE(whole.grad_norms.size(), resumed.grad_norms.size());
  const auto skip =
      static_cast<std::ptrdiff_t>(whole.grad_norms.size() - resumed.grad_norms.size());
  whole.grad_norms.erase(whole.grad_norms.begin(), whole.grad_norms.begin() + skip);
  EXPECT_TRUE(resumed == whole);
}

constexpr std::array kWorlds = {1, 2, 3, 5, 8};

class State : public testing::TestWithParam<Where> {};

void expect_same_state(const Where& from, DType dtype, const std::vector<Where>& places) {
  Disk disk;
  const ToyResult saved = run_and_save(setup_at(from, 2, dtype), disk, 1, 0);
  for (const Where& there : places) {
    ToyResult loaded = resume(setup_at(there, 2, dtype), disk, 2);
    loaded.grad_norms = saved.grad_norms;
    EXPECT_TRUE(loaded == saved) << "stage " << there.stage << ", " << there.world_size
                                 << " ranks, " << dtype_name(dtype);
  }
}

std::vector<Where> everywhere() {
  std::vector<Where> all;
  for (const int stage : {0, 1, 2, 3}) {
    for (const int world_size : kWorlds) all.push_back({stage, world_size});
  }
  return all;
}

// What is read at the other place is what was there at this one.
TEST_P(State, IsTheSameAtEveryOtherStageAndWorldSize) {
  expect_same_state(GetParam(), DType::kBFloat16, everywhere());
  expect_same_state(GetParam(), DType::kFloat32, {{0, 2}, {1, 8}, {2, 3}, {3, 5}});
}

std::string name_of(const testing::TestParamInfo<Where>& info) {
  return "Stage" + std::to_string(info.param.stage) + "Ranks" +
         std::to_string(info.param.world_size);
}
INSTANTIATE_TEST_SUITE_P(All, State, testing::ValuesIn(everywhere()), name_of);

class Resume : public testing::TestWithParam<Where> {};

TEST_P(Resume, HasTheBitsOfARunThatNeverEnded) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    Disk disk;
    const ToySetup whole = setup_at(GetParam(), 5, dtype);
    run_and_save(whole, disk, 2, 0);
    // Cut otherwise: the layout is another.
    ToySetup other = whole;
    other.config = R"({"zero_optimization": {"reduce_bucket_size": 130, "stage": )" +
                   std::to_string(GetParam().stage) + "}}";
    expect_same_end(resume(whole, disk, 3), run_toy(whole));
    expect_same_end(resume(other, disk, 3), run_toy(whole));
  }
}

TEST_P(Resume, InsideAnAccumulationWindow) {
  for (const char* more : {"", R"(, "data_types": {"grad_accum_dtype": "fp32"})"}) {
    for (const int micro : {0, 1}) {
      Disk disk;
      ToySetup whole = setup_at(GetParam(), 3, DType::kBFloat16, 3, more);
      run_and_save(whole, disk, 1, micro);
      const ToyResult want = run_toy(whole);
      whole.first_micro_step = micro + 1;
      expect_same_end(resume(whole, disk, 1), want);
    }
  }
}

// The scale, its counters and its hysteresis go on.
TEST_P(Resume, JustAfterAnOverflow) {
  Disk disk;
  ToySetup whole = setup_at(GetParam(), 7, DType::kFloat16, 1,
                            R"(, "fp16": {"loss_scale_window": 2, "hysteresis": 2})");
  whole.overflows = [](int step) { return step == 2 || step == 5; };
  run_and_save(whole, disk, 2, 0);
  expect_same_end(resume(whole, disk, 3), run_toy(whole));
}

TEST_P(Resume, WithAScheduleAndSettingsMadeByHand) {
  Disk disk;
  ToySetup whole = setup_at(GetParam(), 6, DType::kFloat32, 1,
                            R"(, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 5,
                               "warmup_max_lr": 0.02}})");
  const auto by_hand = [](ZeroOptimizer& optimizer, int step) {
    if (step != 2) return;
    ParamGroup group = optimizer.groups()[1];
    group.lr = 0.125;  // for one update
    group.weight_decay = 0.25;
    optimizer.set_group(1, group);
    optimizer.set_requires_grad("h1.w", false);
  };
  ToySetup first = whole;
  first.steps = 3;
  first.foreseen.saves = true;
  first.after_micro_step = [&](ZeroOptimizer& optimizer, int step, int) {
    by_hand(optimizer, step);
    if (step == 2) optimizer.save(kRoot, step, {.file_system = &disk});
  };
  run_toy(first);
  whole.after_micro_step = [&](ZeroOptimizer& optimizer, int step, int) {
    by_hand(optimizer, step);
  };
  const ToyResult want = run_toy(whole);
  whole.after_micro_step = {};
  expect_same_end(resume(whole, disk, 3), want);
}

// What training does while the copy is written does not show in it.
TEST_P(Resume, FromAnAsynchronousSave) {
  Disk disk;
  ToySetup whole = setup_at(GetParam(), 5, DType::kBFloat16);
  const ToyResult want = run_toy(whole);
  ToySetup saving = whole;
  saving.foreseen.async_saves = true;
  saving.after_micro_step = [&](ZeroOptimizer& optimizer, int step, int) {
    if (step < 3) optimizer.save(kRoot, step, {.async = true, .file_system = &disk});
  };
  EXPECT_TRUE(run_toy(saving) == want);  // also holds what is planned
  expect_same_end(resume(whole, disk, 3), want);
}

std::vector<Where> some() {
  return {{0, 1}, {0, 2}, {0, 3}, {1, 1}, {1, 3}, {2, 2}, {2, 3}, {3, 1}, {3, 2}, {3, 3}};
}
INSTANTIATE_TEST_SUITE_P(Some, Resume, testing::ValuesIn(some()), name_of);

class Reproducible : public testing::TestWithParam<Where> {
 protected:
  static ToySetup at(const Where& where) {
    return setup_at(where, 3, DType::kBFloat16, 8 / where.world_size,
                    R"(, "runtime": {"reproducible": true})");
  }
};

TEST_P(Reproducible, GoesOnAtAnyOtherWorldSizeAndStage) {
  const ToyResult want = run_toy(at({0, 1}));
  Disk disk;
  const ToySetup whole = at(GetParam());
  run_and_save(whole, disk, 0, whole.accumulation - 1);
  for (const int stage : {0, 1, 2, 3}) {
    for (const int world_size : {1, 2, 4, 8}) {
      expect_same_end(resume(at({stage, world_size}), disk, 1), want);
    }
  }
}

// The open window as well, wherever its slots so far are whole micro-steps.
TEST_P(Reproducible, GoesOnInsideAWindow) {
  const ToyResult want = run_toy(at({0, 1}));
  const ToySetup whole = at(GetParam());
  for (int micro = 0; micro + 1 < whole.accumulation; ++micro) {
    Disk disk;
    run_and_save(whole, disk, 1, micro);
    const int slots = (micro + 1) * GetParam().world_size;
    for (const int stage : {0, 3}) {
      for (const int world_size : {1, 2, 4}) {
        if (slots % world_size != 0) continue;
        ToySetup there = at({stage, world_size});
        there.first_micro_step = slots / world_size;
        expect_same_end(resume(there, disk, 1), want);
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Some, Reproducible,
                         testing::Values(Where{0, 2}, Where{1, 4}, Where{2, 1}, Where{3, 2}),
                         name_of);

}  // namespace
}  // namespace zero::test
