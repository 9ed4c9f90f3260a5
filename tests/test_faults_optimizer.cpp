// Ranks that go wrong under a ZeroOptimizer, at every stage, with overlap and without.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <tuple>
#include <utility>

#include "tests/failing_communicator.hpp"
#include "tests/fault_fixtures.hpp"
#include "zero/zero_optimizer.hpp"

namespace zero::faults {
namespace {

// Two units of two parameters, small enough to train in no time.
struct Model {
  struct Layer {
    float* w = nullptr;
    float* w_grad = nullptr;
    float* b = nullptr;
    float* b_grad = nullptr;
    Unit unit;
  };
  static constexpr std::int64_t kWeights = 24;
  std::array<Layer, 2> layers;

  Device& device;
  explicit Model(World& world) : device(world.device()) {}

  void add_to(ZeroOptimizer& optimizer, std::int64_t weights = kWeights) {
    const auto ones = [](std::span<std::byte> memory) {
      auto* const values = reinterpret_cast<float*>(memory.data());
      for (std::size_t i = 0; i < memory.size() / sizeof(float); ++i) values[i] = 1.0f;
    };
    for (std::size_t i = 0; i < layers.size(); ++i) {
      Layer& l = layers[i];
      const std::string name = "layer" + std::to_string(i);
      l.unit = optimizer.add_unit(name, {{.name = name + ".w",
                                          .shape = {weights},
                                          .data = &l.w,
                                          .grad = &l.w_grad,
                                          .dtype = {},
                                          .init = ones},
                                         {.name = name + ".b",
                                          .shape = {3},
                                          .data = &l.b,
                                          .grad = &l.b_grad,
                                          .dtype = {},
                                          .init = ones}});
    }
  }
  void forward(ZeroOptimizer& optimizer) {
    for (Layer& l : layers) {
      auto use = optimizer.forward(l.unit);
      const HostView<const float> w(device, l.w, 2);
      ASSERT_EQ(w[0], w[1]);
    }
  }
  void add_gradient(Layer& l) {
    for (float& g : HostView<float>(device, l.w_grad, kWeights)) g += 0.5f;
    for (float& g : HostView<float>(device, l.b_grad, 3)) g += 0.25f;
  }
  void backward(ZeroOptimizer& optimizer) {
    for (auto l = layers.rbegin(); l != layers.rend(); ++l) {
      auto use = optimizer.backward(l->unit);
      add_gradient(*l);
    }
  }
  void step(ZeroOptimizer& optimizer) {
    forward(optimizer);
    backward(optimizer);
    optimizer.step().result();
  }
};

Config make_config(int stage, bool overlap) {
  return Config::parse(
      detail::concat(R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": )",
                     stage, R"(, "overlap_comm": )", overlap ? "true" : "false",
                     R"(, "reduce_bucket_size": 40, "stage3_param_persistence_threshold": 2},)",
                     R"("runtime": {"timeout_s": 60}})"));
}

class OptimizerFaults : public ::testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  static constexpr int kRanks = 3;
  int stage() const { return std::get<0>(GetParam()); }
  Config config() const { return make_config(stage(), std::get<1>(GetParam())); }

