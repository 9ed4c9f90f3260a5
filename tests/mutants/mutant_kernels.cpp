// Kernels with what their order and their bounds are needed for, one small case each.
#include <gtest/gtest.h>

#include "kernels/on_stream.hpp"
#include "tests/cuda/staged_model.hpp"
#include "tests/cuda_fixtures.hpp"
#include "tests/shard_fixtures.hpp"

namespace zero::test {
namespace {

using kernels::GradStats;
using kernels::Pieces;
using kernels::ShardPiece;
using kernels::UpdateConstants;

using Kernels = OnCuda;

TEST_F(Kernels, Statistics) {
  const std::vector<float> values = kernels::numbers<float>(1000, 1);
  const OnDevice<float> grad(*device, values);
  const OnDevice<GradStats> stats(*device, {GradStats{}});
  const OnDevice<std::uint64_t> bad(*device, {kernels::kNoBadParam});
  kernels::grad_stats(grad.view(), {}, 0, 0, stats.data(), bad.data(), stream());
  GradStats found;
  found.add(stats.read()[0]);
  GradStats want;
  kernels::ImmediateStream host;
  std::uint64_t host_bad = kernels::kNoBadParam;
  kernels::grad_stats(kernels::view(values), {}, 0, 0, &want, &host_bad, host);
  EXPECT_EQ(found.sum_squares, want.sum_squares) << "wrong bits";
}

TEST_F(Kernels, Decision) {
  World world = World::cuda();
  ZeroOptimizer optimizer(staged_config(1), world);
  StagedModel model(optimizer, world, DType::kFloat32);
  model.prepare();
  EXPECT_TRUE(model.step(0).result().applied) << "wrong bits";
}

// The arrays end with their allocations.
TEST_F(Kernels, Sum) {
  const std::vector<float> values = kernels::numbers<float>(1003, 1);
  const OnDevice<float> source(*device, values);
  const OnDevice<float> destination(*device, std::vector<float>(values.size()));
  void* const to = destination.data();
  const void* const from = source.data();
  kernels::on_cuda("sum_slices")
      .sum({&from, 1}, DType::kFloat32, {&to, 1}, DType::kFloat32, 1003, 1.0f, false,
           kernels::SumOrder::kSequential, stream().native());
  EXPECT_TRUE(kernels::same_bits(destination.read(), values)) << "wrong bits";
}

TEST_F(Kernels, Update) {
  const std::vector<float> start = kernels::numbers<float>(1003, 1);
  const OnDevice<float> master(*device, start);
  const OnDevice<float> grad(*device, kernels::numbers<float>(1003, 2));
  const OnDevice<ShardPiece> pieces(*device, Pieces().piece(1003, 0).table);
  const OnDevice<UpdateConstants> constants(*device,
                                            kernels::shard_constants(UpdateConstants::Rule::kSgd));
  kernels::update_shard({master.data(), nullptr, nullptr, grad.view(), nullptr}, {pieces.data(), 1},
                        constants.data(), UpdateConstants::Rule::kSgd, stream());
  EXPECT_FALSE(kernels::same_bits(master.read(), start));
}

}  // namespace
}  // namespace zero::test
