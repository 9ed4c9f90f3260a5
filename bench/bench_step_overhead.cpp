// What the runtime costs: a training step of the reference model at one rank, at each stage, beside
// the same model in a hand-written loop with the same Adam kernel, in interleaved rounds.
//
//   bench_step_overhead [--seconds S] [--width W]      (see --help)
//
// S seconds per table, default 20. Exit status: 0, whatever the ratios are; a row says MISSED where
// a step takes more than 5 % longer than the hand-written one.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "bench/command_line.hpp"
#include "bench/interleaved.hpp"
#include "kernels/kernels.hpp"
#include "tools/train_model.hpp"

namespace {

constexpr double kLongest = 1.05;  // times the hand-written step
constexpr int kStepsPerSample = 4;
constexpr double kMaxNorm = 1.0;

struct Text {
  explicit Text(const gpt::Shape& shape) {
    std::uint32_t state = 1;
    for (int i = 0; i < shape.micro_batch * shape.context; ++i) {
      state = state * 1664525u + 1013904223u;
      tokens.push_back(static_cast<std::uint8_t>(97 + (state >> 24) % 26));
      targets.push_back(static_cast<std::uint8_t>(97 + (state >> 16) % 26));
    }
  }
  std::vector<std::uint8_t> tokens, targets;
};

// One process, flat buffers: what a user has before there is a runtime.
class HandWritten {
 public:
  HandWritten(const gpt::Shape& shape, zero::DType dtype, zero::Stream& stream)
      : model_(shape, train::storage_of(dtype)), dtype_(dtype), stream_(stream) {
    for (int u = 0; u < model_.units(); ++u) {
      for (gpt::Parameter* p : model_.unit(u)) parameters_.push_back(p);
    }
    for (const gpt::Parameter* p : parameters_) elems_ += p->numel();
    const auto n = static_cast<std::size_t>(elems_);
    params_.resize(n * zero::dtype_bytes(dtype));
    grads_.resize(params_.size());
    for (auto* state : {&master_, &exp_avg_, &exp_avg_sq_}) state->resize(n);
    std::int64_t at = 0;
    for (gpt::Parameter* p : parameters_) {
      const auto bytes = static_cast<std::size_t>(p->numel()) * zero::dtype_bytes(dtype);
      const auto offset = static_cast<std::size_t>(at) * zero::dtype_bytes(dtype);
      p->w = params_.data() + offset;
      p->w_grad = grads_.data() + offset;
      gpt::fill_initial(*p, 1, model_.storage(), {params_.data() + offset, bytes});
      at += p->numel();
    }
    zero::kernels::cast({master_.data(), zero::DType::kFloat32, elems_},
                        {params_.data(), dtype_, elems_}, 1.0f, stream_);
  }

  void step(const Text& text) {
    std::memset(grads_.data(), 0, grads_.size());
    const int layers = model_.shape().layers;
    model_.forward_embedding(text.tokens);
    for (int l = 0; l < layers; ++l) model_.forward_block(l);
    model_.forward_head(text.targets);
    model_.backward_head(1.0f);
    for (int l = layers - 1; l >= 0; --l) model_.backward_block(l);
    model_.backward_embedding();

    zero::kernels::GradStats stats;
    std::uint64_t bad = zero::kernels::kNoBadParam;
    zero::kernels::grad_stats({grads_.data(), dtype_, elems_}, {}, 0, 0, &stats, &bad, stream_);
    const double norm = std::sqrt(stats.sum_of_squares());
    update(std::min(1.0, kMaxNorm / (norm + 1e-6)));
  }

 private:
  void update(double clip) {
    zero::kernels::UpdateSettings settings{zero::kernels::UpdateConstants::Rule::kAdamDecoupled,
                                           3e-3,
                                           0.9,
                                           0.95,
                                           1e-8,
                                           0.1,
                                           true,
                                           ++steps_,
                                           clip};
    const auto decaying = zero::kernels::make_update_constants(settings);
    settings.weight_decay = 0;
    const auto plain = zero::kernels::make_update_constants(settings);
    std::int64_t at = 0;
    for (const gpt::Parameter* p : parameters_) {
      const bool wide = dtype_ == zero::DType::kFloat32;
      zero::kernels::UpdateRange range;
      range.master = wide ? static_cast<float*>(p->w) : master_.data() + at;
      range.exp_avg = exp_avg_.data() + at;
      range.exp_avg_sq = exp_avg_sq_.data() + at;
      range.grad = {p->w_grad, dtype_, p->numel()};
      range.params = wide ? nullptr : p->w;
      range.params_dtype = dtype_;
      zero::kernels::update(range, p->is_matrix() ? decaying : plain, stream_);
      at += p->numel();
    }
  }

