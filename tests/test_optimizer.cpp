// What the optimizer does with a model, beyond plain training: fixed addresses, deferred creation,
// whole tensors, freezing, unused parameters, repeated use, evaluation, skipped steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <stdexcept>

#include "tests/weight_fixtures.hpp"
#include "zero/error.hpp"

namespace zero::test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Optimizer, FixedAddressesTrainAsMovedPointersDo) {
  for (const int stage : {0, 1, 2}) {
    for (const char* patch : {"{}", R"({"gradient_accumulation_steps": 2})",
                              R"({"zero_optimization": {"overlap_comm": true}})"}) {
      run_on_device(2, [&](World& world) {
        ZeroOptimizer o(config(stage, patch), world);
        Room weight_room(world.device(), 5 * sizeof(float));
        Room grad_room(world.device(), 5 * sizeof(float));
        float* const weights = weight_room.as<float>();
        float* const grads = grad_room.as<float>();
        const auto weight = [&](std::int64_t i) {
          return HostView<const float>(world.device(), weights + i, 1)[0];
        };
        for (int i = 0; i < 5; ++i) {  // rank 0's values count
          const HostView<float> start(world.device(), weights + i, 1);
          start[0] = world.rank() == 0 ? static_cast<float>(1 + i) : 99.0f;
        }
        // What is there before prepare() does not.
        for (float& g : HostView<float>(world.device(), grads, 5)) g = 77;
        const Unit unit = o.add_unit(
            "u", {{.name = "w", .shape = {5}, .data = fixed(weights), .grad = fixed(grads)}});
        o.prepare();
        for (int i = 0; i < 5; ++i) EXPECT_EQ(weight(i), static_cast<float>(1 + i));
        for (int step = 1; step <= 2; ++step) {
          for (int micro = 0; micro < o.accumulation_steps(); ++micro) {
            { const Use use = o.forward(unit); }
            {
              const Use use = o.backward(unit);
              for (float& g : HostView<float>(world.device(), grads, 5)) {
                g += static_cast<float>(1 + 2 * world.rank());  // mean 2
              }
            }
            o.step();
          }
          EXPECT_FLOAT_EQ(weight(0), 1.0f - static_cast<float>(step));
          EXPECT_FLOAT_EQ(weight(4), 5.0f - static_cast<float>(step));
        }
      });
    }
  }
}

TEST(Optimizer, InitFunctionsBuildBucketByBucketOnRankZeroOnly) {
  for (const int stage : {0, 1, 2, 3}) {
    std::mutex mutex;
    int calls = 0;
    run_on_device(3, [&](World& world) {
      ZeroOptimizer o(config(stage, R"({"zero_optimization": {"reduce_bucket_size": 100}})"),
                      world);
      float* data[8] = {};
      float* grad[8] = {};
      for (int i = 0; i < 8; ++i) {
        ParamSpec spec{
            .name = "w" + std::to_string(i), .shape = {100}, .data = &data[i], .grad = &grad[i]};
        spec.init = [&, i](std::span<std::byte> bytes) {
          EXPECT_EQ(world.rank(), 0);
          EXPECT_EQ(bytes.size(), 400u);
          for (int k = 0; k < 100; ++k)
            reinterpret_cast<float*>(bytes.data())[k] = static_cast<float>(i * 1000 + k);
          const std::lock_guard lock(mutex);
          ++calls;
        };
        o.add_unit("u" + std::to_string(i), {std::move(spec)});
      }
      o.prepare();
      for (int i = 0; i < 8; ++i) {
        const std::vector<float> values = read(o, "w" + std::to_string(i), Tensor::kParams, 100);
        EXPECT_EQ(values[0], static_cast<float>(i * 1000));
        EXPECT_EQ(values[99], static_cast<float>(i * 1000 + 99));
      }
      if (stage == 3) {
        // Never more than what stays plus one bucket: 120 elements with padding.
        EXPECT_LE(o.ledger().account(Category::kGather).peak_bytes, 120 * 4);
      }
    });
    EXPECT_EQ(calls, 8);
  }
}

