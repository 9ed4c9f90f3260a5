// What goes wrong on a CUDA device is known late: who asks for the result learns it, or else the
// step two steps later. Whatever happens, the memory comes back.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>

#include "tests/cuda/probe.hpp"
#include "tests/cuda/staged_model.hpp"
#include "tests/failing_communicator.hpp"
#include "zero/error.hpp"

namespace zero::test {
namespace {

using faults::Broken;

constexpr const char* kAtTheMinimum = R"({"fp16": {"enabled": true, "initial_scale_power": 0,
                                                   "min_loss_scale": 1, "hysteresis": 1}})";

class CudaErrors : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device here";
    start_ = runtime_counts();
  }
  void TearDown() override {
    if (start_) {
      EXPECT_EQ(runtime_counts()->live_allocations, start_->live_allocations);
    }
  }
  int stage() const { return GetParam(); }

  // Runs `body` on each rank, and gives what run_ranks throws.
  template <class Body>
  std::exception_ptr run(int ranks, const std::string& patch, DType dtype, const Body& body) {
    RunOptions options;
    options.device = DeviceKind::kCuda;
    options.timeout = std::chrono::seconds(60);
    try {
      run_ranks(
          ranks,
          [&](World& world) {
            ZeroOptimizer optimizer(staged_config(stage(), patch), world);
            optimizer.set_log([](std::string_view) {});
            StagedModel model(optimizer, world, dtype);
            model.prepare();
            body(world, optimizer, model);
          },
          options);
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }
  template <class Body>
  void run_well(int ranks, const std::string& patch, DType dtype, const Body& body) {
    const std::exception_ptr error = run(ranks, patch, dtype, body);
    if (error != nullptr) std::rethrow_exception(error);
  }

 private:
  std::optional<RuntimeCounts> start_;
};

template <class E, class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
    return {};
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST_P(CudaErrors, AnOverflowAtTheMinimumIsThrownByItsResult) {
  for (const int ranks : {1, 2}) {
    run_well(ranks, kAtTheMinimum, DType::kFloat16,
             [&](World&, ZeroOptimizer& optimizer, StagedModel& model) {
               model.step(0);
               const StepHandle bad = model.step(StagedModel::kNotFinite);
               const std::string text = message_of<LossScaleError>([&] { bad.result(); });
               EXPECT_NE(text.find("minimum loss scale 1"), std::string::npos) << text;
               EXPECT_NE(text.find("after 1 applied steps"), std::string::npos) << text;
               // Asked again it says the same; who goes on is not told again.
               EXPECT_THROW(bad.result(), LossScaleError);
               for (int step = 0; step < 3; ++step) EXPECT_TRUE(model.step(1).result().applied);
               EXPECT_EQ(optimizer.applied_steps(), 4);
             });
  }
}

TEST_P(CudaErrors, AnOverflowNobodyAsksForIsThrownTwoStepsLater) {
  for (const int ranks : {1, 2}) {
    run_well(ranks, kAtTheMinimum, DType::kFloat16,
             [&](World&, ZeroOptimizer& optimizer, StagedModel& model) {
               EXPECT_NO_THROW(model.step(0));
               EXPECT_NO_THROW(model.step(StagedModel::kNotFinite));
               EXPECT_THROW(
                   {
                     model.step(1);
                     model.step(2);
                   },
                   LossScaleError);
               EXPECT_EQ(optimizer.applied_steps(), 2);
             });
  }
}

TEST_P(CudaErrors, SettlingThrowsWhatNobodyAskedFor) {
  run_well(2, kAtTheMinimum, DType::kFloat16,
           [&](World&, ZeroOptimizer& optimizer, StagedModel& model) {
             model.step(StagedModel::kNotFinite);
             EXPECT_THROW(optimizer.synchronize(), LossScaleError);
             EXPECT_FALSE(optimizer.synchronize().applied);  // said once
             model.step(StagedModel::kNotFinite);
             EXPECT_THROW(optimizer.loss_scale(), LossScaleError);
             model.step(StagedModel::kNotFinite);
             EXPECT_THROW(optimizer.applied_steps(), LossScaleError);
           });
}

TEST_P(CudaErrors, SettingsThatDifferAreThrownByTheResultOrTwoStepsLater) {
  for (const bool ask : {true, false}) {
    run_well(2, "{}", DType::kFloat32,
             [&](World& world, ZeroOptimizer& optimizer, StagedModel& model) {
               EXPECT_TRUE(model.step(0).result().applied);
               ParamGroup group = optimizer.groups()[0];
               if (world.rank() == 1) group.lr = 0.125;
               optimizer.set_group(0, group);
               const StepHandle bad = model.step(1);
               const std::string text = message_of<UsageError>([&] {
                 if (ask) bad.result();
                 model.step(2);
                 model.step(3);
               });
               EXPECT_NE(text.find("lr of group 0 is 0.01 on rank 0 and 0.125 on rank 1"),
                         std::string::npos)
                   << text;
             });
  }
}

