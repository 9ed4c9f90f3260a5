// The program that README.md shows: an existing model, wrapped. Compiled and run as a test.
// [snippet]
#include <array>
#include <cstdio>
#include <vector>

#include "zero/zero_optimizer.hpp"

// An existing model: y = w x + b, with plain pointers.
struct Line {
  float *w, *b;            // parameters
  float *w_grad, *b_grad;  // the backward pass adds here
};

int main() {
  const auto config = zero::Config::parse(R"({"train_micro_batch_size_per_gpu": 1,
      "optimizer": {"type": "AdamW", "params": {"lr": 0.1}},
      "gradient_clipping": 1.0, "zero_optimization": {"stage": 2}})");

  zero::run_ranks(2, [&](zero::World &world) {  // two ranks, as threads
    std::array<float, 2> start = {0.0f, 0.0f};
    Line line{&start[0], &start[1], nullptr, nullptr};

    zero::ZeroOptimizer optimizer(config, world);
    const zero::Unit unit = optimizer.add_unit(
        "line", {{.name = "w", .shape = {1}, .data = &line.w, .grad = &line.w_grad},
                 {.name = "b", .shape = {1}, .data = &line.b, .grad = &line.b_grad}});
    optimizer.prepare();  // from here on the model's pointers lead into sharded memory

    for (int step = 0; step < 200; ++step) {
      const float x = static_cast<float>((step * 2 + world.rank()) % 5);  // each rank its own data
      float error = 0;
      {
        const auto use = optimizer.forward(unit);  // parameters are usable in here
        error = *line.w * x + *line.b - (3 * x + 1);
      }
      {
        const auto use = optimizer.backward(unit);  // gradients are added in here
        const float factor = static_cast<float>(optimizer.loss_scale());
        *line.w_grad += 2 * error * x * factor;
        *line.b_grad += 2 * error * factor;
      }
      optimizer.step();  // reduce, clip, update, publish
    }
    std::array<float, 1> w{};
    optimizer.read("w", zero::Tensor::kMasterWeights, w);
    if (world.rank() == 0) std::printf("w = %.1f\n", static_cast<double>(w[0]));
  });
}
// [/snippet]