TEST(Optimizer, WriteReachesEveryCopyAndSurvivesTheNextStep) {
  for (const int stage : {0, 1, 2, 3}) {
    run_on_device(3, [&](World& world) {
      ZeroOptimizer o(config(stage, R"({"bf16": {"enabled": true}})"), world);
      std::vector<bf16> start(20);
      bf16* data = start.data();
      bf16* grad = nullptr;
      const Unit unit =
          o.add_unit("u", {{.name = "w", .shape = {20}, .data = &data, .grad = &grad}});
      o.prepare();
      std::vector<float> values(20);
      for (std::size_t i = 0; i < 20; ++i) values[i] = 1.0f + static_cast<float>(i) / 1024;
      if (world.rank() != 0) values.assign(20, 55);  // rank 0's are taken
      o.write("w", Tensor::kMasterWeights, values);
      for (std::size_t i = 0; i < 20; ++i) values[i] = 1.0f + static_cast<float>(i) / 1024;
      EXPECT_EQ(read(o, "w", Tensor::kMasterWeights, 20), values);
      EXPECT_EQ(read(o, "w", Tensor::kParams, 20)[1], to_float(from_float<bf16>(values[1])));
      {
        const Use use = o.forward(unit);
        const HostView<const bf16> seen(world.device(), data, 20);
        EXPECT_EQ(to_float(seen[19]), to_float(from_float<bf16>(values[19])));
      }
      {
        const Use use = o.backward(unit);
        for (bf16& g : HostView<bf16>(world.device(), grad, 20)) g = from_float<bf16>(1.0f);
      }
      o.step();
      EXPECT_EQ(read(o, "w", Tensor::kMasterWeights, 20)[1], values[1] - 0.5f);
      o.write("w", Tensor::kParams, std::vector<float>(20, 1.0f + 1.0f / 1024));
      EXPECT_THAT(read(o, "w", Tensor::kMasterWeights, 20), Each(1.0f));  // what the model sees
    });
  }
}

