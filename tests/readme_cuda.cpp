// The example of a model on a CUDA device in README.md; a test compares the two.
#include <cstdio>
#include <vector>

#include "zero/copy.hpp"
#include "zero/error.hpp"
#include "zero/zero_optimizer.hpp"

namespace {

void train() {
  const auto config = zero::Config::parse(R"({"train_micro_batch_size_per_gpu": 1,
      "optimizer": {"type": "SGD", "params": {"lr": 0.5}}, "gradient_clipping": 0,
      "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0}})");
  // [snippet]
  zero::RunOptions options;
  options.device = zero::DeviceKind::kCuda;  // rank r on CUDA device r modulo their number
  zero::run_ranks(
      2,
      [&](zero::World& world) {
        std::vector<float> start = {1, 2, 3, 4};  // start values: on the host or on the device
        float *w = start.data(), *w_grad = nullptr;

        zero::ZeroOptimizer optimizer(config, world);
        const zero::Unit unit =
            optimizer.add_unit("u", {{.name = "w", .shape = {4}, .data = &w, .grad = &w_grad}});
        optimizer.prepare();  // from here on w and w_grad lead into device memory

        zero::Stream& stream = world.device().caller_stream();
        for (int step = 0; step < 3; ++step) {
          {
            const auto use = optimizer.forward(unit);
            // Kernels that read w go on static_cast<cudaStream_t>(stream.native()).
          }
          {
            const auto use = optimizer.backward(unit);
            // The gradient of |w|^2 / 2 is w: here a copy in the place of a kernel.
            zero::copy(w_grad, w, 4 * sizeof(float), stream);
          }
          optimizer.step();  // enqueues reduction, vote, update; waits for no device
        }
        const zero::StepResult last = optimizer.synchronize();
        std::vector<float> values(4);
        optimizer.read("w", zero::Tensor::kParams, values);
        if (world.rank() == 0) std::printf("norm %.2f, w[3] = %.2f\n", last.grad_norm, values[3]);
      },
      options);
  // [/snippet]
}

}  // namespace

int main() {
  try {
    train();
  } catch (const zero::CudaError& error) {
    std::printf("skipped: %s\n", error.what());
    return 77;
  }
}
