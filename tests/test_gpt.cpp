// The model's loss and every gradient against an independent fp64 implementation of the same
// formulas, differentiated numerically.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "tools/gpt.hpp"

namespace {

using gpt::Model;
using gpt::Parameter;
using gpt::Shape;
using gpt::Storage;

constexpr Shape kTiny = {.layers = 2, .width = 6, .heads = 3, .context = 5, .micro_batch = 3};

using Vector = std::vector<double>;
using Weights = std::map<std::string, Vector>;

Vector layer_norm(const Vector& x, const Vector& gain, const Vector& bias) {
  const auto n = static_cast<double>(x.size());
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
  double variance = 0;
  for (const double v : x) variance += (v - mean) * (v - mean) / n;
  Vector y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = (x[i] - mean) / std::sqrt(variance + 1e-5) * gain[i] + bias[i];
  }
  return y;
}

Vector linear(const Vector& x, const Vector& w, const Vector& b) {
  Vector y = b;
  for (std::size_t o = 0; o < y.size(); ++o) {
    for (std::size_t i = 0; i < x.size(); ++i) y[o] += w[o * x.size() + i] * x[i];
  }
  return y;
}

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

// One row, position by position, all in fp64.
double row_loss(const Shape& s, const Weights& w, const std::uint8_t* tokens,
                const std::uint8_t* targets) {
  const auto c = static_cast<std::size_t>(s.width);
  const std::size_t size = c / static_cast<std::size_t>(s.heads);
  const auto positions = static_cast<std::size_t>(s.context);
  std::vector<Vector> x(positions, Vector(c));
  for (std::size_t t = 0; t < positions; ++t) {
    for (std::size_t i = 0; i < c; ++i)
      x[t][i] = w.at("wte")[tokens[t] * c + i] + w.at("wpe")[t * c + i];
  }
  for (int l = 0; l < s.layers; ++l) {
    auto p = [&](const char* name) { return w.at("h" + std::to_string(l) + "." + name); };
    std::vector<Vector> qkv;
    for (const Vector& v : x) {
      qkv.push_back(
          linear(layer_norm(v, p("ln1.gain"), p("ln1.bias")), p("qkv.weight"), p("qkv.bias")));
    }
    for (std::size_t t = 0; t < positions; ++t) {
      Vector mixed(c);
      for (std::size_t h = 0; h < c; h += size) {
        Vector score(t + 1);
        double total = 0;
        for (std::size_t k = 0; k <= t; ++k) {
          for (std::size_t i = h; i < h + size; ++i) score[k] += qkv[t][i] * qkv[k][c + i];
          score[k] = std::exp(score[k] / std::sqrt(static_cast<double>(size)));
          total += score[k];
        }
        for (std::size_t k = 0; k <= t; ++k) {
          for (std::size_t i = h; i < h + size; ++i)
            mixed[i] += score[k] / total * qkv[k][2 * c + i];
        }
      }
      const Vector y = linear(mixed, p("proj.weight"), p("proj.bias"));
      for (std::size_t i = 0; i < c; ++i) x[t][i] += y[i];
    }
    for (Vector& v : x) {
      Vector f = linear(layer_norm(v, p("ln2.gain"), p("ln2.bias")), p("fc.weight"), p("fc.bias"));
      for (double& e : f) e = gelu(e);
      const Vector y = linear(f, p("fc_proj.weight"), p("fc_proj.bias"));
      for (std::size_t i = 0; i < c; ++i) v[i] += y[i];
    }
  }
  double loss = 0;
  for (std::size_t t = 0; t < positions; ++t) {
    const Vector logits = linear(layer_norm(x[t], w.at("lnf.gain"), w.at("lnf.bias")), w.at("wte"),
                                 Vector(gpt::kVocabulary));
    double total = 0;
    for (const double e : logits) total += std::exp(e);
    loss += std::log(total) - logits[targets[t]];
  }
  return loss / static_cast<double>(positions);
}

double reference_loss(const Shape& s, const Weights& w, const std::vector<std::uint8_t>& tokens,
                      const std::vector<std::uint8_t>& targets) {
  double loss = 0;
  for (int b = 0; b < s.micro_batch; ++b) {
    loss += row_loss(s, w, tokens.data() + b * s.context, targets.data() + b * s.context);
  }
  return loss / s.micro_batch;
}

