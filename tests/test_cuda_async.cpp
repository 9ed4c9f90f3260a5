// On a CUDA device the host runs ahead: a step is issued while the device does nothing, nothing is
// allocated, and what the device then does on its own is what the host would have done.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <tuple>

#include "tests/cuda/gate.hpp"
#include "tests/cuda/probe.hpp"
#include "tests/cuda/staged_model.hpp"

namespace zero::test {
namespace {

constexpr const char* kFp16 = R"({"fp16": {"enabled": true, "initial_scale_power": 4,
                                           "loss_scale_window": 3, "hysteresis": 2}})";
constexpr const char* kSchedule = R"({"scheduler": {"type": "WarmupDecayLR", "params": {
    "warmup_min_lr": 0.001, "warmup_max_lr": 0.02, "warmup_num_steps": 5, "total_num_steps": 90}}})";

struct Options {
  int stage = 3;
  int ranks = 1;
  bool fp16 = false;
  bool schedule = false;
  bool overlap = true;

  DType dtype() const { return fp16 ? DType::kFloat16 : DType::kFloat32; }
  Config config() const {
    Config config =
        staged_config(stage, overlap ? R"({"zero_optimization": {"overlap_comm": true}})"
                                     : R"({"zero_optimization": {"overlap_comm": false}})");
    if (fp16) config.merge(kFp16);
    if (schedule) config.merge(kSchedule);
    return config;
  }
};

// What training left, the same on every rank: whole tensors, and what each step said.
struct Trained {
  std::map<std::string, std::vector<float>> tensors;
  std::vector<std::vector<double>> steps;
};

void expect_same(const Trained& got, const Trained& want) {
  EXPECT_EQ(got.steps, want.steps);
  EXPECT_EQ(got.tensors.size(), want.tensors.size());
  for (const auto& [name, values] : want.tensors) {
    const std::vector<float>& other = got.tensors.at(name);
    ASSERT_EQ(other.size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(other[i]), std::bit_cast<std::uint32_t>(values[i]))
          << name << " at " << i;
    }
  }
}

// One rank's part of a run.
struct Rank {
  World& world;
  ZeroOptimizer& optimizer;
  StagedModel& model;
  Trained& trained;

  Stream& stream() const { return world.device().caller_stream(); }
  bool on_cuda() const { return world.device().kind() == DeviceKind::kCuda; }
  void keep(const StepHandle& step) const { trained.steps.push_back(numbers_of(step.result())); }
  // All ranks have issued all that comes before it. No one waits for a device.
  void meet() const { world.communicator().barrier({Purpose::kControl, "the test"}, stream()); }
};

Trained train(DeviceKind kind, const Options& options, const std::function<void(Rank&)>& body) {
  std::vector<Trained> ranks(static_cast<std::size_t>(options.ranks));
  RunOptions run;
  run.device = kind;
  run.timeout = std::chrono::seconds(60);
  run_ranks(
      options.ranks,
      [&](World& world) {
        ZeroOptimizer optimizer(options.config(), world);
        optimizer.set_log([](std::string_view) {});
        StagedModel model(optimizer, world, options.dtype());
        model.prepare();
        Trained& own = ranks[static_cast<std::size_t>(world.rank())];
        Rank rank{world, optimizer, model, own};
        body(rank);
        own.tensors = model.read();
      },
      run);
  for (const Trained& other : ranks) expect_same(other, ranks[0]);
  return ranks[0];
}

class NeedsCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device here";
  }
};

using Point = std::tuple<int, int, bool, bool>;

class Ahead : public testing::TestWithParam<Point> {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device here";
  }
  Options options() const {
    const auto [stage, ranks, fp16, schedule] = GetParam();
    return {.stage = stage, .ranks = ranks, .fp16 = fp16, .schedule = schedule};
  }
};