  gpt::Model model_;
  zero::DType dtype_;
  zero::Stream& stream_;
  std::vector<gpt::Parameter*> parameters_;
  std::int64_t elems_ = 0;
  std::int64_t steps_ = 0;
  std::vector<std::byte> params_, grads_;
  std::vector<float> master_, exp_avg_, exp_avg_sq_;
};

zero::Config config_for(int stage, zero::DType dtype) {
  auto config = zero::Config::parse(R"({
    "optimizer": {"type": "AdamW", "params": {"lr": 3e-3, "betas": [0.9, 0.95],
                                              "weight_decay": 0.1}},
    "gradient_clipping": 1.0, "train_micro_batch_size_per_gpu": 1})");
  config.set("zero_optimization.stage", std::to_string(stage));
  if (dtype == zero::DType::kBFloat16) config.set("bf16.enabled", "true");
  return config;
}

void compare(const gpt::Shape& shape, zero::DType dtype, double max_seconds) {
  zero::World world = zero::World::from_environment();
  const Text text(shape);
  HandWritten by_hand(shape, dtype, world.device().caller_stream());
  std::vector<std::unique_ptr<train::WrappedModel>> wrapped;
  std::vector<std::vector<double>> ms(5);

  zero::bench::Interleaved rounds(1, 200, max_seconds);
  auto add = [&](std::size_t index, const std::string& name, const std::function<void()>& step) {
    rounds.add(name, 1, 1, index == 0 ? "" : "hand-written", 0, [&ms, index, step](int) {
      const double start = zero::bench::seconds(CLOCK_MONOTONIC);
      for (int i = 0; i < kStepsPerSample; ++i) step();
      ms[index].push_back(1e3 * (zero::bench::seconds(CLOCK_MONOTONIC) - start) / kStepsPerSample);
    });
  };
  add(0, "hand-written", [&] { by_hand.step(text); });
  for (int stage = 0; stage < 4; ++stage) {
    wrapped.push_back(
        std::make_unique<train::WrappedModel>(shape, dtype, 1, config_for(stage, dtype), world));
    train::WrappedModel* model = wrapped.back().get();
    model->optimizer().prepare();
    add(static_cast<std::size_t>(stage) + 1, "stage " + std::to_string(stage), [model, &text] {
      model->forward(text.tokens, text.targets);
      model->backward();
      model->optimizer().step();
    });
  }
  rounds.run();

  std::printf("\n%s, %lld parameters, 1 rank, %zu rounds of %d steps\n%-14s %10s %8s\n",
              std::string(zero::dtype_name(dtype)).c_str(),
              static_cast<long long>(wrapped[0]->optimizer().model_elems()), ms[0].size(),
              kStepsPerSample, "variant", "ms/step", "ratio");
  for (std::size_t v = 0; v < ms.size(); ++v) {
    const std::string name = v == 0 ? "hand-written" : "stage " + std::to_string(v - 1);
    const double ratio = v == 0 ? 1.0 : 1.0 / rounds.ratio(name, "hand-written");
    std::printf("%-14s %10.3f %8.3f%s\n", name.c_str(), zero::bench::median(ms[v]), ratio,
                ratio > kLongest ? "  MISSED" : "");
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  gpt::Shape shape;
  double max_seconds = 20;
  CLI::App app("A training step of the reference model at one rank, beside a hand-written loop.",
               "bench_step_overhead");
  zero::bench::set_defaults(app);
  zero::bench::add_seconds(app, max_seconds, "at most so long per table");
  zero::bench::add_whole(app, "--width", shape.width, 2, 1 << 20,
                         "of the model; a multiple of its heads")
      ->type_name("W");
  if (const std::optional<int> code = zero::bench::parse(app, argc, argv)) return *code;
  try {
    gpt::check_shape(shape);
  } catch (const std::invalid_argument& error) {
    return zero::bench::refuse(app, "--width " + std::to_string(shape.width) + ": " + error.what());
  }
  for (const zero::DType dtype : {zero::DType::kFloat32, zero::DType::kBFloat16}) {
    compare(shape, dtype, max_seconds);
  }
  return 0;
}
