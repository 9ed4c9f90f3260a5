// Bytes by the ledger: the formulas of the ZeRO paper, what stage 3 holds gathered, what is left,
// and that a step in steady state takes nothing from the system.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>

#include "tests/device_access.hpp"
#include "tests/toy_model.hpp"
#include "zero/error.hpp"

namespace zero::test {
namespace {

// Four units of so many elements: no padding up to elems / 8 ranks.
std::vector<ToyUnit> even_units(std::int64_t elems = 4096) {
  return {{"u0", {{"a", elems}}, {}},
          {"u1", {{"b", elems}}, {}},
          {"u2", {{"c", elems}}, {}},
          {"u3", {{"d", elems}}, {}}};
}
constexpr std::int64_t kElems = 4 * 4096;

ToySetup setup(int stage, int world_size, DType dtype, const std::string& more = "") {
  ToySetup s;
  s.units = even_units();
  s.dtype = dtype;
  s.world_size = world_size;
  s.config = R"({"zero_optimization": {"stage": )" + std::to_string(stage) + more + "}}";
  return s;
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kManyRanks = 16;  // 64 threads of shadow memory take gigabytes and minutes
#else
constexpr int kManyRanks = 64;
#endif

std::int64_t current(const Ledger& ledger, Category category) {
  return ledger.account(category).current_bytes;
}

std::int64_t model_states(const Ledger& ledger) {
  return current(ledger, Category::kParams) + current(ledger, Category::kGrads) +
         current(ledger, Category::kMasterWeights) + current(ledger, Category::kExpAvg) +
         current(ledger, Category::kExpAvgSq);
}

// Source: Rajbhandari et al. 2020, figure 1, with K = 12 for Adam.
TEST(Memory, ModelStatesAreThePapersFormulas) {
  constexpr std::int64_t kEach = 512;  // what 64 ranks need
  constexpr std::int64_t p = 4 * kEach;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (const int n : {1, 2, 4, 8, kManyRanks}) {
      const std::int64_t want[] = {16 * p, 4 * p + 12 * p / n, 2 * p + 14 * p / n, 16 * p / n};
      for (const int stage : {0, 1, 2, 3}) {
        ToySetup s = setup(stage, n, dtype);
        s.units = even_units(kEach);
        s.steps = 1;
        const ToyResult result = run_toy(s);
        for (const Ledger& ledger : result.ledgers) {
          EXPECT_EQ(model_states(ledger), want[stage]) << "stage " << stage << ", ranks " << n;
          EXPECT_EQ(current(ledger, Category::kBucket), 0);
          EXPECT_EQ(current(ledger, Category::kGather), 0);
        }
      }
    }
  }
}

TEST(Memory, Fp32ParametersAreTheirOwnMasters) {
  for (const int stage : {0, 1, 2, 3}) {
    const ToyResult result = run_toy(setup(stage, 4, DType::kFloat32));
    const std::int64_t p = kElems;
    const std::int64_t want[] = {16 * p, 8 * p + 8 * p / 4, 4 * p + 12 * p / 4, 16 * p / 4};
    for (const Ledger& ledger : result.ledgers) {
      EXPECT_EQ(current(ledger, Category::kMasterWeights), 0);
      EXPECT_EQ(model_states(ledger), want[stage]) << "stage " << stage;
    }
  }
}

TEST(Memory, PaddingIsCounted) {
  ToySetup s = setup(3, 3, DType::kBFloat16);
  s.units = odd_units();
  const ToyResult result = run_toy(s);
  EXPECT_GT(result.padded_elems, result.model_elems);
  for (const Ledger& ledger : result.ledgers) {
    EXPECT_EQ(model_states(ledger), 16 * result.padded_elems / 3);
  }
}

TEST(Memory, GatheredPeakIsTheUnitInUseAndThePrefetchWindow) {
  const std::int64_t unit_bytes = 4096 * 2;
  for (const std::int64_t window_units : {0, 1, 2}) {
    for (const char* overlap : {"true", "false"}) {
      const std::string more = R"(, "stage3_prefetch_bucket_size": )" +
                               std::to_string(window_units * 4096) + R"(, "overlap_comm": )" +
                               overlap;
      const ToyResult result = run_toy(setup(3, 2, DType::kBFloat16, more));
      for (const Ledger& ledger : result.ledgers) {
        EXPECT_EQ(ledger.account(Category::kGather).peak_bytes, (1 + window_units) * unit_bytes)
            << more;
      }
    }
  }
}

TEST(Memory, PassingGradientsAreAFewBucketsAtMost) {
  for (const int stage : {2, 3}) {
    const ToyResult result = run_toy(
        setup(stage, 2, DType::kBFloat16, R"(, "reduce_bucket_size": 4096, "overlap_comm": true)"));
    for (const Ledger& ledger : result.ledgers) {
      EXPECT_LE(ledger.account(Category::kBucket).peak_bytes, 3 * 4096 * 2);
    }
    const ToyResult plain = run_toy(setup(
        stage, 2, DType::kBFloat16, R"(, "reduce_bucket_size": 4096, "overlap_comm": false)"));
    for (const Ledger& ledger : plain.ledgers) {
      EXPECT_EQ(ledger.account(Category::kBucket).peak_bytes, 4096 * 2);
    }
  }
}

TEST(Memory, HugeBucketSettingsCostNoMoreThanTheModel) {
  const ToyResult result = run_toy(setup(
      2, 2, DType::kBFloat16, R"(, "reduce_bucket_size": 5e8, "allgather_bucket_size": 5e8)"));
  for (const Ledger& ledger : result.ledgers) {
    EXPECT_LE(ledger.account(Category::kBucket).peak_bytes, kElems * 2);
  }
}

// A million parameters on 64 ranks, and more ranks than elements.
TEST(Memory, ManyRanks) {
  ToySetup s = setup(3, kManyRanks, DType::kBFloat16);
  s.units = {{"u0", {{"a", 300000}}, {}}, {"u1", {{"b", 400000}}, {}}, {"u2", {{"c", 300000}}, {}}};
  s.steps = 2;
  const ToyResult result = run_toy(s);
  for (const Ledger& ledger : result.ledgers) {
    EXPECT_EQ(model_states(ledger), 16 * result.padded_elems / kManyRanks);
    EXPECT_LT(model_states(ledger), 16 * 1'000'000 / kManyRanks * 101 / 100);
  }
  for (const int stage : {0, 1, 2, 3}) {
    ToySetup few = setup(stage, 32, DType::kFloat32);
    few.units = {{"u0", {{"a", 3}}, {}}, {"u1", {{"b", 1}, {"c", 0}}, {}}};
    EXPECT_TRUE(run_toy(few) == run_toy([&] {
                  ToySetup zero = few;
                  zero.config = "{}";
                  return zero;
                }()));
  }
}

// run_toy itself checks that nothing is left after destruction; here is that it would notice.
TEST(Memory, LedgerReturnsToZeroAfterEveryStage) {
  for (const int stage : {0, 1, 2, 3}) {
    World world = test_world();
    {
      ToySetup s = setup(stage, 1, DType::kBFloat16);
      ZeroOptimizer optimizer(toy_config(s), world);
      float weight = 1;
      float* data = &weight;
      float* grad = nullptr;
      optimizer.add_unit("u", {{.name = "w", .shape = {1}, .data = &data, .grad = &grad}});
      EXPECT_THROW(optimizer.prepare(), ConfigError);  // bf16 enabled, fp32 registered
    }
    EXPECT_EQ(world.ledger().total().current_bytes, 0);
    {
      ToySetup s = setup(stage, 1, DType::kFloat32);
      ZeroOptimizer optimizer(toy_config(s), world);
      float weight = 1;
      float* data = &weight;
      float* grad = nullptr;
      optimizer.add_unit("u", {{.name = "w", .shape = {1}, .data = &data, .grad = &grad}});
      optimizer.prepare();
      EXPECT_GT(world.ledger().total().current_bytes, 0);
    }
    EXPECT_EQ(world.ledger().total().current_bytes, 0);
  }
}

long minor_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

class Steady : public testing::TestWithParam<int> {};

// After warm-up a step neither asks the system for memory nor touches a page for the first time. Of
// the host: pages of a CUDA device are not the process's.
TEST_P(Steady, StepsCauseNoGrowthAndNoPageFault) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers allocate shadow memory of their own";
#endif
  const int stage = GetParam();
  std::atomic<long> fewest{1'000'000};
  std::atomic<std::int64_t> growth{0};
  run_ranks(2, [&](World& world) {
    ToySetup s = setup(stage, 2, DType::kBFloat16,
                       R"(, "reduce_bucket_size": 2000000, "overlap_comm": true)");
    ZeroOptimizer optimizer(toy_config(s), world);
    constexpr int kUnits = 4;
    constexpr std::int64_t kSize = 1'000'000;
    std::vector<bf16> start(kSize, from_float<bf16>(0.5f));
    bf16* data[kUnits];
    bf16* grad[kUnits] = {};
    std::vector<Unit> units;
    for (int u = 0; u < kUnits; ++u) {
      data[u] = start.data();
      units.push_back(optimizer.add_unit("u" + std::to_string(u), {{.name = "w" + std::to_string(u),
                                                                    .shape = {kSize},
                                                                    .data = &data[u],
                                                                    .grad = &grad[u]}}));
    }
    optimizer.prepare();
    const auto one_step = [&] {
      for (const Unit unit : units) auto use = optimizer.forward(unit);
      for (int u = kUnits - 1; u >= 0; --u) {
        auto use = optimizer.backward(units[static_cast<std::size_t>(u)]);
        for (std::int64_t i = 0; i < kSize; ++i) grad[u][i] = from_float<bf16>(0.25f);
      }
      optimizer.step();
    };
    for (int i = 0; i < 5; ++i) one_step();
    Stream& stream = world.device().caller_stream();
    world.communicator().barrier({Purpose::kControl, "warm"}, stream);
    const std::size_t reserved = world.device().reserved_bytes();
    // A page of code or of the heap may still be met for the first time in one stretch of steps;
    // memory touched anew in every step would show in each of them.
    for (int stretch = 0; stretch < 5; ++stretch) {
      world.communicator().barrier({Purpose::kControl, "measure"}, stream);
      const long before = minor_faults();
      for (int i = 0; i < 10; ++i) one_step();
      world.communicator().barrier({Purpose::kControl, "done"}, stream);
      if (world.rank() == 0) fewest = std::min(fewest.load(), minor_faults() - before);
    }
    growth += static_cast<std::int64_t>(world.device().reserved_bytes() - reserved);
  });
  EXPECT_EQ(growth, 0);
  EXPECT_EQ(fewest, 0);
}

INSTANTIATE_TEST_SUITE_P(Stages, Steady, testing::Values(0, 1, 2, 3));

}  // namespace
}  // namespace zero::test
