#include "tests/toy_model.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "tests/device_access.hpp"
#include "zero/error.hpp"

namespace zero::test {
namespace {

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::uint64_t name_hash(const std::string& name) {
  std::uint64_t hash = 1469598103934665603u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

// In [-1, 1], with few enough bits to be exact in every dtype.
double small(std::uint64_t seed) { return (static_cast<double>(mix(seed) % 129) - 64.0) / 64.0; }

struct Memory {
  void* data = nullptr;
  void* grad = nullptr;
  std::vector<std::byte> start;
};

float load(const void* data, DType dtype, std::int64_t i) {
  return with_dtype(dtype, [&](auto tag) {
    using T = decltype(tag);
    return to_float(static_cast<const T*>(data)[i]);
  });
}

void store(void* data, DType dtype, std::int64_t i, float value) {
  with_dtype(dtype, [&](auto tag) {
    using T = decltype(tag);
    static_cast<T*>(data)[i] = from_float<T>(value);
  });
}

class ToyModel {
 public:
  ToyModel(const ToySetup& setup, ZeroOptimizer& optimizer, Device& device)
      : setup_(setup), optimizer_(optimizer), device_(device) {
    for (const ToyUnit& unit : setup.units) {
      std::vector<ParamSpec> specs;
      for (const ToyParam& param : unit.params) {
        Memory& memory = memory_[param.name];
        memory.start.resize(static_cast<std::size_t>(param.numel) * dtype_bytes(setup.dtype));
        for (std::int64_t i = 0; i < param.numel; ++i) {
          store(
              memory.start.data(), setup.dtype, i,
              static_cast<float>(toy_start(param.name, i)) + static_cast<float>(optimizer.rank()));
        }
        memory.data = memory.start.data();  // ranks differ; rank 0's values count
        numel_[param.name] = param.numel;
        ParamSpec spec;
        spec.name = param.name;
        spec.shape = {param.numel};
        spec.data = &memory.data;
        spec.grad = &memory.grad;
        spec.dtype = setup.dtype;
        spec.group = param.group;
        specs.push_back(std::move(spec));
      }
      units_.push_back(optimizer.add_unit(unit.name, std::move(specs), unit.shared));
    }
  }

  void micro_step(int step, int micro) {
    const int slot = micro * optimizer_.world_size() + optimizer_.rank();
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const Use use = optimizer_.forward(units_[u]);
      for (const std::string& name : names(u)) {
        if (numel_[name] > 0 && memory_[name].data == nullptr) {
          throw Error("no parameters inside the forward guard: " + name);
        }
      }
    }
    for (std::size_t u = units_.size(); u-- > 0;) {
      const Use use = optimizer_.backward(units_[u]);
      for (const std::string& name : names(u)) add_gradient(name, step, slot, names(u).size());
    }
  }

 private:
  std::vector<std::string> names(std::size_t unit) const {
    std::vector<std::string> all = setup_.units[unit].shared;
    for (const ToyParam& param : setup_.units[unit].params) all.push_back(param.name);
    return all;
  }

  void add_gradient(const std::string& name, int step, int slot, std::size_t) {
    const Memory& memory = memory_[name];
    const std::int64_t numel = numel_[name];
    const auto bytes = numel * static_cast<std::int64_t>(dtype_bytes(setup_.dtype));
    const double scale = optimizer_.loss_scale();
    const HostView<const std::byte> data(device_, static_cast<const std::byte*>(memory.data),
                                         bytes);
    const HostView<std::byte> grad(device_, static_cast<std::byte*>(memory.grad), bytes);
    for (std::int64_t i = 0; i < numel; ++i) {
      const double value = load(data.data(), setup_.dtype, i);
      const double gradient = toy_gradient(step, slot, name, i, value) * scale;
      float sum = load(grad.data(), setup_.dtype, i) + static_cast<float>(gradient);
      if (slot == 0 && i == 0 && setup_.overflows && setup_.overflows(step)) {
        sum = std::numeric_limits<float>::infinity();
      }
      store(grad.data(), setup_.dtype, i, sum);
    }
  }

  const ToySetup& setup_;
  ZeroOptimizer& optimizer_;
  Device& device_;
  std::map<std::string, Memory> memory_;
  std::map<std::string, std::int64_t> numel_;
  std::vector<Unit> units_;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

bool same_bits(const std::map<std::string, std::vector<float>>& a,
               const std::map<std::string, std::vector<float>>& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, values] : a) {
    if (!b.contains(name) || !same_bits(values, b.at(name))) return false;
  }
  return true;
}

}  // namespace

