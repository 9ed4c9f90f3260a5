// Uses the installed library as a stranger would: two ranks, one parameter, one step at stage 2.
#include <cstdio>
#include <vector>
#include <zero/error.hpp>
#include <zero/zero_optimizer.hpp>

int main() {
  const zero::Config config = zero::Config::parse(R"({
    "train_batch_size": 2,
    "gradient_clipping": 0.0,
    "optimizer": {"type": "SGD", "params": {"lr": 0.5}},
    "zero_optimization": {"stage": 2}
  })");
  zero::run_ranks(2, [&](zero::World& world) {
    std::vector<float> storage = {1.0f, 2.0f, 3.0f};
    float* w = storage.data();
    float* w_grad = nullptr;
    zero::ZeroOptimizer optimizer(config, world);
    const zero::Unit unit =
        optimizer.add_unit("layer", {{.name = "w", .shape = {3}, .data = &w, .grad = &w_grad}});
    optimizer.prepare();
    {
      auto use = optimizer.backward(unit);
      // Mean over the ranks: (0 + 2) / 2 = 1.
      for (int i = 0; i < 3; ++i) w_grad[i] += 2.0f * static_cast<float>(world.rank());
    }
    optimizer.step();
    auto use = optimizer.forward(unit);
    for (int i = 0; i < 3; ++i) {
      const float expected = static_cast<float>(i) + 0.5f;
      if (w[i] != expected) throw zero::Error("w is not what one step of SGD gives");
    }
    if (world.rank() == 0) std::printf("w = %g %g %g\n", w[0], w[1], w[2]);
  });
}