TEST_P(CudaErrors, ARankThatHasEndedEndsTheOthers) {
  std::atomic<int> told = 0;
  const std::exception_ptr error =
      run(3, "{}", DType::kFloat32, [&](World& world, ZeroOptimizer&, StagedModel& model) {
        model.step(0);
        if (world.rank() == 1) throw Broken("out of data");
        try {
          for (int step = 0; step < 3; ++step) model.step(1);
        } catch (const CommError& caught) {
          EXPECT_NE(std::string(caught.what()).find("rank 1"), std::string::npos) << caught.what();
          ++told;
          throw;
        }
      });
  EXPECT_EQ(told, 2);
  ASSERT_NE(error, nullptr);
  EXPECT_THROW(std::rethrow_exception(error), Broken);
}

TEST_P(CudaErrors, AHandleOutlivesItsOptimizer) {
  std::optional<StepHandle> asked, not_asked;
  run_well(1, "{}", DType::kFloat32, [&](World&, ZeroOptimizer&, StagedModel& model) {
    asked = model.step(0);
    asked->result();
    not_asked = model.step(1);
  });
  EXPECT_TRUE(asked->result().applied);
  EXPECT_TRUE(not_asked->boundary());
  EXPECT_TRUE(not_asked->result().applied);  // taken at the end
}

// What no one asked for is in the log all the same.
TEST_P(CudaErrors, ASkipOfTheLastStepIsLogged) {
  int lines = 0;
  run_well(1, R"({"fp16": {"enabled": true, "initial_scale_power": 4}})", DType::kFloat16,
           [&](World&, ZeroOptimizer& optimizer, StagedModel& model) {
             optimizer.set_log([&](std::string_view) { ++lines; });
             model.step(0);
             model.step(StagedModel::kNotFinite);
             EXPECT_EQ(lines, 0);
           });
  EXPECT_EQ(lines, 1);
}

TEST_P(CudaErrors, AFixedAddressIsOfMemoryThatTheDeviceReaches) {
  if (stage() == 3) GTEST_SKIP() << "stage 3 takes none";
  World world = World::cuda();
  ZeroOptimizer optimizer(staged_config(stage(), "{}"), world);
  std::vector<float> data(4), grad(4);
  optimizer.add_unit(
      "u",
      {{.name = "pageable", .shape = {4}, .data = fixed(data.data()), .grad = fixed(grad.data())}});
  const std::string text = message_of<ConfigError>([&] { optimizer.prepare(); });
  EXPECT_NE(text.find("pageable"), std::string::npos) << text;
}

TEST(CudaRanks, MoreThanASumCanReadAreRefused) {
  RunOptions options;
  options.device = DeviceKind::kCuda;
  const std::string text = message_of<UsageError>([&] {
    run_ranks(
        300, [](World&) {}, options);
  });
  EXPECT_NE(text.find("300"), std::string::npos) << text;
}

// Steps in which call `fail_at` of the last rank fails; none if it is -1. Worlds end when every
// stream is through: who fails early must not free what the others still read.
std::exception_ptr run_failing(int stage, int fail_at, bool on_stream, int* calls) {
  RunOptions options;
  options.device = DeviceKind::kCuda;
  options.timeout = std::chrono::seconds(60);
  std::vector<std::unique_ptr<World>> worlds(3);
  std::exception_ptr error;
  try {
    run_ranks(
        3,
        [&](World& outer) {
          const bool last = outer.rank() == 2;
          auto failing = std::make_unique<faults::FailingCommunicator>(
              outer.communicator(), last ? fail_at : -1, on_stream);
          const faults::FailingCommunicator& counter = *failing;
          std::unique_ptr<World>& world = worlds[static_cast<std::size_t>(outer.rank())];
          world = std::make_unique<World>(make_cuda_device(), std::move(failing));
          ZeroOptimizer optimizer(staged_config(stage), *world);
          StagedModel model(optimizer, *world, DType::kFloat32);
          model.prepare();
          for (int step = 0; step < 2; ++step) model.step(step);
          if (last && calls != nullptr) *calls = counter.calls();
          // What fails on a stream is known to who waits for that stream later: the next step.
          optimizer.synchronize();
          model.step(2);
        },
        options);
  } catch (...) {
    error = std::current_exception();
  }
  for (const auto& world : worlds) {
    if (world != nullptr) world->drain();
  }
  return error;
}

TEST_P(CudaErrors, EveryCallMayFail) {
  int calls = 0;
  ASSERT_EQ(run_failing(stage(), -1, false, &calls), nullptr);
  ASSERT_GT(calls, 8);
  const std::optional<RuntimeCounts> start = runtime_counts();
  for (const bool on_stream : {false, true}) {
    for (int fail_at = 0; fail_at < calls; fail_at += 3) {
      SCOPED_TRACE(testing::Message() << "call " << fail_at << ", on stream " << on_stream);
      const std::exception_ptr error = run_failing(stage(), fail_at, on_stream, nullptr);
      ASSERT_NE(error, nullptr);
      EXPECT_THROW(std::rethrow_exception(error), Broken);
      if (start) {
        ASSERT_EQ(runtime_counts()->live_allocations, start->live_allocations);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, CudaErrors, testing::Range(0, 4),
                         [](const auto& stage) { return "Stage" + std::to_string(stage.param); });

}  // namespace
}  // namespace zero::test