void check_plan(const char* when, const Ledger& planned, const Ledger& measured) {
  if (planned == measured) return;
  throw Error(detail::concat("the bytes after ", when, " are not as planned:\n", planned.table(),
                             measured.table()));
}

double toy_start(const std::string& param, std::int64_t index) {
  return small(name_hash(param) * 31 + static_cast<std::uint64_t>(index));
}

double toy_gradient(int step, int slot, const std::string& param, std::int64_t index,
                    double value) {
  const auto seed = static_cast<std::uint64_t>(step) * 1000003u + static_cast<std::uint64_t>(slot);
  return small(name_hash(param) ^ mix(seed * 7919u + static_cast<std::uint64_t>(index))) +
         value / 4;
}

std::vector<ToyUnit> odd_units() {
  return {{"embedding", {{"wte", 96}, {"wpe", 40}}, {}},
          {"h0", {{"h0.w", 257}, {"h0.b", 1, 1}, {"h0.none", 0}}, {}},
          {"h1", {{"h1.w", 129}, {"h1.b", 7, 1}}, {}},
          {"head", {{"norm", 15, 1}, {"scale", 3, 1}}, {"wte"}}};
}

bool ToyResult::operator==(const ToyResult& other) const {
  return same_bits(params, other.params) && same_bits(masters, other.masters) &&
         same_bits(exp_avg, other.exp_avg) && same_bits(exp_avg_sq, other.exp_avg_sq) &&
         grad_norms == other.grad_norms;
}

Config toy_config(const ToySetup& setup) {
  Config config = Config::parse(R"({
    "train_micro_batch_size_per_gpu": 1,
    "gradient_clipping": 1.0,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "betas": [0.9, 0.99], "weight_decay": 0.1}},
    "zero_optimization": {"stage3_param_persistence_threshold": 0}
  })");
  config.set("gradient_accumulation_steps", std::to_string(setup.accumulation));
  if (setup.dtype == DType::kBFloat16) config.set("bf16.enabled", "true");
  if (setup.dtype == DType::kFloat16) {
    config.merge(R"({"fp16": {"enabled": true, "initial_scale_power": 8}})");
  }
  config.merge(setup.config);
  return config;
}

ToyResult run_toy(const ToySetup& setup) {
  ToyResult result;
  result.ledgers.resize(static_cast<std::size_t>(setup.world_size));
  result.traffic.resize(static_cast<std::size_t>(setup.world_size));
  std::mutex mutex;
  const auto on_device = [](int world_size, const std::function<void(World&)>& body) {
    run_on_device(world_size, body);
  };
  const auto run = setup.run ? setup.run : on_device;
  run(setup.world_size, [&](World& world) {
    ToyResult own;
    {
      ZeroOptimizer optimizer(toy_config(setup), world);
      ParamGroup group = optimizer.groups()[0];
      group.lr = setup.lr_of_group1;
      group.weight_decay = 0;
      optimizer.add_group(group);
      ToyModel model(setup, optimizer, world.device());
      PlanOptions foreseen = setup.foreseen;
      foreseen.steps = setup.steps - setup.first_step;
      const Plan plan = optimizer.plan(foreseen);
      optimizer.prepare();
      check_plan("prepare()", plan.prepared, optimizer.ledger());
      if (setup.prepared) setup.prepared(optimizer);
      Traffic traffic;
      int micro = setup.first_micro_step;
      for (int step = setup.first_step; step < setup.steps; ++step) {
        optimizer.reset_traffic();
        for (; micro < setup.accumulation; ++micro) {
          model.micro_step(step, micro);
          if (!optimizer.config().managed_accumulation && micro + 1 < setup.accumulation) {
            optimizer.end_micro_step();
          } else {
            const StepResult r = optimizer.step();
            if (r.boundary) own.grad_norms.push_back(r.skipped ? -1.0 : r.grad_norm);
          }
          traffic = optimizer.traffic();
          if (setup.after_micro_step) setup.after_micro_step(optimizer, step, micro);
        }
        micro = 0;
      }
      const auto rank = static_cast<std::size_t>(world.rank());
      result.traffic[rank] = traffic;
      result.ledgers[rank] = optimizer.ledger();
      check_plan("training", plan.trained, optimizer.ledger());
      // Of a whole step in which nothing else was sent.
      const bool plain = !setup.after_micro_step && !setup.overflows &&
                         foreseen.steps > (setup.first_micro_step > 0 ? 1 : 0);
      if (plain && plan.traffic_per_step != traffic) {
        throw Error("the step's traffic is not as planned");
      }
      if (plan.padded_elems != optimizer.padded_elems() || plan.stage != optimizer.stage()) {
        throw Error("the layout is not as planned");
      }
      own.model_elems = optimizer.model_elems();
      own.padded_elems = optimizer.padded_elems();
      for (const ZeroOptimizer::ParamInfo& info : optimizer.params()) {
        const auto read = [&](Tensor what) {
          std::vector<float> values(static_cast<std::size_t>(info.numel));
          optimizer.read(info.name, what, values);
          return values;
        };
        own.params[info.name] = read(Tensor::kParams);
        own.masters[info.name] = read(Tensor::kMasterWeights);
        own.exp_avg[info.name] = read(Tensor::kExpAvg);
        own.exp_avg_sq[info.name] = read(Tensor::kExpAvgSq);
      }
    }
    const std::int64_t left = world.ledger().total().current_bytes;
    if (left != 0) throw Error(detail::concat(left, " bytes left after destruction"));
    const std::lock_guard lock(mutex);
    if (world.rank() == 0) {
      result.params = own.params;
      result.masters = own.masters;
      result.exp_avg = own.exp_avg;
      result.exp_avg_sq = own.exp_avg_sq;
      result.grad_norms = own.grad_norms;
      result.model_elems = own.model_elems;
      result.padded_elems = own.padded_elems;
    }
  });
  return result;
}

