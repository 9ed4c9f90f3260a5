// The code that README.md shows about processes: with mpirun or alone.
#include <cstdio>
#include <exception>
#include <vector>

#include "zero/zero_optimizer.hpp"

namespace {

void train(zero::World& world) {
  std::vector<float> start = {1, 2, 3, 4};
  float *w = start.data(), *w_grad = nullptr;
  const auto config = zero::Config::parse(R"({"zero_optimization": {"stage": 2},
                                              "train_micro_batch_size_per_gpu": 1})",
                                          "readme");
  zero::ZeroOptimizer optimizer(config, world);
  const zero::Unit unit =
      optimizer.add_unit("u", {{.name = "w", .shape = {4}, .data = &w, .grad = &w_grad}});
  optimizer.prepare();
  {
    const auto use = optimizer.backward(unit);
    for (int i = 0; i < 4; ++i) w_grad[i] += w[i];
  }
  optimizer.step();
  if (world.rank() == 0) std::printf("w[3] = %.3f\n", static_cast<double>(w[3]));
}

}  // namespace

// [snippet]
int main() {
  try {
    zero::World world = zero::World::from_environment();  // alone, or one of mpirun -n N
    train(world);                                         // as in run_ranks
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;  // ends the job
  }
}
// [/snippet]