std::vector<Parameter*> all_parameters(Model& model) {
  std::vector<Parameter*> all;
  for (int u = 0; u < model.units(); ++u) {
    for (Parameter* p : model.unit(u)) all.push_back(p);
  }
  return all;
}

// Memory for a model, every weight drawn anew so that no gain is 1 and no bias 0.
struct Fixture {
  explicit Fixture(Storage storage, const gpt::Kernels& kernels = gpt::best_kernels(),
                   const Shape& shape = kTiny)
      : model(shape, storage, kernels), bytes(storage == Storage::kFloat32 ? 4 : 2) {
    for (Parameter* p : all_parameters(model)) {
      const auto n = static_cast<std::size_t>(p->numel());
      std::vector<float> start(n);
      Vector& exact = weights[p->name];
      for (float& v : start) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        v = 0.4f * (static_cast<float>(state >> 40) / 16777216.0f - 0.5f);
        if (p->init == gpt::InitKind::kOne) v += 1.0f;
      }
      memory.emplace_back(n * bytes);
      gradients.emplace_back(n * bytes);
      kernels.add_into(memory.back().data(), storage, start.data(), p->numel());
      kernels.widen(start.data(), memory.back().data(), storage, p->numel());
      exact.assign(start.begin(), start.end());
      p->w = memory.back().data();
      p->w_grad = gradients.back().data();
    }
    for (int i = 0; i < shape.micro_batch * shape.context; ++i) {
      tokens.push_back(static_cast<std::uint8_t>((i * 37 + 11) % 7 + 60));
      targets.push_back(static_cast<std::uint8_t>((i * 53 + 5) % 9 + 58));
    }
  }

  double forward() {
    model.forward_embedding(tokens);
    for (int l = 0; l < model.shape().layers; ++l) model.forward_block(l);
    return model.forward_head(targets);
  }
  void backward(float scale) {
    model.backward_head(scale);
    for (int l = model.shape().layers - 1; l >= 0; --l) model.backward_block(l);
    model.backward_embedding();
  }
  std::vector<float> gradient(std::size_t index, const Parameter& p) {
    std::vector<float> wide(static_cast<std::size_t>(p.numel()));
    model.kernels().widen(wide.data(), gradients[index].data(), model.storage(), p.numel());
    return wide;
  }

  Model model;
  std::size_t bytes;
  std::uint64_t state = 1;
  Weights weights;
  std::vector<std::vector<std::byte>> memory, gradients;
  std::vector<std::uint8_t> tokens, targets;
};

class Gpt : public testing::TestWithParam<std::tuple<const gpt::Kernels*, Storage>> {};

TEST_P(Gpt, LossAndEveryGradientMatchAnIndependentFp64Model) {
  const auto [kernels, storage] = GetParam();
  Fixture f(storage, *kernels);
  EXPECT_NEAR(f.forward(), reference_loss(kTiny, f.weights, f.tokens, f.targets), 2e-6);
  constexpr float kScale = 8;
  f.backward(kScale);
  // One rounding per contribution; two for the tied "wte".
  const double rounding = storage == Storage::kFloat32   ? 1e-6
                          : storage == Storage::kFloat16 ? 0x1p-10
                                                         : 0x1p-7;
  std::size_t index = 0;
  for (Parameter* p : all_parameters(f.model)) {
    const std::vector<float> gradient = f.gradient(index++, *p);
    Vector& w = f.weights[p->name];
    const std::size_t stride = std::max<std::size_t>(1, w.size() / 61);
    for (std::size_t i = 0; i < w.size(); i += stride) {
      constexpr double kStep = 1e-5;
      const double at = w[i];
      w[i] = at + kStep;
      const double above = reference_loss(kTiny, f.weights, f.tokens, f.targets);
      w[i] = at - kStep;
      const double below = reference_loss(kTiny, f.weights, f.tokens, f.targets);
      w[i] = at;
      const double expected = kScale * (above - below) / (2 * kStep);
      ASSERT_NEAR(gradient[i], expected, 2e-6 + rounding * std::abs(expected))
          << p->name << "[" << i << "]";
    }
  }
}

