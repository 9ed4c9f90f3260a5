// Bytes on the wire against the formulas: 2, 2, 2 and 3 model volumes x (N-1)/N per step, exactly.
#include <gtest/gtest.h>

#include "tests/toy_model.hpp"

namespace zero::test {
namespace {

ToySetup setup(int stage, int world_size, int accumulation, const std::string& more = "") {
  ToySetup s;
  s.units = odd_units();
  s.units.back().shared.clear();  // a tied parameter is gathered once more
  s.dtype = DType::kBFloat16;
  s.world_size = world_size;
  s.accumulation = accumulation;
  s.config = R"({"zero_optimization": {"stage": )" + std::to_string(stage) + more + "}}";
  return s;
}

TEST(Traffic, OneStepMovesTwoTwoTwoAndThreeVolumes) {
  for (const int n : {1, 2, 3, 5, 8}) {
    for (const char* more : {"", R"(, "reduce_bucket_size": 64)",
                             R"(, "stage3_prefetch_bucket_size": 100, "overlap_comm": true)"}) {
      for (const int stage : {0, 1, 2, 3}) {
        const ToyResult result = run_toy(setup(stage, n, 1, more));
        const std::int64_t volume = 2 * result.padded_elems / n * (n - 1);
        for (const Traffic& traffic : result.traffic) {
          EXPECT_EQ(traffic.model_bytes(), (stage == 3 ? 3 : 2) * volume)
              << "stage " << stage << ", ranks " << n << more;
        }
      }
    }
  }
}

TEST(Traffic, AccumulationReducesOnceOrEveryMicroStep) {
  const int n = 4;
  const int a = 3;
  for (const int stage : {0, 1, 2, 3}) {
    const ToyResult result = run_toy(setup(stage, n, a));
    const std::int64_t volume = 2 * result.padded_elems / n * (n - 1);
    const std::int64_t want[] = {2, 2, a + 1, 3 * a};
    for (const Traffic& traffic : result.traffic) {
      EXPECT_EQ(traffic.model_bytes(), want[stage] * volume) << "stage " << stage;
    }
  }
}

TEST(Traffic, PersistentParametersAreGatheredOncePerStep) {
  const int n = 2;
  ToySetup s = setup(3, n, 1, R"(, "stage3_param_persistence_threshold": 1000000)");
  const ToyResult result = run_toy(s);
  const std::int64_t volume = 2 * result.padded_elems / n * (n - 1);
  for (const Traffic& traffic : result.traffic) {
    EXPECT_EQ(traffic.model_bytes(), 2 * volume);
    EXPECT_EQ(traffic.at(Purpose::kParams, Verb::kAllGather).bytes, volume);
    EXPECT_EQ(traffic.at(Purpose::kGradients, Verb::kReduceScatter).bytes, volume);
  }
}

}  // namespace
}  // namespace zero::test
