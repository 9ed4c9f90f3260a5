// The example of saving and resuming in README.md; a test compares the two.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "zero/checkpoint.hpp"
#include "zero/zero_optimizer.hpp"

namespace {

constexpr int kSteps = 40;

// The backward pass sets `grad`.
void train_one_step(zero::ZeroOptimizer& optimizer, zero::Unit unit, float* const& w,
                    float* const& grad) {
  const auto use = optimizer.backward(unit);
  *grad += *w;  // of w^2 / 2
}

// Trains from where `runs` left off; returns w.
float train(const std::string& runs, std::int64_t last_step) {
  const auto config = zero::Config::parse(R"({"train_micro_batch_size_per_gpu": 1,
      "optimizer": {"type": "AdamW", "params": {"lr": 0.1}},
      "gradient_clipping": 0, "zero_optimization": {"stage": 1}})");
  float result = 0;
  zero::run_ranks(2, [&](zero::World& world) {
    float start = 8;
    float *w = &start, *w_grad = nullptr;
    zero::ZeroOptimizer optimizer(config, world);
    const zero::Unit unit =
        optimizer.add_unit("u", {{.name = "w", .shape = {1}, .data = &w, .grad = &w_grad}});
    optimizer.prepare();
    // [snippet]
    std::int64_t step = 0;
    zero::FileSystem& files = zero::posix_file_system();
    if (!zero::list_checkpoints(files, runs).empty()) {
      const zero::LoadReport loaded = optimizer.load(runs);  // after prepare(), by all ranks
      step = loaded.step;
      if (world.rank() == 0) std::printf("going on from %s\n", loaded.folder.c_str());
    }
    while (step < last_step) {
      train_one_step(optimizer, unit, w, w_grad);
      optimizer.step();
      ++step;
      if (step % 10 == 0) {
        // Returns when the state is copied; it is written while training goes on.
        optimizer.save(runs, step, {.keep = 3, .async = true, .user_data = R"({"epoch": 1})"});
      }
    }
    optimizer.wait_for_save();
    // [/snippet]
    float value = 0;
    optimizer.read("w", zero::Tensor::kParams, {&value, 1});
    if (world.rank() == 0) result = value;
  });
  return result;
}

}  // namespace

int main() {
  std::string folder = (std::filesystem::temp_directory_path() / "zero-readme-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  const float whole = train(folder + "/whole", kSteps);
  train(folder + "/runs", kSteps / 2);
  const float resumed = train(folder + "/runs", kSteps);
  std::filesystem::remove_all(folder);
  std::printf("w = %.6f, resumed %.6f\n", static_cast<double>(whole), static_cast<double>(resumed));
  return whole == resumed && whole < 8 ? 0 : 1;
}
