// The reference model wrapped in a ZeroOptimizer: what a user of the library writes.
//
// Thread-safety: one thread. Every method is collective. Header-only, so that the bench shares it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tools/gpt.hpp"
#include "zero/zero_optimizer.hpp"

namespace train {

inline gpt::Storage storage_of(zero::DType dtype) {
  switch (dtype) {
    case zero::DType::kFloat16:
      return gpt::Storage::kFloat16;
    case zero::DType::kBFloat16:
      return gpt::Storage::kBFloat16;
    case zero::DType::kFloat32:
      break;
  }
  return gpt::Storage::kFloat32;
}

class WrappedModel {
 public:
  // Registers the model, unit by unit. Matrices decay, norms and biases do not. The caller prepares
  // the optimizer. REQUIRES: world outlives this.
  WrappedModel(const gpt::Shape& shape, zero::DType dtype, std::uint64_t seed,
               const zero::Config& config, zero::World& world)
      : model_(shape, storage_of(dtype)), optimizer_(config, world) {
    zero::ParamGroup plain = optimizer_.groups().at(0);
    plain.weight_decay = 0;
    const int no_decay = optimizer_.add_group(plain);
    for (int u = 0; u < model_.units(); ++u) {
      std::vector<zero::ParamSpec> specs;
      for (gpt::Parameter* p : model_.unit(u)) {
        zero::ParamSpec spec;
        spec.name = p->name;
        spec.shape = p->shape;
        spec.data = &p->w;
        spec.grad = &p->w_grad;
        spec.dtype = dtype;
        spec.init = [p, seed, storage = model_.storage()](std::span<std::byte> out) {
          gpt::fill_initial(*p, seed, storage, out);
        };
        spec.group = p->is_matrix() ? 0 : no_decay;
        specs.push_back(std::move(spec));
      }
      const bool is_head = u + 1 == model_.units();
      units_.push_back(optimizer_.add_unit(
          gpt::Model::unit_name(shape, u), std::move(specs),
          is_head ? std::vector<std::string>{"wte"} : std::vector<std::string>{}));
    }
  }

  zero::ZeroOptimizer& optimizer() { return optimizer_; }
  const zero::ZeroOptimizer& optimizer() const { return optimizer_; }

  // Mean cross-entropy over the micro-batch, in nats. tokens, targets: [micro_batch, context].
  double forward(std::span<const std::uint8_t> tokens, std::span<const std::uint8_t> targets) {
    const int layers = model_.shape().layers;
    {
      auto use = optimizer_.forward(units_.front());
      model_.forward_embedding(tokens);
      use.close();
    }
    for (int l = 0; l < layers; ++l) {
      auto use = optimizer_.forward(unit_of(l));
      model_.forward_block(l);
      use.close();
    }
    auto use = optimizer_.forward(units_.back());
    const double loss = model_.forward_head(targets);
    use.close();
    return loss;
  }

  // REQUIRES: forward() before, its arguments still valid.
  void backward() {
    {
      auto use = optimizer_.backward(units_.back());
      model_.backward_head(static_cast<float>(optimizer_.loss_scale()));
      use.close();
    }
    for (int l = model_.shape().layers - 1; l >= 0; --l) {
      auto use = optimizer_.backward(unit_of(l));
      model_.backward_block(l);
      use.close();
    }
    auto use = optimizer_.backward(units_.front());
    model_.backward_embedding();
    use.close();
  }

 private:
  zero::Unit unit_of(int layer) const { return units_[static_cast<std::size_t>(layer) + 1]; }

  gpt::Model model_;
  zero::ZeroOptimizer optimizer_;
  std::vector<zero::Unit> units_;
};

}  // namespace train
