// The same bits at every stage, bucket size, prefetch and overlap setting; and the right numbers,
// by a double precision run of the same training in one process.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/toy_model.hpp"

namespace zero::test {
namespace {

std::string zero_section(int stage, const std::string& more = "") {
  return R"({"zero_optimization": {"stage": )" + std::to_string(stage) + more + "}}";
}

ToySetup setup(int stage, int world_size, int accumulation, DType dtype,
               const std::string& more = "") {
  ToySetup s;
  s.units = odd_units();
  s.dtype = dtype;
  s.world_size = world_size;
  s.accumulation = accumulation;
  s.config = zero_section(stage, more);
  return s;
}

struct Point {
  int world_size;
  int accumulation;
  DType dtype;
};

class Parity : public testing::TestWithParam<Point> {};

// Without accumulation all stages agree; with it, 0 and 1 (which add up locally) and 2 and 3 (which
// add up reduced shards) each among themselves.
TEST_P(Parity, StagesAgreeBitForBit) {
  const auto [world_size, accumulation, dtype] = GetParam();
  const ToyResult local = run_toy(setup(0, world_size, accumulation, dtype));
  EXPECT_TRUE(run_toy(setup(1, world_size, accumulation, dtype)) == local);
  const ToyResult sharded = run_toy(setup(2, world_size, accumulation, dtype));
  EXPECT_TRUE(run_toy(setup(3, world_size, accumulation, dtype)) == sharded);
  if (accumulation == 1) {
    EXPECT_TRUE(sharded == local);
  }
}

TEST_P(Parity, BucketsPrefetchAndOverlapChangeNoBit) {
  const auto [world_size, accumulation, dtype] = GetParam();
  for (const int stage : {1, 2, 3}) {
    const ToyResult plain = run_toy(setup(stage, world_size, accumulation, dtype));
    for (const char* more :
         {R"(, "reduce_bucket_size": 1)", R"(, "reduce_bucket_size": 130, "overlap_comm": true)",
          R"(, "stage3_prefetch_bucket_size": 0, "overlap_comm": false)",
          R"(, "stage3_prefetch_bucket_size": 300, "overlap_comm": true)",
          R"(, "stage3_param_persistence_threshold": 50)", R"(, "allgather_bucket_size": 97)"}) {
      EXPECT_TRUE(run_toy(setup(stage, world_size, accumulation, dtype, more)) == plain)
          << "stage " << stage << more;
    }
  }
}

std::vector<Point> points() {
  std::vector<Point> all;
  for (const int world_size : {1, 2, 3, 4, 8}) {
    for (const int accumulation : {1, 3, 4}) {
      all.push_back({world_size, accumulation, DType::kFloat32});
    }
    all.push_back({world_size, 1, DType::kBFloat16});
    all.push_back({world_size, 3, DType::kBFloat16});
    all.push_back({world_size, 2, DType::kFloat16});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Parity, testing::ValuesIn(points()), [](const auto& point) {
  return "Ranks" + std::to_string(point.param.world_size) + "Accumulation" +
         std::to_string(point.param.accumulation) + std::string(dtype_name(point.param.dtype));
});

void expect_near(const std::map<std::string, std::vector<float>>& got,
                 const std::map<std::string, std::vector<float>>& want, double tolerance,
                 const char* what) {
  for (const auto& [name, values] : want) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(got.at(name)[i], values[i], tolerance)
          << what << " of " << name << " element " << i;
    }
  }
}

TEST(Reference, Fp32IsRightAtEveryStageAndWorldSize) {
  for (const int world_size : {1, 2, 3, 4, 8, 16}) {
    for (const int accumulation : {1, 3}) {
      // A large eps keeps Adam from magnifying the rounding of gradients that nearly cancel.
      const std::string eps = R"(}, "optimizer": {"params": {"eps": 0.01})";
      const ToySetup base = setup(0, world_size, accumulation, DType::kFloat32, eps);
      const ToyResult want = reference_toy(base);
      for (const int stage : {0, 1, 2, 3}) {
        const ToyResult got = run_toy(setup(stage, world_size, accumulation, DType::kFloat32, eps));
        expect_near(got.masters, want.masters, 3e-6, "masters");
        expect_near(got.exp_avg, want.exp_avg, 1e-6, "exp_avg");
        expect_near(got.exp_avg_sq, want.exp_avg_sq, 1e-6, "exp_avg_sq");
        for (std::size_t i = 0; i < want.grad_norms.size(); ++i) {
          EXPECT_NEAR(got.grad_norms[i], want.grad_norms[i], 1e-5 * want.grad_norms[i]);
        }
      }
    }
  }
}

TEST(Reference, GradAccumDtypeFp32SharpensSixteenBitGradients) {
  for (const int stage : {0, 1, 2, 3}) {
    ToySetup with = setup(stage, 2, 8, DType::kBFloat16);
    with.steps = 1;
    const ToyResult want = reference_toy(with);
    const ToyResult plain = run_toy(with);
    with.config =
        R"({"data_types": {"grad_accum_dtype": "fp32"}, "zero_optimization": {"stage": )" +
        std::to_string(stage) + "}}";
    const ToyResult sharp = run_toy(with);
    double plain_error = 0;
    double sharp_error = 0;
    for (const auto& [name, values] : want.exp_avg) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        plain_error += std::abs(plain.exp_avg.at(name)[i] - values[i]);
        sharp_error += std::abs(sharp.exp_avg.at(name)[i] - values[i]);
      }
    }
    EXPECT_LT(sharp_error, plain_error / 2) << "stage " << stage;
  }
}

TEST(Reproducible, TheSameBitsForOneTwoFourAndEightRanks) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    std::optional<ToyResult> first;
    for (const int world_size : {1, 2, 4, 8}) {
      for (const int stage : {0, 1, 2, 3}) {
        ToySetup s = setup(stage, world_size, 8 / world_size, dtype);
        s.config = R"({"runtime": {"reproducible": true}, "zero_optimization": {"stage": )" +
                   std::to_string(stage) + R"(, "reduce_bucket_size": 200}})";
        const ToyResult result = run_toy(s);
        if (!first) first = result;
        EXPECT_TRUE(result == *first) << "ranks " << world_size << " stage " << stage;
      }
    }
    expect_near(first->masters, reference_toy(setup(0, 1, 8, dtype)).masters,
                dtype == DType::kFloat32 ? 3e-6 : 0.08, "masters");
  }
}

// Without the tree the order of sums depends on the world size; otherwise the test above shows
// nothing.
TEST(Reproducible, TheDefaultModeDiffersBetweenWorldSizes) {
  EXPECT_FALSE(run_toy(setup(2, 2, 4, DType::kFloat32)) ==
               run_toy(setup(2, 1, 8, DType::kFloat32)));
}

}  // namespace
}  // namespace zero::test
