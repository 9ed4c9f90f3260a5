// What the tests of checkpoints under faults share: an optimizer that trains, what it has to hold
// after so many steps, and what has to be found on the disk.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tests/fault_fixtures.hpp"
#include "zero/checkpoint.hpp"
#include "zero/zero_optimizer.hpp"

namespace zero::faults {

inline constexpr const char* kRoot = "/run";

// Weights and moments of all parameters.
using State = std::vector<float>;

// An optimizer with a model of two small parameters, whose gradient follows from their values.
class Trainer {
 public:
  Trainer(World& world, int stage, double timeout_s, int accumulation = 1)
      : optimizer(Config::parse(detail::concat(
                      R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": )",
                      accumulation, R"(, "zero_optimization": {"stage": )", stage,
                      R"(, "stage3_param_persistence_threshold": 0},)",
                      R"("optimizer": {"type": "AdamW", "params": {"lr": 0.1}},)",
                      R"("runtime": {"timeout_s": )", timeout_s, "}}")),
                  world) {
    std::vector<ParamSpec> specs;
    for (Param& p : params_) {
      specs.push_back({.name = p.name,
                       .shape = {p.elems},
                       .data = &p.data,
                       .grad = &p.grad,
                       .dtype = {},
                       .init = [](std::span<std::byte> memory) {
                         auto* const values = reinterpret_cast<float*>(memory.data());
                         for (std::size_t i = 0; i < memory.size() / sizeof(float); ++i) {
                           values[i] = 1.0f + static_cast<float>(i);
                         }
                       }});
    }
    unit_ = optimizer.add_unit("unit", specs);
    optimizer.prepare();
  }

  // One micro-step, which without accumulation is a step.
  void step() {
    { const auto use = optimizer.forward(unit_); }
    {
      const auto use = optimizer.backward(unit_);
      for (const Param& p : params_) {
        for (std::int64_t i = 0; i < p.elems; ++i) {
          p.grad[i] += 0.25f * p.data[i] + static_cast<float>(optimizer.rank() - i);
        }
      }
    }
    optimizer.step().result();
  }

  State state() {
    State all;
    for (const Param& p : params_) {
      for (const Tensor what : {Tensor::kMasterWeights, Tensor::kExpAvg, Tensor::kExpAvgSq}) {
        State some(static_cast<std::size_t>(p.elems));
        optimizer.read(p.name, what, some);
        all.insert(all.end(), some.begin(), some.end());
      }
    }
    return all;
  }

  ZeroOptimizer optimizer;

 private:
  struct Param {
    std::string name;
    std::int64_t elems;
    float* data = nullptr;
    float* grad = nullptr;
  };
  std::array<Param, 2> params_ = {{{"w", 5}, {"b", 3}}};
  Unit unit_;
};

struct Where {
  int ranks, stage;
};

class CheckpointFaults : public ::testing::TestWithParam<Where> {
 protected:
  static constexpr double kLongS = 600;  // a wait of so long fails the test (kSlackS)

  CheckpointFaults() {
    const Outcome outcome = run([&](World& world) {
      Trainer trainer(world, stage(), kLongS);
      for (int step = 0; step < 5; ++step) {
        if (step > 0) trainer.step();
        State state = trainer.state();
        if (world.rank() == 0) after_.push_back(std::move(state));
      }
    });
    EXPECT_EQ(outcome.whole, nullptr) << message(outcome.whole);
  }

  int ranks() const { return GetParam().ranks; }
  int stage() const { return GetParam().stage; }
  Outcome run(const std::function<void(World&)>& body) const {
    return run_to_the_end(ranks(), body, kLongS);
  }
  const State& after(std::int64_t step) const { return after_.at(static_cast<std::size_t>(step)); }

  // The step that a new optimizer finds, and that it is all there.
  std::int64_t loaded_step(World& world, FileSystem& files) const {
    Trainer fresh(world, stage(), kLongS);
    const std::int64_t step = fresh.optimizer.load(kRoot, {.file_system = &files}).step;
    EXPECT_EQ(fresh.state(), after(step)) << "loaded from step " << step;
    fresh.step();
    EXPECT_EQ(fresh.state(), after(step + 1)) << "trained on from step " << step;
    return step;
  }

  // The same without loading it.
  std::int64_t saved_step(FileSystem& files) const {
    CheckpointReader reader(files, kRoot);
    std::vector<std::byte> scratch(static_cast<std::size_t>(reader.scratch_bytes()));
    State all;
    for (const CheckpointParam& p : reader.manifest().params) {
      for (const StateKind kind :
           {StateKind::kMasterWeights, StateKind::kExpAvg, StateKind::kExpAvgSq}) {
        State some(static_cast<std::size_t>(p.numel()));
        reader.read(kind, p.name, 0, p.numel(), "", std::as_writable_bytes(std::span(some)),
                    scratch);
        all.insert(all.end(), some.begin(), some.end());
      }
    }
    const std::int64_t step = reader.manifest().step;
    EXPECT_EQ(all, after(step)) << "saved after step " << step;
    return step;
  }

 private:
  std::vector<State> after_;  // so many steps
};

// What each rank finds has been found by all, once all have come here.
inline void expect_tidy(World& world, FileSystem& files, std::int64_t newest) {
  if (world.rank() != 0) return;
  for (const std::string& name : files.list(kRoot)) {
    EXPECT_THAT(name, ::testing::AnyOf("latest", ::testing::MatchesRegex("step-0000000[0-9]")));
  }
  EXPECT_EQ(list_checkpoints(files, kRoot).back(), detail::concat("step-0000000", newest));
}

inline std::string name_of(const ::testing::TestParamInfo<Where>& info) {
  return detail::concat("ranks", info.param.ranks, "_stage", info.param.stage);
}
}  // namespace zero::faults