TEST(Optimizer, MomentsCanBeReadAndWritten) {
  for (const int stage : {0, 1, 2, 3}) {
    run_on_device(2, [&](World& world) {
      ZeroOptimizer o(config(stage, R"({"optimizer": {"type": "AdamW"}})"), world);
      Weight w(world, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
      o.add_unit("u", {w.spec("w")});
      o.prepare();
      std::vector<float> values(11);
      for (std::size_t i = 0; i < 11; ++i) values[i] = static_cast<float>(i);
      o.write("w", Tensor::kExpAvg, values);
      EXPECT_EQ(read(o, "w", Tensor::kExpAvg, 11), values);
      EXPECT_THAT(read(o, "w", Tensor::kExpAvgSq, 11), Each(0.0f));
    });
  }
}

TEST(Optimizer, RegisteredFrozenStaysFrozen) {
  for (const int stage : {0, 1, 2, 3}) {
    run_on_device(2, [&](World& world) {
      ZeroOptimizer o(config(stage), world);
      Weight t(world, {1, 2, 3});
      Weight f(world, {4, 5, 6});
      ParamSpec frozen = f.spec("f");
      frozen.requires_grad = false;
      frozen.grad = {};
      const Unit unit = o.add_unit("u", {t.spec("t"), frozen});
      o.prepare();
      {
        const Use use = o.forward(unit);
        EXPECT_EQ(f.get(1), 5);
      }
      {
        const Use use = o.backward(unit);
        t.add(1);
      }
      o.step();
      EXPECT_THAT(read(o, "t", Tensor::kParams, 3), ElementsAre(0.5f, 1.5f, 2.5f));
      EXPECT_THAT(read(o, "f", Tensor::kParams, 3), ElementsAre(4, 5, 6));
      EXPECT_THROW(read(o, "f", Tensor::kGrads, 3), UsageError);
      EXPECT_THROW(o.set_requires_grad("f", true), ConfigError);
    });
  }
}

// A model need not know that one of its parameters is frozen for a while: what it adds is dropped.
TEST(Optimizer, GradientsOfFrozenParametersCountNowhere) {
  for (const int stage : {0, 1, 2, 3}) {
    run_on_device(2, [&](World& world) {
      ZeroOptimizer o(config(stage), world);
      Weight a(world, {1, 1, 1});
      Weight b(world, {1, 1, 1});
      const Unit unit = o.add_unit("u", {a.spec("a"), b.spec("b")});
      o.prepare();
      o.set_requires_grad("b", false);
      {
        const Use use = o.backward(unit);
        a.add(2);
        b.add(1000);
      }
      const StepResult r = o.step();
      EXPECT_DOUBLE_EQ(r.grad_norm, std::sqrt(12.0));
      EXPECT_THAT(read(o, "b", Tensor::kParams, 3), Each(1.0f));
    });
  }
}

// A bucket that is frozen as a whole waits for its backward pass like any other: sent early, it
// would have to be sent again, which reproducible mode refuses.
TEST(Optimizer, FreezingAWholeBucketChangesNeitherTrafficNorMode) {
  for (const int stage : {0, 1, 2, 3}) {
    for (const char* patch : {"{}", R"({"runtime": {"reproducible": true}})"}) {
      run_on_device(2, [&](World& world) {
        Config small_buckets = config(stage, patch);
        small_buckets.set("zero_optimization.reduce_bucket_size", "1");
        ZeroOptimizer o(small_buckets, world);
        Weight a(world, {0, 0, 0});
        Weight b(world, {0, 0, 0});
        const Unit ua = o.add_unit("ua", {a.spec("a")});
        const Unit ub = o.add_unit("ub", {b.spec("b")});
        o.prepare();
        std::vector<std::int64_t> bytes;
        for (const bool train_a : {true, false, true}) {
          o.set_requires_grad("a", train_a);
          o.reset_traffic();
          {
            const Use use = o.backward(ub);
            b.add(1);
          }
          {
            const Use use = o.backward(ua);
            a.add(1);
          }
          EXPECT_TRUE(o.step().result().applied);
          bytes.push_back(o.traffic().model_bytes());
        }
        EXPECT_EQ(bytes[0], bytes[1]);
        EXPECT_EQ(bytes[0], bytes[2]);
        EXPECT_THAT(read(o, "a", Tensor::kParams, 3), Each(-1.0f));
        EXPECT_THAT(read(o, "b", Tensor::kParams, 3), Each(-1.5f));
      });
    }
  }
}

TEST(Optimizer, SecondContributionAfterTheBucketWasSentIsAdded) {
  for (const int stage : {0, 1, 2, 3}) {
    for (const char* patch : {"{}", R"({"zero_optimization": {"overlap_comm": true}})",
                              R"({"gradient_accumulation_steps": 2})"}) {
      run_on_device(2, [&](World& world) {
        Config small_buckets = config(stage, patch);
        small_buckets.set("zero_optimization.reduce_bucket_size", "1");
        ZeroOptimizer o(small_buckets, world);
        Weight a(world, {0, 0, 0});
        Weight b(world, {0, 0, 0});
        const Unit ua = o.add_unit("ua", {a.spec("a")});
        const Unit ub = o.add_unit("ub", {b.spec("b")});
        o.prepare();
        o.reset_traffic();
        std::vector<std::int64_t> calls;  // of reductions, per step
        for (int step = 1; step <= 3; ++step) {
          for (int micro = 0; micro < o.accumulation_steps(); ++micro) {
            for (int use_count = 0; use_count < 2; ++use_count) {  // a weight used twice over
              const Use use = o.backward(ub);
              b.add(1);
            }
            {
              const Use use = o.backward(ua);
              a.add(1);
            }
            o.step();
          }
          EXPECT_THAT(read(o, "a", Tensor::kParams, 3), Each(-0.5f * static_cast<float>(step)));
          EXPECT_THAT(read(o, "b", Tensor::kParams, 3), Each(-1.0f * static_cast<float>(step)));
          const Traffic& traffic = o.traffic();
          calls.push_back(traffic.at(Purpose::kGradients, Verb::kReduceScatter).calls +
                          traffic.at(Purpose::kGradients, Verb::kAllReduce).calls);
          o.reset_traffic();
        }
        // How often the parameter is used was learnt in the first micro-step.
        EXPECT_EQ(calls[1], calls[2]);
        if (stage >= 2) {
          EXPECT_EQ(calls[0], calls[1] + 1);
        }
      });
    }
  }
}

// Stages 0 and 1 with fp32 sums of bf16 gradients: also what comes after its bucket was folded is
// added in fp32. In bf16, 256 + 1 is 256.
TEST(Optimizer, LateContributionsAreFoldedInFp32) {
  for (const int stage : {0, 1}) {
    run_on_device(2, [&](World& world) {
      ZeroOptimizer o(config(stage, R"({"gradient_accumulation_steps": 2,
                                        "data_types": {"grad_accum_dtype": "fp32"}})"),
                      world);
      std::vector<bf16> start(5, from_float<bf16>(0.0f));
      bf16* data = start.data();
      bf16* grad = nullptr;
      const Unit unit =
          o.add_unit("u", {{.name = "w", .shape = {5}, .data = &data, .grad = &grad}});
      o.prepare();
      const auto backward = [&](float value) {
        const Use use = o.backward(unit);
        for (bf16& g : HostView<bf16>(world.device(), grad, 5)) {
          g = from_float<bf16>(to_float(g) + value);
        }
      };
      backward(256);
      backward(1);  // a second use is not expected yet: the first was folded already
      o.step();
      backward(256);
      o.step();
      EXPECT_THAT(read(o, "w", Tensor::kGrads, 5), Each(513.0f / 2)) << "stage " << stage;
    });
  }
}

