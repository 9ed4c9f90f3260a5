// The same bits on the host and on CUDA devices, whatever moves the gradients: parameters, masters,
// moments and norms of the same training.
#include <gtest/gtest.h>

#include "tests/nccl_fixtures.hpp"
#include "tests/toy_model.hpp"

namespace zero::test {
namespace {

constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

ToySetup setup(int stage, int world_size, int accumulation, DType dtype,
               const std::string& more = "") {
  ToySetup s;
  s.units = odd_units();
  s.dtype = dtype;
  s.world_size = world_size;
  s.accumulation = accumulation;
  s.config = R"({"zero_optimization": {"stage": )" + std::to_string(stage) + "}" + more + "}";
  return s;
}

using Body = std::function<void(World&)>;
void on(DeviceKind device, int ranks, const Body& body) {
  RunOptions options;
  options.device = device;
  options.timeout = std::chrono::seconds(60);
  run_ranks(ranks, body, options);
}
void on_cuda(int ranks, const Body& body) { on(DeviceKind::kCuda, ranks, body); }
void on_host(int ranks, const Body& body) { on(DeviceKind::kHost, ranks, body); }
void by_nccl(int ranks, const Body& body) {
  run_nccl_ranks(ranks, {std::chrono::seconds(60)}, 0, body);
}
void by_nccl_alone(int ranks, const Body& body) {
  NcclOptions options{std::chrono::seconds(60)};
  options.nccl_reduction = true;
  run_nccl_ranks(ranks, options, 0, body);
}

ToyResult run_by(ToySetup setup, decltype(ToySetup::run) run) {
  setup.run = std::move(run);
  return run_toy(setup);
}

using CudaParity = OnCuda;

TEST_F(CudaParity, ThreadsOnADeviceAndOnTheHost) {
  for (const char* more :
       {"", R"(, "runtime": {"reproducible": true})",
        R"(, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 4}})"}) {
    for (const int stage : {0, 1, 2, 3}) {
      for (const DType dtype : kDTypes) {
        const ToySetup s = setup(stage, 2, 1 + stage % 2, dtype, more);
        EXPECT_TRUE(run_by(s, on_cuda) == run_by(s, on_host))
            << "stage " << stage << ' ' << dtype_name(dtype) << more;
      }
    }
  }
}

// Also that what NCCL stages is planned: run_toy() compares the ledgers.
TEST_F(CudaParity, ProcessesThroughNcclAndThreadsOnTheHost) {
  for (const int ranks : {1, 2, 3}) {
    if (const std::string why = nccl_refusal(ranks); !why.empty()) GTEST_SKIP() << why;
    for (const int stage : {0, 1, 2, 3}) {
      for (const DType dtype : kDTypes) {
        const ToySetup s = setup(stage, ranks, 1 + stage % 2, dtype);
        EXPECT_TRUE(run_by(s, by_nccl) == run_by(s, on_host))
            << ranks << " ranks, stage " << stage << ' ' << dtype_name(dtype);
      }
    }
  }
}

// Sums of NCCL's own may have other bits, and have nearly the same values.
TEST_F(CudaParity, NcclsOwnReductionIsClose) {
  if (const std::string why = nccl_refusal(3); !why.empty()) GTEST_SKIP() << why;
  for (const int stage : {0, 1, 2, 3}) {
    const ToyResult own =
        run_by(setup(stage, 3, 1, DType::kFloat32, R"(, "runtime": {"nccl_reduction": true})"),
               by_nccl_alone);
    const ToyResult ours = run_by(setup(stage, 3, 1, DType::kFloat32), on_host);
    for (const auto& [name, values] : ours.exp_avg) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_NEAR(own.exp_avg.at(name)[i], values[i], 1e-5) << name << ' ' << i;
      }
    }
  }
}

std::string refusal(const ToySetup& setup, const decltype(ToySetup::run)& run) {
  try {
    run_by(setup, run);
    return "(accepted)";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST_F(CudaParity, TheConfigurationAndTheWorldAgreeOnWhoSums) {
  const ToySetup plain = setup(1, 1, 1, DType::kFloat32);
  const ToySetup asks = setup(1, 1, 1, DType::kFloat32, R"(, "runtime": {"nccl_reduction": true})");
  const std::string by_threads = refusal(asks, on_cuda);
  EXPECT_NE(by_threads.find("runtime.nccl_reduction is true"), std::string::npos) << by_threads;
  if (const std::string why = nccl_refusal(1); !why.empty()) GTEST_SKIP() << why;
  const std::string not_said = refusal(plain, by_nccl_alone);
  EXPECT_NE(not_said.find("runtime.nccl_reduction is false"), std::string::npos) << not_said;
}

}  // namespace
}  // namespace zero::test