// Two whole steps, the second of which the device will have to skip with fp16, are issued behind a
// stream that stands. Steady state: the order of uses is known, the memory is there.
void two_steps_ahead(Rank& rank, const Options& options) {
  for (int set = 0; set < 3; ++set) rank.keep(rank.model.step(set));
  rank.optimizer.synchronize();
  rank.meet();
  const Gate gate(std::chrono::seconds(20));
  const std::optional<RuntimeCounts> before = runtime_counts();
  if (rank.on_cuda()) gate.hold(rank.stream());
  const StepHandle first = rank.model.step(3);
  const StepHandle second = rank.model.step(options.fp16 ? StagedModel::kNotFinite : 0);
  const std::optional<RuntimeCounts> after = runtime_counts();
  if (rank.on_cuda()) {
    EXPECT_FALSE(rank.stream().record().done()) << "the stream did not stand";
    if (before) {
      EXPECT_EQ(after->host_waits, before->host_waits);
      EXPECT_EQ(after->allocations, before->allocations);
    }
  }
  EXPECT_TRUE(first.boundary());
  rank.meet();
  gate.open();
  rank.keep(first);
  rank.keep(second);
  EXPECT_FALSE(gate.gave_up()) << "a call waited for the device";
  for (int set = 1; set < 3; ++set) rank.keep(rank.model.step(set));
}

TEST_P(Ahead, TwoStepsAreIssuedWhileTheDeviceStands) {
  const Options s = options();
  const auto body = [&](Rank& rank) { two_steps_ahead(rank, s); };
  const Trained want = train(DeviceKind::kHost, s, body);
  ASSERT_EQ(want.steps[4][0], s.fp16 ? 0.0 : 1.0);
  expect_same(train(DeviceKind::kCuda, s, body), want);
}

std::string name_of(const testing::TestParamInfo<Point>& info) {
  const auto [stage, ranks, fp16, schedule] = info.param;
  return "Stage" + std::to_string(stage) + "Ranks" + std::to_string(ranks) +
         (fp16 ? "Fp16" : "Fp32") + (schedule ? "Schedule" : "");
}

INSTANTIATE_TEST_SUITE_P(All, Ahead,
                         testing::Combine(testing::Range(0, 4), testing::Values(1, 2),
                                          testing::Bool(), testing::Bool()),
                         name_of);

using CudaAsync = NeedsCuda;

// More steps than a table of rates has rows, of which nobody asks for the results; skipped ones do
// not use up a row. What set_group() sets holds for one update with a schedule, and for good
// without.
void many_steps(Rank& rank) {
  std::vector<StepHandle> steps;
  for (int step = 0; step < 75; ++step) {
    if (step == 20 || step == 21 || step == 70) {
      ParamGroup group = rank.optimizer.groups()[0];
      group.lr = 0.005 + 0.001 * step;
      group.weight_decay = 0.2;
      rank.optimizer.set_group(0, group);
    }
    const bool bad = step == 5 || step == 20 || step == 40 || step == 41 || step == 66;
    steps.push_back(rank.model.step(bad ? StagedModel::kNotFinite : step % 4));
  }
  for (const StepHandle& step : steps) rank.keep(step);
  EXPECT_EQ(rank.optimizer.applied_steps(), 70);
}

TEST_F(CudaAsync, ManyStepsWithChangesAndSkipsAreThoseOfTheHost) {
  for (const bool schedule : {false, true}) {
    for (const int stage : {0, 2, 3}) {
      SCOPED_TRACE(testing::Message() << "stage " << stage << " schedule " << schedule);
      const Options s = {
          .stage = stage, .ranks = 2, .fp16 = true, .schedule = schedule, .overlap = stage != 2};
      expect_same(train(DeviceKind::kCuda, s, many_steps), train(DeviceKind::kHost, s, many_steps));
    }
  }
}

TEST_F(CudaAsync, NothingIsAllocatedOnceTheOrderIsKnown) {
  for (int stage = 0; stage < 4; ++stage) {
    for (const int ranks : {1, 3}) {
      for (const bool overlap : {false, true}) {
        SCOPED_TRACE(testing::Message() << "stage " << stage << " on " << ranks << " ranks");
        const Options s = {.stage = stage, .ranks = ranks, .fp16 = true, .overlap = overlap};
        const std::optional<RuntimeCounts> start = runtime_counts();
        train(DeviceKind::kCuda, s, [&](Rank& rank) {
          for (int step = 0; step < 4; ++step) rank.model.step(step);
          rank.optimizer.synchronize();
          rank.meet();
          const std::size_t reserved = rank.world.device().reserved_bytes();
          const Ledger ledger = rank.optimizer.ledger();
          const std::optional<RuntimeCounts> warm = runtime_counts();
          for (int step = 0; step < 6; ++step) rank.model.step(step % 5);
          rank.optimizer.synchronize();
          const std::optional<RuntimeCounts> end = runtime_counts();
          rank.meet();
          EXPECT_EQ(rank.world.device().reserved_bytes(), reserved);
          EXPECT_TRUE(rank.optimizer.ledger() == ledger);
          if (warm) {
            EXPECT_EQ(end->allocations, warm->allocations);
            EXPECT_EQ(end->live_allocations, warm->live_allocations);
          }
        });
        if (start) {
          EXPECT_EQ(runtime_counts()->live_allocations, start->live_allocations);
        }
      }
    }
  }
}

