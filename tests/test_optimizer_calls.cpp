// Calls around the passes: several optimizers, groups and schedules, freezing, exceptions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "tests/weight_fixtures.hpp"
#include "zero/error.hpp"

namespace zero::test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// Both communicate beside compute; within one of the passes of `a` comes a whole step of `b`.
// ThreadSanitizer sees an order that is missing in any step.
#if defined(__SANITIZE_THREAD__)
constexpr int kInterleavedSteps = 4;
#else
constexpr int kInterleavedSteps = 20;
#endif
TEST(Optimizer, TwoOptimizersOfOneWorldInterleave) {
  for (const int stage : {0, 1, 2, 3}) {
    for (const bool overlap_a : {false, true}) {
      for (const bool overlap_b : {false, true}) {
        SCOPED_TRACE(testing::Message() << stage << overlap_a << overlap_b);
        run_on_device(3, [&](World& world) {
          const auto with = [&](bool overlap) {
            Config c = config(stage);
            c.set("zero_optimization.overlap_comm", overlap ? "true" : "false");
            return c;
          };
          ZeroOptimizer oa(with(overlap_a), world);
          ZeroOptimizer ob(with(overlap_b), world);
          Weight a(world, {1, 2, 3, 4, 5, 6, 7});
          Weight b(world, {1, 2, 3, 4, 5});
          const Unit ua = oa.add_unit("u", {a.spec("a")});
          const Unit ub = ob.add_unit("u", {b.spec("b")});
          oa.prepare();
          ob.prepare();
          const auto pass = [](ZeroOptimizer& o, Unit unit, const Weight& w, auto inside) {
            { const Use use = o.forward(unit); }
            {
              const Use use = o.backward(unit);
              w.add(1);
              inside();
            }
          };
          for (int step = 1; step <= kInterleavedSteps; ++step) {
            pass(oa, ua, a, [&] {
              pass(ob, ub, b, [] {});
              ob.step();
            });
            pass(ob, ub, b, [] {});
            oa.step();
            ob.step();
          }
          EXPECT_FLOAT_EQ(read(oa, "a", Tensor::kParams, 7)[6], 7.0f - 0.5f * kInterleavedSteps);
          EXPECT_FLOAT_EQ(read(ob, "b", Tensor::kParams, 5)[4], 5.0f - 1.0f * kInterleavedSteps);
        });
      }
    }
  }
}

// The k-th applied update runs at t = k - 2: twice at the start, and a skipped step moves nothing.
TEST(Optimizer, SchedulesCountAppliedUpdates) {
  for (const int stage : {0, 1, 2, 3}) {
    for (const bool own_function : {false, true}) {
      run_on_device(2, [&](World& world) {
        Config c = config(stage);
        if (!own_function) {
          c.merge(R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0,
                      "warmup_max_lr": [0.5, 0.25], "warmup_num_steps": 4,
                      "warmup_type": "linear"}}})");
        }
        ZeroOptimizer o(c, world);
        o.set_log([](std::string_view) {});
        o.add_group({.lr = 77});
        if (own_function) {
          o.set_lr_schedule(make_lr_schedule([](std::int64_t t, int group) {
            return (group == 0 ? 0.5 : 0.25) *
                   static_cast<double>(std::clamp<std::int64_t>(t, 0, 4)) / 4;
          }));
        }
        Weight w(world, {0, 0, 0});
        const Unit unit = o.add_unit("u", {w.spec("w")});
        o.prepare();
        const double want[] = {0, 0, 0.125, 0.125, 0.25, 0.375, 0.5, 0.5};
        for (int step = 0; step < 8; ++step) {
          const bool overflows = step == 2;
          {
            const Use use = o.backward(unit);
            w.add(overflows ? std::numeric_limits<float>::infinity() : 1.0f);
          }
          const StepResult r = o.step();
          EXPECT_EQ(r.skipped, overflows);
          ASSERT_EQ(r.lr.size(), 2u);
          EXPECT_DOUBLE_EQ(r.lr[0], want[step]) << step;
          EXPECT_DOUBLE_EQ(r.lr[1], want[step] / 2) << step;
        }
        EXPECT_THAT(read(o, "w", Tensor::kParams, 3), Each(-1.75f));
      });
    }
  }
}

TEST(Optimizer, SchedulesThatCannotBe) {
  World world = test_world();
  ZeroOptimizer o(config(0, R"({"scheduler": {"type": "WarmupLR",
                                "params": {"warmup_max_lr": [1, 2, 3]}}})"),
                  world);
  const auto constant = [] { return make_lr_schedule([](std::int64_t, int) { return 0.5; }); };
  EXPECT_THROW(o.set_lr_schedule(constant()), UsageError);  // two owners of the rates
  EXPECT_THROW(o.prepare(), ConfigError);                   // three rates for one group
  EXPECT_EQ(world.ledger().total().peak_bytes, 0);
}