// Memory that is on its way, or gone, is out of the model's reach: a write there is a crash, not a
// wrong sum.
TEST(Optimizer, GradientPointersOutliveTheirMemoryAtNoStage) {
  for (const int stage : {0, 1, 2, 3}) {
    for (const bool late : {false, true}) {
      run_on_device(2, [&](World& world) {
        ZeroOptimizer o(config(stage), world);
        Weight w(world, {1, 2, 3});
        const Unit unit = o.add_unit("u", {w.spec("w")});
        o.prepare();
        const float* const home = w.grad;
        EXPECT_EQ(home == nullptr, stage >= 2);  // passing memory is not there yet
        for (int i = 0; i < (late ? 2 : 1); ++i) {
          const Use use = o.backward(unit);
          w.add(1);
        }
        if (!late) {
          EXPECT_EQ(w.grad, home);
        }
        o.step();
        EXPECT_EQ(w.grad, home);
      });
    }
  }
}

TEST(Optimizer, EvaluationBetweenAndWithinStepsChangesNothing) {
  for (const int stage : {2, 3}) {
    std::vector<float> with, without;
    for (const bool evaluate : {false, true}) {
      run_on_device(2, [&](World& world) {
        ZeroOptimizer o(config(stage, R"({"zero_optimization": {"overlap_comm": true}})"), world);
        std::vector<Weight> weights;
        for (int i = 0; i < 4; ++i)
          weights.emplace_back(world, std::vector<float>(50, static_cast<float>(i)));
        std::vector<Unit> units;
        for (int i = 0; i < 4; ++i) {
          units.push_back(
              o.add_unit("u" + std::to_string(i),
                         {weights[static_cast<std::size_t>(i)].spec("w" + std::to_string(i))}));
        }
        o.prepare();
        const auto forward = [&] {
          for (std::size_t i = 0; i < 4; ++i) {
            const Use use = o.forward(units[i]);
            EXPECT_NE(weights[i].data, nullptr);
          }
        };
        for (int step = 0; step < 4; ++step) {
          if (evaluate) {
            forward();
            forward();
          }
          forward();
          for (std::size_t i = 4; i-- > 0;) {
            const Use use = o.backward(units[i]);
            weights[i].add(weights[i].get(0) * 0.5f + 1.0f);
          }
          o.step();
          if (evaluate && step == 2) forward();
        }
        std::vector<float> values = read(o, "w3", Tensor::kParams, 50);
        if (world.rank() == 0) (evaluate ? with : without) = values;
      });
    }
    EXPECT_EQ(with, without);
  }
}