TEST_P(Gpt, GradientsAreAddedNotOverwritten) {
  const auto [kernels, storage] = GetParam();
  Fixture f(storage, *kernels);
  f.forward();
  f.backward(1);
  std::vector<std::vector<float>> once;
  std::size_t index = 0;
  for (Parameter* p : all_parameters(f.model)) once.push_back(f.gradient(index++, *p));
  f.forward();
  f.backward(1);
  const float rounding = storage == Storage::kFloat32 ? 1e-6f : 0x1p-6f;
  index = 0;
  for (Parameter* p : all_parameters(f.model)) {
    const std::vector<float> twice = f.gradient(index, *p);
    float largest = 0;
    for (const float g : once[index]) largest = std::max(largest, std::abs(g));
    ASSERT_GT(largest, 0) << p->name;
    for (std::size_t i = 0; i < twice.size(); ++i) {
      ASSERT_NEAR(twice[i], 2 * once[index][i], rounding * largest) << p->name;
    }
    ++index;
  }
}

TEST_P(Gpt, BitsDoNotDependOnWhereTheWeightsLie) {
  const auto [kernels, storage] = GetParam();
  const Shape shape = {.layers = 1, .width = 20, .heads = 2, .context = 19, .micro_batch = 2};
  Fixture f(storage, *kernels, shape);
  const double loss = f.forward();
  f.backward(1);
  Fixture moved(storage, *kernels, shape);
  std::vector<std::vector<std::byte>> homes;
  std::size_t index = 0;
  for (Parameter* p : all_parameters(moved.model)) {
    const std::size_t shift = moved.bytes * (1 + index % 13);
    for (void** place : {&p->w, &p->w_grad}) {
      homes.emplace_back(moved.memory[index].size() + shift);
      std::memcpy(homes.back().data() + shift, *place, moved.memory[index].size());
      *place = homes.back().data() + shift;
    }
    ++index;
  }
  EXPECT_EQ(loss, moved.forward());
  moved.backward(1);
  index = 0;
  for (Parameter* p : all_parameters(moved.model)) {
    ASSERT_EQ(0, std::memcmp(p->w_grad, f.gradients[index].data(), f.gradients[index].size()))
        << p->name;
    ++index;
  }
}

std::vector<const gpt::Kernels*> kernel_tables() {
  std::vector<const gpt::Kernels*> tables;
  for (const gpt::Kernels* const* k = gpt::available_kernels(); *k != nullptr; ++k) {
    tables.push_back(*k);
  }
  return tables;
}

std::string case_name(const testing::TestParamInfo<Gpt::ParamType>& param) {
  const auto [kernels, storage] = param.param;
  const std::string name = kernels->name;
  if (storage == Storage::kFloat32) return name + "_fp32";
  return name + (storage == Storage::kFloat16 ? "_fp16" : "_bf16");
}

INSTANTIATE_TEST_SUITE_P(All, Gpt,
                         testing::Combine(testing::ValuesIn(kernel_tables()),
                                          testing::Values(Storage::kFloat32, Storage::kFloat16,
                                                          Storage::kBFloat16)),
                         case_name);

TEST(GptInit, IsTheSameForEveryStorageUpToRounding) {
  Model model(kTiny, Storage::kFloat32);
  const Parameter& p = *model.unit(1)[2];
  const auto n = static_cast<std::size_t>(p.numel());
  std::vector<float> wide(n), again(n), other(n), narrowed(n);
  std::vector<std::uint16_t> narrow(n);
  fill_initial(p, 7, Storage::kFloat32, std::as_writable_bytes(std::span(wide)));
  fill_initial(p, 7, Storage::kFloat32, std::as_writable_bytes(std::span(again)));
  fill_initial(p, 8, Storage::kFloat32, std::as_writable_bytes(std::span(other)));
  fill_initial(p, 7, Storage::kBFloat16, std::as_writable_bytes(std::span(narrow)));
  gpt::best_kernels().widen(narrowed.data(), narrow.data(), Storage::kBFloat16, p.numel());
  EXPECT_EQ(wide, again);
  EXPECT_NE(wide, other);
  double squares = 0;
  for (std::size_t i = 0; i < n; ++i) {
    EXPECT_NEAR(wide[i], narrowed[i], 0x1p-8 * std::abs(wide[i]));
    squares += wide[i] * static_cast<double>(wide[i]) / static_cast<double>(n);
  }
  EXPECT_NEAR(std::sqrt(squares), p.stddev, 0.25 * p.stddev);
}

TEST(GptShape, RefusesWhatDoesNotFit) {
  EXPECT_THROW(Model({.layers = 1, .width = 10, .heads = 3}, Storage::kFloat32),
               std::invalid_argument);
  EXPECT_THROW(Model({.layers = 0}, Storage::kFloat32), std::invalid_argument);
}

}  // namespace