// What the file may not say cannot be said later either.
TEST(Optimizer, ParamGroupsHaveTheRangesOfTheFile) {
  World world = test_world();
  ZeroOptimizer o(config(1), world);
  const ParamGroup good{.lr = 0, .beta1 = 0, .beta2 = 0, .eps = 0, .weight_decay = 0};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  int checked = 0;
  const auto refused = [&](double ParamGroup::*field, const char* name, double value) {
    ParamGroup bad = good;
    bad.*field = value;
    const auto check = [&](auto call) {
      try {
        call();
        ADD_FAILURE() << name << " " << value << " accepted";
      } catch (const ConfigError& error) {
        EXPECT_THAT(error.what(), HasSubstr(name));
        EXPECT_THAT(error.what(), HasSubstr("param group"));
        ++checked;
      }
    };
    check([&] { o.add_group(bad); });
    check([&] { o.set_group(0, bad); });
  };
  for (const double value : {-1e-3, nan, inf}) {
    refused(&ParamGroup::lr, "lr", value);
    refused(&ParamGroup::eps, "eps", value);
    refused(&ParamGroup::weight_decay, "weight_decay", value);
  }
  for (const double value : {-0.1, 1.0, nan}) {
    refused(&ParamGroup::beta1, "beta1", value);
    refused(&ParamGroup::beta2, "beta2", value);
  }
  EXPECT_EQ(checked, 30);
  EXPECT_EQ(o.groups().size(), 1u);
  EXPECT_EQ(o.add_group(good), 1);
  o.set_group(0, good);
  EXPECT_EQ(o.groups()[0], good);
}

TEST(Optimizer, FreezingIsBetweenSteps) {
  run_on_device(2, [&](World& world) {
    ZeroOptimizer o(config(2), world);
    Weight w(world, {1, 2, 3});
    const Unit unit = o.add_unit("u", {w.spec("w")});
    o.prepare();
    { const Use use = o.forward(unit); }
    o.set_requires_grad("w", false);  // no gradient is under way yet
    o.set_requires_grad("w", true);
    {
      const Use use = o.backward(unit);
      w.add(1);
      EXPECT_THROW(o.set_requires_grad("w", false), UsageError);
    }
    EXPECT_THROW(o.set_requires_grad("w", false), UsageError);
    EXPECT_TRUE(o.step().result().applied);
    EXPECT_THAT(read(o, "w", Tensor::kParams, 3), ElementsAre(0.5f, 1.5f, 2.5f));
    o.set_requires_grad("w", false);
  });
}

TEST(Optimizer, AnExceptionInAForwardPassEndsItAndTrainingGoesOn) {
  for (const int stage : {0, 1, 2, 3}) {
    run_on_device(2, [&](World& world) {
      ZeroOptimizer o(config(stage), world);
      Weight w(world, {1, 2, 3});
      const Unit unit = o.add_unit("u", {w.spec("w")});
      o.prepare();
      const auto bad_sample = [&] {
        const Use use = o.forward(unit);
        throw std::runtime_error("bad sample");
      };
      EXPECT_THROW(bad_sample(), std::runtime_error);
      EXPECT_EQ(w.data == nullptr, stage == 3);
      { const Use use = o.forward(unit); }
      {
        const Use use = o.backward(unit);
        w.add(1);
      }
      EXPECT_TRUE(o.step().result().applied);
      EXPECT_THAT(read(o, "w", Tensor::kParams, 3), ElementsAre(0.5f, 1.5f, 2.5f));
    });
  }
}

TEST(Optimizer, AnExceptionInABackwardPassIsToldByEveryLaterCall) {
  for (const int stage : {0, 1, 2, 3}) {
    run_on_device(2, [&](World& world) {
      ZeroOptimizer o(config(stage), world);
      Weight w(world, {1, 2, 3});
      const Unit unit = o.add_unit("layer7", {w.spec("w")});
      o.prepare();
      const auto fails = [&] {
        const Use use = o.backward(unit);
        throw std::runtime_error("out of memory");
      };
      EXPECT_THROW(fails(), std::runtime_error);
      const auto told = [&](auto call) {
        try {
          call();
          ADD_FAILURE() << "accepted";
        } catch (const UsageError& error) {
          EXPECT_THAT(error.what(), HasSubstr("backward pass over unit layer7"));
        }
      };
      told([&] { o.step(); });
      told([&] { o.begin_forward(unit); });
      told([&] { o.begin_backward(unit); });
      // What it has can still be saved.
      EXPECT_THAT(read(o, "w", Tensor::kMasterWeights, 3), ElementsAre(1, 2, 3));
    });
  }
}

}  // namespace
}  // namespace zero::test