TEST(Optimizer, PointersAreNullOutsideTheGuardsAtStage3) {
  run_on_device(2, [&](World& world) {
    ZeroOptimizer o(config(3), world);
    Weight w(world, {1, 2, 3});
    const Unit unit = o.add_unit("u", {w.spec("w")});
    o.prepare();
    EXPECT_EQ(w.data, nullptr);
    {
      const Use outer = o.forward(unit);
      { const Use inner = o.forward(unit); }
      EXPECT_EQ(w.get(2), 3);  // still in use
    }
    EXPECT_EQ(w.data, nullptr);
  });
}

TEST(Optimizer, ASkipIsLoggedWithParameterAndRankAndChangesNothing) {
  for (const int stage : {0, 1, 2, 3}) {
    run_on_device(2, [&](World& world) {
      ZeroOptimizer o(config(stage), world);
      std::vector<std::string> lines;
      o.set_log([&](std::string_view line) { lines.emplace_back(line); });
      Weight a(world, {1, 1, 1});
      Weight b(world, std::vector<float>(40, 1.0f));
      const Unit unit = o.add_unit("u", {a.spec("a"), b.spec("b")});
      o.prepare();
      {
        const Use use = o.backward(unit);
        if (world.rank() == 0) b.gradients()[39] = std::numeric_limits<float>::infinity();
      }
      const StepResult r = o.step();
      EXPECT_TRUE(r.skipped);
      EXPECT_FALSE(r.applied);
      EXPECT_EQ(r.nonfinite_param, "b");
      EXPECT_EQ(r.nonfinite_rank, 1);  // whose shard the element is in
      ASSERT_EQ(lines.size(), 1u);
      EXPECT_THAT(lines[0],
                  testing::AllOf(HasSubstr("skipped"), HasSubstr("b"), HasSubstr("rank 1")));
      EXPECT_THAT(read(o, "a", Tensor::kParams, 3), Each(1.0f));
      EXPECT_EQ(o.applied_steps(), 0);
      {
        const Use use = o.backward(unit);
        a.add(1);
        b.add(1);
      }
      EXPECT_TRUE(o.step().result().applied);
      EXPECT_THAT(read(o, "b", Tensor::kParams, 40), Each(0.5f));
    });
  }
}

// Adam squares the gradient: a finite one whose square is not counts as an overflow.
TEST(Optimizer, ASquareBeyondFp32IsAnOverflowForAdamOnly) {
  for (const char* type : {"AdamW", "SGD"}) {
    run_on_device(2, [&](World& world) {
      ZeroOptimizer o(config(2, std::string(R"({"optimizer": {"type": ")") + type +
                                    R"(", "params": {"lr": 1e-30}}})"),
                      world);
      o.set_log([](std::string_view) {});
      Weight w(world, {1, 1, 1});
      const Unit unit = o.add_unit("u", {w.spec("w")});
      o.prepare();
      {
        const Use use = o.backward(unit);
        w.add(1e30f);
      }
      EXPECT_EQ(o.step().result().skipped, std::string(type) == "AdamW");
    });
  }
}

}  // namespace
}  // namespace zero::test
