#include "bench/cuda_stages.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <mutex>

#include "bench/cuda_graph.hpp"
#include "bench/interleaved.hpp"
#include "zero/error.hpp"

namespace zero::bench {
namespace {

constexpr std::int64_t kShift = 64;  // elements by which units' gradients are apart in the source

// Of a unit: one large parameter, and a small one as biases and norms are.
std::int64_t small_elems(std::int64_t unit_elems) { return unit_elems / 512 + 1; }
std::int64_t unit_elems(const StageOptions& options) { return options.elems / options.units; }
// Of the source: each unit adds a part of it that is as long as the unit.
std::int64_t own_elems(const StageOptions& options) {
  return unit_elems(options) + kShift * options.units;
}

Config config_for(const StageOptions& options, int stage) {
  Config config = Config::parse(R"({
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.1}},
    "bf16": {"enabled": true}, "gradient_clipping": 1.0, "train_micro_batch_size_per_gpu": 1})");
  const std::string bucket = std::to_string(4 * unit_elems(options));
  config.set("zero_optimization.stage", std::to_string(stage));
  config.set("zero_optimization.reduce_bucket_size", bucket);
  config.set("zero_optimization.allgather_bucket_size", bucket);
  config.set("zero_optimization.stage3_param_persistence_threshold",
             std::to_string(small_elems(unit_elems(options))));
  return config;
}

// In [-1, 1), the same on every machine.
std::vector<bf16> noise(std::int64_t elems, std::uint32_t seed) {
  std::vector<bf16> values(static_cast<std::size_t>(elems));
  std::uint32_t state = seed * 2654435761u + 1;
  for (bf16& value : values) {
    state = state * 1664525u + 1013904223u;
    value = from_float<bf16>(static_cast<float>(state >> 8) * 0x1p-23f - 1.0f);
  }
  return values;
}

// Bytes of all devices that are in use.
std::int64_t driver_bytes() {
  std::size_t used = 0;
  for (int index = 0; index < cuda_device_count(); ++index) {
    const CudaMemory memory = cuda_memory(index);
    used += memory.total - memory.free;
  }
  return static_cast<std::int64_t>(used);
}

}  // namespace

DeviceModel::DeviceModel(const StageOptions& options, int stage, World& world)
    : world_(world),
      stream_(world.device().caller_stream()),
      source_(world.device(), own_elems(options)),
      scratch_(world.device(), own_elems(options)),
      layers_(static_cast<std::size_t>(options.units)),
      optimizer_(config_for(options, stage), world) {
  const std::int64_t small = small_elems(unit_elems(options));
  std::uint32_t seed = 0;
  for (std::size_t u = 0; u < layers_.size(); ++u) {
    Layer& layer = layers_[u];
    const std::string name = "layer" + std::to_string(u);
    layer.params = {{.name = name + ".weight", .elems = unit_elems(options) - small},
                    {.name = name + ".bias", .elems = small}};
    std::vector<ParamSpec> specs;
    for (Parameter& p : layer.params) {
      ParamSpec spec;
      spec.name = p.name;
      spec.shape = {p.elems};
      spec.data = &p.data;
      spec.grad = &p.grad;
      spec.init = [elems = p.elems, seed = ++seed](std::span<std::byte> out) {
        const std::vector<bf16> values = noise(elems, seed);
        std::copy_n(reinterpret_cast<const std::byte*>(values.data()), out.size(), out.data());
      };
      specs.push_back(std::move(spec));
    }
    layer.unit = optimizer_.add_unit(name, std::move(specs));
  }
  // Other values on each rank.
  const std::vector<bf16> source =
      noise(own_elems(options), (1u << 20) + static_cast<std::uint32_t>(world.rank()));
  kernels::copy(source_.data(), source.data(), own_elems(options) * std::int64_t{sizeof(bf16)},
                stream_);
  stream_.synchronize();
}

std::int64_t DeviceModel::own_bytes(const StageOptions& options) {
  return 2 * own_elems(options) * std::int64_t{sizeof(bf16)};
}

