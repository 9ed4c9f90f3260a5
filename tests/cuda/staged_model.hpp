// A model whose passes touch no memory from the host: its gradients lie ready on the device, and
// each backward pass adds them, and the parameter itself, on the caller's stream.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "kernels/kernels.hpp"
#include "zero/zero_optimizer.hpp"

namespace zero::test {

// Elements of the parameters of each unit.
using UnitSizes = std::vector<std::vector<std::int64_t>>;

class StagedModel {
 public:
  static constexpr int kSets = 4;           // of gradients that differ
  static constexpr int kNotFinite = kSets;  // one more: the last rank has an inf in it

  StagedModel(ZeroOptimizer& optimizer, World& world, DType dtype,
              const UnitSizes& sizes = {{257, 3}, {96}, {130, 1, 0}})
      : optimizer_(optimizer), world_(world), dtype_(dtype) {
    for (std::size_t u = 0; u < sizes.size(); ++u) {
      std::vector<ParamSpec> specs;
      Layer& layer = layers_.emplace_back();
      for (const std::int64_t elems : sizes[u]) {
        Param& param = layer.params.emplace_back();
        param.name = "p" + std::to_string(count_++);
        param.elems = elems;
        specs.push_back({.name = param.name,
                         .shape = {elems},
                         .data = &param.data,
                         .grad = &param.grad,
                         .dtype = dtype,
                         .init = [this, id = count_](std::span<std::byte> memory) {
                           fill(memory, static_cast<std::uint64_t>(id) * 77);
                         }});
      }
      layer.unit = optimizer.add_unit("u" + std::to_string(u), std::move(specs));
    }
  }
  ~StagedModel() {
    world_.drain();
    for (const auto& [pointer, bytes] : memory_) world_.device().deallocate(pointer, bytes);
  }
  StagedModel(const StagedModel&) = delete;
  StagedModel& operator=(const StagedModel&) = delete;

  // Prepares the optimizer, and lays the gradients ready. Blocks.
  void prepare() {
    optimizer_.prepare();
    std::uint64_t id = 0;
    for (Layer& layer : layers_) {
      for (Param& param : layer.params) {
        ++id;
        for (int set = 0; set <= kSets; ++set) load_gradient(param, id, set);
      }
    }
  }

  void forward() {
    for (Layer& layer : layers_) const Use use = optimizer_.forward(layer.unit);
  }
  void backward(int set) {
    for (std::size_t u = layers_.size(); u-- > 0;) backward_of(u, set);
  }
  void backward_of(std::size_t unit, int set) {
    Layer& layer = layers_[unit];
    const Use use = optimizer_.backward(layer.unit);
    for (Param& param : layer.params) {
      const kernels::View grad{param.grad, dtype_, param.elems};
      const kernels::ConstView ready{param.ready[static_cast<std::size_t>(set)], dtype_,
                                     param.elems};
      kernels::add(grad, ready, stream());
      kernels::add(grad, {param.data, dtype_, param.elems}, stream());
    }
  }
  // A whole step. Does not block.
  StepHandle step(int set) {
    forward();
    backward(set);
    return optimizer_.step();
  }

  // Every tensor that training changes, whole. Collective.
  std::map<std::string, std::vector<float>> read() {
    std::map<std::string, std::vector<float>> all;
    for (const Layer& layer : layers_) {
      for (const Param& param : layer.params) {
        for (const Tensor what :
             {Tensor::kParams, Tensor::kMasterWeights, Tensor::kExpAvg, Tensor::kExpAvgSq}) {
          std::vector<float> values(static_cast<std::size_t>(param.elems));
          optimizer_.read(param.name, what, values);
          all[param.name + "/" + std::to_string(static_cast<int>(what))] = std::move(values);
        }
      }
    }
    return all;
  }

 private:
  struct Param {
    std::string name;
    std::int64_t elems = 0;
    void* data = nullptr;
    void* grad = nullptr;
    std::vector<void*> ready;  // by set
  };
  struct Layer {
    std::deque<Param> params;  // the optimizer keeps the addresses of their pointers
    Unit unit;
  };

  Stream& stream() const { return world_.device().caller_stream(); }

  // Few enough bits to be exact in every dtype, between -1 and 1.
  void fill(std::span<std::byte> memory, std::uint64_t seed) const {
    const std::size_t bytes = dtype_bytes(dtype_);
    for (std::size_t i = 0; i < memory.size() / bytes; ++i) {
      std::uint64_t x = (seed * 1000003u + i) * 0xbf58476d1ce4e5b9u;
      x = (x ^ (x >> 29)) * 0x94d049bb133111ebu;
      store(memory.data(), i, (static_cast<float>((x >> 32) % 129) - 64.0f) / 64.0f);
    }
  }
  void store(std::byte* memory, std::size_t i, float value) const {
    with_dtype(dtype_, [&](auto tag) {
      using T = decltype(tag);
      const T narrow = from_float<T>(value);
      std::memcpy(memory + i * sizeof(T), &narrow, sizeof(T));
    });
  }

  void load_gradient(Param& param, std::uint64_t id, int set) {
    const std::size_t bytes = static_cast<std::size_t>(param.elems) * dtype_bytes(dtype_);
    std::vector<std::byte> values(bytes);
    fill(values, id * 31 + static_cast<std::uint64_t>(set * 8 + world_.rank()));
    if (set == kNotFinite && world_.rank() == world_.world_size() - 1 && param.elems > 1) {
      store(values.data(), 1, std::numeric_limits<float>::infinity());
    }
    param.ready.push_back(world_.device().allocate(bytes));
    memory_.emplace_back(param.ready.back(), bytes);
    kernels::copy(param.ready.back(), values.data(), static_cast<std::int64_t>(bytes), stream());
    stream().synchronize();
  }

  ZeroOptimizer& optimizer_;
  World& world_;
  const DType dtype_;
  int count_ = 0;
  std::deque<Layer> layers_;
  std::vector<std::pair<void*, std::size_t>> memory_;
};

// AdamW with clipping, everything sharded that the stage shards, and a patch.
inline Config staged_config(int stage, const std::string& patch = "{}") {
  Config config = Config::parse(R"({
    "train_micro_batch_size_per_gpu": 1,
    "gradient_clipping": 0.5,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.1}},
    "zero_optimization": {"reduce_bucket_size": 150, "stage3_param_persistence_threshold": 2},
    "runtime": {"timeout_s": 60}
  })");
  config.set("zero_optimization.stage", std::to_string(stage));
  config.merge(patch);
  return config;
}

// Of what a step did, what is a number.
inline std::vector<double> numbers_of(const StepResult& r) {
  std::vector<double> numbers = {r.applied ? 1.0 : 0.0,
                                 r.applied ? r.grad_norm : -1.0,
                                 r.clip_coef,
                                 r.loss_scale,
                                 r.next_loss_scale,
                                 static_cast<double>(r.skipped_steps),
                                 static_cast<double>(r.nonfinite_rank)};
  numbers.insert(numbers.end(), r.lr.begin(), r.lr.end());
  return numbers;
}

}  // namespace zero::test