TEST_F(CudaAsync, SynchronizeTellsOfTheLastStep) {
  for (const bool schedule : {false, true}) {
    const Options s = {.ranks = 2, .fp16 = true, .schedule = schedule};
    const auto body = [](Rank& rank) {
      for (const int set : {0, 1, StagedModel::kNotFinite, 2, 3}) {
        const StepHandle step = rank.model.step(set);
        const StepResult last = rank.optimizer.synchronize();
        rank.trained.steps.push_back(numbers_of(last));
        EXPECT_EQ(numbers_of(step.result()), numbers_of(last));
      }
    };
    expect_same(train(DeviceKind::kCuda, s, body), train(DeviceKind::kHost, s, body));
  }
}

// A kernel that follows the step sees the scale that the step left.
TEST_F(CudaAsync, TheLossScaleOnTheDeviceIsThatOfTheComingStep) {
  const Options s = {.ranks = 2, .fp16 = true};
  std::vector<double> seen;
  train(DeviceKind::kCuda, s, [&](Rank& rank) {
    const auto scale_on_device = [&] {
      float scale = 0;
      kernels::copy(&scale, rank.optimizer.loss_scale_on_device(), sizeof(scale), rank.stream());
      rank.stream().synchronize();
      return scale;
    };
    EXPECT_EQ(scale_on_device(), 16.0f);
    for (const int set : {0, 1, 2, 3, 4, 4, 4, 0}) {
      rank.model.step(set);
      const float scale = scale_on_device();  // before the host knows
      EXPECT_EQ(scale, static_cast<float>(rank.optimizer.loss_scale()));
      if (rank.world.rank() == 0) seen.push_back(scale);
    }
  });
  // It doubles with a good step that follows a window of three. Of the bad ones the first is
  // forgiven, as the hysteresis is 2.
  EXPECT_EQ(seen, (std::vector<double>{16, 16, 16, 32, 32, 16, 8, 8}));
}

TEST_F(CudaAsync, WithoutPinnedMemoryItIsTheSame) {
  if (!refuse_pinned_memory(true)) GTEST_SKIP() << "this runtime cannot be made to refuse it";
  const Options s = {.stage = 2, .ranks = 2, .fp16 = true, .schedule = true};
  const auto body = [](Rank& rank) {
    for (int step = 0; step < 5; ++step) rank.keep(rank.model.step(step));
  };
  const Trained got = train(DeviceKind::kCuda, s, body);
  refuse_pinned_memory(false);
  expect_same(got, train(DeviceKind::kHost, s, body));
}

TEST_F(CudaAsync, AStepCapturedOnceIsReplayed) {
  for (const int stage : {0, 2, 3}) {
    for (const bool overlap : {false, true}) {
      SCOPED_TRACE(testing::Message() << "stage " << stage << " overlap " << overlap);
      const Options s = {.stage = stage, .fp16 = true, .schedule = true, .overlap = overlap};
      bool captured = true;
      const Trained got = train(DeviceKind::kCuda, s, [&](Rank& rank) {
        for (int step = 0; step < 2; ++step) rank.model.step(1);
        rank.optimizer.synchronize();
        const auto graph = capture(rank.stream(), [&] { rank.model.step(1); });
        captured = graph != nullptr;
        if (!captured) return;
        for (int replay = 0; replay < 5; ++replay) graph->replay();
        rank.trained.steps.push_back(numbers_of(rank.optimizer.synchronize()));
        rank.keep(rank.model.step(2));
      });
      if (!captured) GTEST_SKIP() << "no CUDA graphs here";
      expect_same(got, train(DeviceKind::kHost, s, [](Rank& rank) {
                    for (int step = 0; step < 6; ++step) rank.model.step(1);
                    rank.keep(rank.model.step(1));
                    rank.keep(rank.model.step(2));
                  }));
    }
  }
}

}  // namespace
}  // namespace zero::test