ToyResult reference_toy(const ToySetup& setup) {
  const Config config = toy_config(setup);
  std::map<std::string, std::vector<double>> w, m, v, g;
  std::map<std::string, int> group, uses;
  for (const ToyUnit& unit : setup.units) {
    for (const ToyParam& param : unit.params) {
      group[param.name] = param.group;
      uses[param.name] += 1;
      auto& values = w[param.name];
      for (std::int64_t i = 0; i < param.numel; ++i) values.push_back(toy_start(param.name, i));
      m[param.name].resize(values.size());
      v[param.name].resize(values.size());
    }
    for (const std::string& name : unit.shared) uses[name] += 1;
  }
  ToyResult result;
  const int slots = setup.world_size * setup.accumulation;
  for (int step = 0; step < setup.steps; ++step) {
    double squares = 0;
    for (auto& [name, values] : w) {
      g[name].assign(values.size(), 0.0);
      for (std::size_t i = 0; i < values.size(); ++i) {
        for (int slot = 0; slot < slots; ++slot) {
          g[name][i] += uses[name] *
                        toy_gradient(step, slot, name, static_cast<std::int64_t>(i), values[i]) /
                        slots;
        }
        squares += g[name][i] * g[name][i];
      }
    }
    const double norm = std::sqrt(squares);
    result.grad_norms.push_back(norm);
    const double clip = config.gradient_clipping > 0
                            ? std::min(1.0, config.gradient_clipping / (norm + 1e-6))
                            : 1.0;
    const OptimizerSettings& o = config.optimizer;
    for (auto& [name, values] : w) {
      const double lr = group[name] == 0 ? o.lr : setup.lr_of_group1;
      const double decay = group[name] == 0 ? o.weight_decay : 0.0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double gradient = g[name][i] * clip;
        m[name][i] = o.beta1 * m[name][i] + (1 - o.beta1) * gradient;
        v[name][i] = o.beta2 * v[name][i] + (1 - o.beta2) * gradient * gradient;
        const double m_hat = m[name][i] / (1 - std::pow(o.beta1, step + 1));
        const double v_hat = v[name][i] / (1 - std::pow(o.beta2, step + 1));
        values[i] -= lr * decay * values[i];
        values[i] -= lr * m_hat / (std::sqrt(v_hat) + o.eps);
      }
    }
  }
  const auto narrow = [](const std::vector<double>& values) {
    return std::vector<float>(values.begin(), values.end());
  };
  for (const auto& [name, values] : w) {
    result.masters[name] = result.params[name] = narrow(values);
    result.exp_avg[name] = narrow(m[name]);
    result.exp_avg_sq[name] = narrow(v[name]);
  }
  return result;
}

}  // namespace zero::test
