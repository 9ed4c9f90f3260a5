// A tiny training that shows what a key of the configuration does: everything a run leaves, bit for
// bit, of a few parameters in two groups whose gradients can be made to overflow where wanted.
#pragma once

#include <cmath>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/device_access.hpp"
#include "tests/toy_model.hpp"
#include "zero/error.hpp"

namespace zero::test {

inline constexpr int kEffectRanks = 2;
inline constexpr int kEffectMicroSteps = 8;  // whatever the accumulation

// What a run leaves; of rank 0, but all ranks read the same.
struct Effects {
  std::vector<float> weights;  // parameters and master weights
  std::vector<float> moments;
  std::int64_t applied = 0;
  std::string ended_by;  // LossScaleError; the run's values are those up to there
  std::string refusal;   // ConfigError; there is nothing else then
  std::vector<float> norms;
  Ledger ledger;  // bytes and traffic: what keys of speed and memory are allowed to change
  Traffic traffic;
};

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

inline bool same_result(const Effects& a, const Effects& b) {
  return same_bits(a.weights, b.weights) && same_bits(a.moments, b.moments) &&
         a.applied == b.applied && a.ended_by == b.ended_by;
}

class EffectModel {
 public:
  // Gradients of micro-step t are multiplied by 2^loudness[t], by 1 where that is not given.
  EffectModel(ZeroOptimizer& optimizer, Device& device, DType dtype,
              const std::vector<int>& loudness)
      : optimizer_(optimizer), device_(device), dtype_(dtype), loudness_(loudness) {
    add_unit("first", {{"a", 33}, {"b", 7, 1}});
    add_unit("second", {{"c", 20}});
    add_unit("third", {{"d", 64}, {"e", 1, 1}});
  }

  void micro_step(int t) {
    for (const Block& block : blocks_) const Use use = optimizer_.forward(block.unit);
    for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
      const Use use = optimizer_.backward(block->unit);
      for (Weight* weight : block->weights) add_gradient(*weight, t);
    }
  }

 private:
  struct Weight {
    std::string name;
    std::int64_t numel;
    void* data;
    void* grad;
    std::vector<std::byte> start;
  };
  struct Block {
    Unit unit;
    std::vector<Weight*> weights;
  };

  void add_unit(const char* name, const std::vector<ToyParam>& params) {
    Block block;
    std::vector<ParamSpec> specs;
    for (const ToyParam& param : params) {
      Weight& weight = weights_.emplace_back(Weight{param.name, param.numel, nullptr, nullptr, {}});
      weight.start.resize(static_cast<std::size_t>(param.numel) * dtype_bytes(dtype_));
      weight.data = weight.start.data();
      for (std::int64_t i = 0; i < param.numel; ++i) {
        add(weight.data, i, toy_start(param.name, i));
      }
      block.weights.push_back(&weight);
      specs.push_back({.name = param.name,
                       .shape = {param.numel},
                       .data = &weight.data,
                       .grad = &weight.grad,
                       .dtype = dtype_,
                       .group = param.group});
    }
    block.unit = optimizer_.add_unit(name, std::move(specs));
    blocks_.push_back(std::move(block));
  }

  void add_gradient(const Weight& weight, int t) {
    const int bits =
        t < static_cast<int>(loudness_.size()) ? loudness_[static_cast<std::size_t>(t)] : 0;
    const double factor = std::ldexp(optimizer_.loss_scale(), bits);
    with_dtype(dtype_, [&](auto tag) {
      using T = decltype(tag);
      const HostView<const T> data(device_, static_cast<const T*>(weight.data), weight.numel);
      const HostView<T> grad(device_, static_cast<T*>(weight.grad), weight.numel);
      for (std::int64_t i = 0; i < weight.numel; ++i) {
        const double value = to_float(data[i]);
        add(grad.data(), i, factor * toy_gradient(t, optimizer_.rank(), weight.name, i, value));
      }
    });
  }

  void add(void* to, std::int64_t i, double value) const {
    with_dtype(dtype_, [&](auto tag) {
      using T = decltype(tag);
      T& element = static_cast<T*>(to)[i];
      element = from_float<T>(to_float(element) + static_cast<float>(value));
    });
  }

  ZeroOptimizer& optimizer_;
  Device& device_;
  DType dtype_;
  const std::vector<int>& loudness_;
  std::deque<Weight> weights_;  // the optimizer keeps their addresses
  std::vector<Block> blocks_;
};

// What one rank saw. A LossScaleError comes on all ranks alike, so that they can still read.
inline Effects train_rank(World& world, const Config& config, DType dtype,
                          const std::vector<int>& loudness) {
  Effects effects;
  ZeroOptimizer optimizer(config, world);
  optimizer.set_log([](std::string_view) {});
  optimizer.add_group(optimizer.groups()[0]);
  EffectModel model(optimizer, world.device(), dtype, loudness);
  optimizer.prepare();
  try {
    for (int t = 0; t < kEffectMicroSteps; ++t) {
      model.micro_step(t);
      const StepResult step = optimizer.step();
      if (step.applied) effects.norms.push_back(static_cast<float>(step.grad_norm));
    }
  } catch (const LossScaleError& error) {
    effects.ended_by = error.what();
  }
  effects.applied = optimizer.applied_steps();
  effects.ledger = optimizer.ledger();
  effects.traffic = optimizer.traffic();
  const bool has_moments = config.optimizer.kind == OptimizerKind::kAdam;
  for (const ZeroOptimizer::ParamInfo& info : optimizer.params()) {
    const auto read = [&](Tensor what, std::vector<float>& to) {
      std::vector<float> values(static_cast<std::size_t>(info.numel));
      optimizer.read(info.name, what, values);
      to.insert(to.end(), values.begin(), values.end());
    };
    read(Tensor::kParams, effects.weights);
    read(Tensor::kMasterWeights, effects.weights);
    if (has_moments) read(Tensor::kExpAvg, effects.moments);
    if (has_moments) read(Tensor::kExpAvgSq, effects.moments);
  }
  return effects;
}

inline Effects train(const Config& config, DType dtype, const std::vector<int>& loudness) {
  Effects effects;
  try {
    run_on_device(kEffectRanks, [&](World& world) {
      Effects own = train_rank(world, config, dtype, loudness);
      if (world.rank() == 0) effects = std::move(own);
    });
  } catch (const ConfigError& error) {
    effects.refusal = error.what();
  }
  return effects;
}

}  // namespace zero::test