void DeviceModel::step() {
  for (Layer& layer : layers_) {
    const Use use = optimizer_.forward(layer.unit);
    bf16* to = scratch_.data();
    for (const Parameter& p : layer.params) {
      kernels::copy(to, p.data, p.elems * std::int64_t{sizeof(bf16)}, stream_);
      to += p.elems;
    }
  }
  for (std::size_t u = layers_.size(); u-- > 0;) {
    const Use use = optimizer_.backward(layers_[u].unit);
    const bf16* from = source_.data() + kShift * static_cast<std::int64_t>(u);
    for (const Parameter& p : layers_[u].params) {
      const kernels::View grad{p.grad, DType::kBFloat16, p.elems};
      kernels::add(grad, {p.data, DType::kBFloat16, p.elems}, stream_);
      kernels::add(grad, {from, DType::kBFloat16, p.elems}, stream_);
      from += p.elems;
    }
  }
  optimizer_.step();
}

// After synchronize() the communicator is free for others than the optimizer.
void DeviceModel::meet() {
  world_.communicator().barrier({Purpose::kControl, "the ranks of a bench"}, stream_);
  stream_.synchronize();
  world_.communicator().check();
}

double DeviceModel::window(int steps, const std::function<void()>& one) {
  meet();
  const auto start = std::chrono::steady_clock::now();
  for (int k = 0; k < steps; ++k) one();
  if (!optimizer_.synchronize().applied) throw Error("a step was skipped");
  meet();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / steps;
}

double DeviceModel::window(int steps) {
  return window(steps, [this] { step(); });
}

// FNV-1a over words.
std::uint64_t DeviceModel::hash() {
  std::uint64_t hash = 14695981039346656037u;
  std::vector<float> values;
  for (const Layer& layer : layers_) {
    for (const Parameter& p : layer.params) {
      values.resize(static_cast<std::size_t>(p.elems));
      for (const Tensor what : {Tensor::kMasterWeights, Tensor::kExpAvg, Tensor::kExpAvgSq}) {
        optimizer_.read(p.name, what, values);
        for (const float value : values) {
          hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 1099511628211u;
        }
      }
    }
  }
  return hash;
}

StageRow run_stage(const StageOptions& options, int stage, int world_size, const Ranks& ranks) {
  const std::int64_t before = driver_bytes();
  StageRow row;
  std::mutex mutex;
  ranks(world_size, [&](World& world) {
    DeviceModel model(options, stage, world);
    ZeroOptimizer& optimizer = model.optimizer();
    optimizer.prepare();
    model.window(options.steps);  // memory and streams are had from here on
    std::vector<double> seconds;
    for (int k = 0; k < options.windows; ++k) seconds.push_back(model.window(options.steps));
    optimizer.reset_traffic();
    model.window(1);
    const std::int64_t traffic = optimizer.traffic().model_bytes();
    {
      const std::lock_guard lock(mutex);
      const std::int64_t peak = optimizer.ledger().total().peak_bytes;
      row.peak_bytes = std::max(row.peak_bytes, peak);
      row.peak_bytes_all += peak;
    }
    if (world.rank() == 0) {
      row.driver_bytes = driver_bytes() - before - world_size * DeviceModel::own_bytes(options);
    }
    model.meet();  // so far no rank has given anything back, or taken more
    const std::uint64_t hash = model.hash();
    if (world.rank() != 0) return;
    row.ms_per_step = 1e3 * median(seconds);
    row.traffic_bytes = traffic;
    row.hash = hash;
  });
  return row;
}

GraphRow run_graph(const StageOptions& options, int stage) {
  // A world each, so that neither waits for what is on the other's streams.
  World plain_world = World::cuda(), graph_world = World::cuda();
  DeviceModel plain(options, stage, plain_world), replayed(options, stage, graph_world);
  for (DeviceModel* model : {&plain, &replayed}) {
    model->optimizer().prepare();
    model->window(3);
  }
  Stream& stream = graph_world.device().caller_stream();
  const auto graph = CudaGraph::capture(stream, [&] { replayed.step(); });
  const auto replay = [&] { graph->launch(stream); };
  std::vector<double> plain_seconds, replayed_seconds;
  for (int k = 0; k <= options.windows; ++k) {
    plain_seconds.push_back(plain.window(options.steps));
    replayed_seconds.push_back(replayed.window(options.steps, replay));
  }
  plain_seconds.erase(plain_seconds.begin());  // the first launch of a graph brings it there
  replayed_seconds.erase(replayed_seconds.begin());
  return {.plain_ms = 1e3 * median(plain_seconds),
          .replayed_ms = 1e3 * median(replayed_seconds),
          .nodes = graph->nodes(),
          .same_bits = plain.hash() == replayed.hash()};
}

}  // namespace zero::bench