  // Two good steps on all ranks, then `wrong` on the culprit and another two steps on the others.
  template <class Wrong>
  Outcome train(int culprit, Wrong wrong, double timeout_s = 60.0) {
    return run_to_the_end(
        kRanks,
        [&](World& world) {
          ZeroOptimizer optimizer(config(), world);
          Model model(world);
          model.add_to(optimizer);
          optimizer.prepare();
          for (int step = 0; step < 2; ++step) model.step(optimizer);
          world.communicator().set_timeout(std::chrono::duration<double>(timeout_s));
          if (world.rank() == culprit) {
            wrong(optimizer, model);
          } else {
            for (int step = 0; step < 2; ++step) model.step(optimizer);
          }
        },
        60.0);
  }
};

TEST_P(OptimizerFaults, NothingGoesWrong) {
  const Outcome outcome = train(1, [](ZeroOptimizer& optimizer, Model& model) {
    for (int step = 0; step < 2; ++step) model.step(optimizer);
  });
  EXPECT_EQ(outcome.whole, nullptr) << message(outcome.whole);
}

TEST_P(OptimizerFaults, ARankThrowsInTheMiddleOfBackward) {
  for (const int culprit : {0, kRanks - 1}) {
    SCOPED_TRACE(culprit);
    const Outcome outcome = train(culprit, [](ZeroOptimizer& optimizer, Model& model) {
      model.forward(optimizer);
      auto use = optimizer.backward(model.layers[1].unit);
      model.add_gradient(model.layers[1]);
      throw Broken("the loss is wrong");
    });
    EXPECT_TRUE(is<Broken>(outcome.whole)) << message(outcome.whole);
    expect_others_name(outcome, culprit, {rank_name(culprit)});
  }
}

TEST_P(OptimizerFaults, ARankThrowsBetweenTheGuards) {
  const Outcome outcome = train(1, [](ZeroOptimizer& optimizer, Model& model) {
    model.forward(optimizer);
    model.backward(optimizer);
    throw Broken("out of data");
  });
  EXPECT_TRUE(is<Broken>(outcome.whole)) << message(outcome.whole);
  expect_others_name(outcome, 1, {"rank 1"});
}

TEST_P(OptimizerFaults, ARankDoesNotStep) {
  for (const int culprit : {0, kRanks - 1}) {
    SCOPED_TRACE(culprit);
    const Outcome outcome = train(culprit, [](ZeroOptimizer& optimizer, Model& model) {
      model.forward(optimizer);
      model.backward(optimizer);
    });
    EXPECT_TRUE(is<CommError>(outcome.whole)) << message(outcome.whole);
    expect_others_name(outcome, culprit, {rank_name(culprit)});
  }
}

// It forgets one step and goes on with the next: the ranks are at different operations.
TEST_P(OptimizerFaults, ARankForgetsAStepAndGoesOn) {
  const Outcome outcome = train(1, [](ZeroOptimizer& optimizer, Model& model) {
    model.forward(optimizer);
    model.backward(optimizer);
    for (int step = 0; step < 2; ++step) model.step(optimizer);
  });
  ASSERT_NE(outcome.whole, nullptr);
  EXPECT_TRUE(is<Error>(outcome.whole)) << message(outcome.whole);
}

TEST_P(OptimizerFaults, ARankGoesBackwardOnceMore) {
  for (const int culprit : {0, kRanks - 1}) {
    SCOPED_TRACE(culprit);
    const Outcome outcome = train(culprit, [](ZeroOptimizer& optimizer, Model& model) {
      model.forward(optimizer);
      model.backward(optimizer);
      {
        auto use = optimizer.backward(model.layers[0].unit);
        model.add_gradient(model.layers[0]);
      }
      optimizer.step().result();
      model.step(optimizer);
    });
    EXPECT_TRUE(is<CommError>(outcome.whole)) << message(outcome.whole);
    const std::string text = message(outcome.whole);
    if (stage() == 3) {  // the gather for the pass comes first, and differs already
      expect_names(text, {rank_name(culprit), "layer0"});
    } else {
      expect_names(text,
                   {rank_name(culprit), "layer0.w: 2 contributions", "at most 1 contributions"});
    }
  }
}

TEST_P(OptimizerFaults, ARankIsLate) {
  const Outcome outcome = train(
      2,
      [](ZeroOptimizer& optimizer, Model& model) {
        wait_until_failed(kRanks - 1);
        model.step(optimizer);
      },
      kDeadlineS);
  EXPECT_TRUE(is<CommError>(outcome.whole)) << message(outcome.whole);
  expect_others_name(outcome, 2, {"rank 2", "0.3 s"});
}

TEST_P(OptimizerFaults, GroupSettingsDiffer) {
  const Outcome outcome = train(2, [](ZeroOptimizer& optimizer, Model& model) {
    ParamGroup group = optimizer.groups()[0];
    group.weight_decay = 0.125;
    optimizer.set_group(0, group);
    model.step(optimizer);
  });
  EXPECT_TRUE(is<UsageError>(outcome.whole)) << message(outcome.whole);
  expect_names(message(outcome.whole),
               {"weight_decay", "group 0", "0 on rank 0", "0.125 on rank 2"});
}

TEST_P(OptimizerFaults, FreezingDiffers) {
  const Outcome outcome = train(1, [](ZeroOptimizer& optimizer, Model& model) {
    optimizer.set_requires_grad("layer1.b", false);
    model.step(optimizer);
  });
  EXPECT_TRUE(is<UsageError>(outcome.whole)) << message(outcome.whole);
  expect_names(message(outcome.whole), {"layer1.b", "trainable on rank 0", "rank 1"});
}

// Runs prepare() with something else on rank 1; everyone has to end with the same error there.
void expect_refusal(const std::function<void(World&)>& body,
                    const std::vector<std::string>& parts) {
  const Outcome outcome = run_to_the_end(3, body, 60.0);
  EXPECT_NE(outcome.whole, nullptr) << "accepted: the ranks would drift apart";
  for (const auto& error : outcome.ranks) {
    EXPECT_TRUE(is<ConfigError>(error)) << message(error);
    expect_names(message(error), parts);
  }
}

TEST_P(OptimizerFaults, RegisteredWithAnotherShape) {
  const auto set_up = [&](World& world) {
    ZeroOptimizer optimizer(config(), world);
    Model model(world);
    model.add_to(optimizer, world.rank() == 1 ? 25 : 24);
    optimizer.prepare();
    ADD_FAILURE() << "accepted on rank " << world.rank();
  };
  expect_refusal(set_up, {"rank 0", "rank 1", "layer0.w [24]", "layer0.w [25]"});
}

TEST_P(OptimizerFaults, SetUpDiffers) {
  for (const char* patch :
       {R"({"gradient_clipping": 0.5})", R"({"gradient_clipping": 1.000001})",
        R"({"gradient_accumulation_steps": 2})", R"({"optimizer": {"type": "SGD"}})",
        R"({"optimizer": {"params": {"adam_w_mode": false}}})",
        R"({"optimizer": {"params": {"bias_correction": false}}})"}) {
    SCOPED_TRACE(patch);
    const auto set_up = [&](World& world) {
      Config mine = config();
      mine.merge(R"({"optimizer": {"type": "Adam", "params": {"lr": 0.001}}})");
      if (world.rank() == 1) mine.merge(patch);
      ZeroOptimizer optimizer(mine, world);
      Model model(world);
      model.add_to(optimizer);
      optimizer.prepare();
    };
    expect_refusal(set_up, {"rank 0", "rank 1"});
  }
}

// A run of two steps in which call `fail_at` of the last rank fails; gives the calls it made.
TEST_P(OptimizerFaults, EveryCallMayFail) {
  for (const bool on_stream : {false, true}) {
    // A stream of the host ends at a task that throws. On a CUDA stream kernels would go on: the
    // library puts no task there, and test_cuda_errors has what is told of one.
    if (on_stream && test::test_device() == DeviceKind::kCuda) continue;
    int calls = 1;
    for (int fail_at = -1; fail_at < calls; ++fail_at) {
      SCOPED_TRACE(::testing::Message()
                   << "call " << fail_at << " of " << calls << ", on stream " << on_stream);
      std::vector<std::unique_ptr<World>> worlds(kRanks);
      const Outcome outcome = run_to_the_end(
          kRanks,
          [&](World& outer) {
            const bool fails = outer.rank() == kRanks - 1;
            auto wrapped = std::make_unique<FailingCommunicator>(outer.communicator(),
                                                                 fails ? fail_at : -1, on_stream);
            FailingCommunicator& counter = *wrapped;
            // On CUDA others may still read this rank's memory when its body has ended: it is kept.
            std::unique_ptr<World>& own = worlds[static_cast<std::size_t>(outer.rank())];
            own = std::make_unique<World>(test::make_test_device(), std::move(wrapped));
            World& world = *own;
            const std::shared_ptr<void> end(nullptr, [&](void*) {
              world.drain();
              if (test::test_device() == DeviceKind::kHost) own.reset();
            });
            ZeroOptimizer optimizer(config(), world);
            Model model(world);
            model.add_to(optimizer);
            optimizer.prepare();
            for (int step = 0; step < 2; ++step) model.step(optimizer);
            std::vector<float> all(Model::kWeights);
            optimizer.read("layer0.w", Tensor::kExpAvg, all);
            if (fails && fail_at == -1) calls = counter.calls();
          },
          60.0);
      if (fail_at == -1) {
        ASSERT_EQ(outcome.whole, nullptr) << message(outcome.whole);
        ASSERT_GT(calls, 8);
        continue;
      }
      EXPECT_TRUE(is<Broken>(outcome.whole)) << message(outcome.whole);
      expect_others_name(outcome, kRanks - 1, {rank_name(kRanks - 1)});
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, OptimizerFaults,
                         ::testing::Combine(::testing::Range(0, 4), ::testing::Bool()),
                         [](const auto& the_case) {
                           return "stage" + std::to_string(std::get<0>(the_case.param)) +
                                  (std::get<1>(the_case.param) ? "_overlap" : "_inline");
                         });

}  // namespace
}  // namespace zero::faults
