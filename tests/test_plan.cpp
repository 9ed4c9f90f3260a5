// Plans: equal to what is measured, to the formulas of the ZeRO paper, and to arithmetic by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/device_access.hpp"
#include "tests/plan_fixtures.hpp"
#include "tests/toy_model.hpp"

namespace zero::test {
namespace {

using detail::concat;
using testing::HasSubstr;

// --- Planned is measured ---

class PlanIsMeasured : public testing::TestWithParam<std::tuple<int, int, DType>> {};

// run_toy() throws where anything differs: after prepare() and after training, current and peak, in
// every category, and the step's traffic.
TEST_P(PlanIsMeasured, OverBucketsPrefetchAccumulationAndReproducibleMode) {
  const auto [stage, world_size, dtype] = GetParam();
  for (const char* sizes :
       {"", R"(, "reduce_bucket_size": 1)", R"(, "reduce_bucket_size": 130, "overlap_comm": true)",
        R"(, "stage3_prefetch_bucket_size": 0, "overlap_comm": false)",
        R"(, "stage3_prefetch_bucket_size": 300, "reduce_bucket_size": 64)",
        R"(, "stage3_param_persistence_threshold": 50)"}) {
    for (const int accumulation : {1, 2}) {
      for (const char* reproducible : {"false", "true"}) {
        if (reproducible[0] == 't' && (world_size & (world_size - 1)) != 0) continue;
        for (const char* more : {"", R"(, "data_types": {"grad_accum_dtype": "fp32"})"}) {
          ToySetup setup;
          setup.units = odd_units();
          setup.dtype = dtype;
          setup.world_size = world_size;
          setup.accumulation = accumulation;
          setup.steps = 2;
          setup.config = concat(R"({"zero_optimization": {"stage": )", stage, sizes,
                                R"(}, "runtime": {"reproducible": )", reproducible, "}", more, "}");
          EXPECT_NO_THROW(run_toy(setup)) << setup.config << ", accumulation " << accumulation;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PlanIsMeasured,
                         testing::Combine(testing::Range(0, 4), testing::Values(1, 2, 3, 5, 8),
                                          testing::Values(DType::kFloat32, DType::kBFloat16,
                                                          DType::kFloat16)),
                         [](const auto& point) {
                           return concat("Stage", std::get<0>(point.param), "Ranks",
                                         std::get<1>(point.param),
                                         dtype_name(std::get<2>(point.param)));
                         });

// Ranks that are processes receive all shards but their own before they sum them; where NCCL sums,
// one is enough.
TEST(Plan, SlicesOfProcessesAreStaged) {
  const ModelShape model{{{"u", {{"w", {1000}, DType::kBFloat16, 0, true, false}}, {}},
                          {"v", {{"x", {401}, DType::kBFloat16, 0, true, false}}, {}}},
                         1};
  for (const int stage : {0, 1, 2, 3}) {
    ToySetup setup;
    setup.config =
        concat(R"({"zero_optimization": {"stage": )", stage, R"(, "reduce_bucket_size": 1000}})");
    Config config = toy_config(setup);
    const auto workspace = [&](bool staged) {
      PlanOptions options;
      options.stages_slices = staged;
      const Plan plan = PartitionManager::plan(model, config, 4, options);
      return plan.prepared.account(Category::kWorkspace).current_bytes;
    };
    const std::int64_t threads = workspace(false);
    constexpr std::int64_t kShardBytes = 256 * 2;  // 1000 / 4, to a multiple of 8, in bf16
    EXPECT_EQ(workspace(true), threads + 3 * kShardBytes) << stage;
    config.set("runtime.nccl_reduction", "true");
    EXPECT_EQ(workspace(false), threads + kShardBytes) << stage;
  }
}

TEST(Plan, StepsBeyondTheSecondChangeNothingAndFewerAreForetoldToo) {
  for (const int stage : {0, 1, 2, 3}) {
    for (const int steps : {0, 1, 5}) {
      ToySetup setup;
      setup.units = odd_units();
      setup.world_size = 2;
      setup.steps = steps;
      setup.config = concat(R"({"zero_optimization": {"stage": )", stage, "}}");
      EXPECT_NO_THROW(run_toy(setup)) << "stage " << stage << ", steps " << steps;
    }
  }
}

TEST(Plan, ADifferenceIsSeen) {
  Ledger planned, measured;
  planned.charge(Category::kGather, 8);
  measured.charge(Category::kGather, 8);
  EXPECT_NO_THROW(check_plan("a test", planned, measured));
  measured.charge(Category::kGather, 2);
  measured.release(Category::kGather, 2);  // only the peaks differ now
  EXPECT_THROW(check_plan("a test", planned, measured), Error);
}

// --- Planned is calculated ---

// Rajbhandari et al. 2020, figure 1 and table 1: K = 12, in GB of 1e9 bytes.
TEST(Plan, ModelStatesAreThoseOfThePaper) {
  struct Row {
    double params;
    int ranks;
    double want[4];
  };
  for (const Row& row :
       {Row{7.5e9, 64, {120.0, 31.4, 16.6, 1.88}}, Row{128e9, 64, {2048, 536, 284, 32.0}},
        Row{1e12, 1024, {16000, 4011, 2013, 15.6}}}) {
    const auto each = static_cast<std::int64_t>(row.params / 32);
    for (const int stage : {0, 1, 2, 3}) {
      const Plan plan =
          PartitionManager::plan(stack(32, each, DType::kBFloat16), at(stage), row.ranks);
      const double gigabytes = static_cast<double>(plan.model_state_bytes()) * 1e-9;
      EXPECT_NEAR(gigabytes, row.want[stage], row.want[stage] * 5e-3) << row.params << stage;
      EXPECT_EQ(plan.model_elems, 32 * each);
    }
  }
}

TEST(Plan, SixtyFourRanksMeasureATenThousandthOfThePaper) {
  const double want[] = {120.0, 31.4, 16.6, 1.88};
  for (const int stage : {1, 2, 3}) {  // at stage 0 they would take 64 x 12 MB
    run_on_device(64, [&](World& world) {
      ZeroOptimizer optimizer(at(stage), world);
      std::vector<void*> data(4), grad(4);
      for (std::size_t i = 0; i < 4; ++i) {
        optimizer.add_unit(concat("u", i), {{.name = concat("w", i),
                                             .shape = {750'000 / 4},
                                             .data = &data[i],
                                             .grad = &grad[i],
                                             .dtype = DType::kBFloat16,
                                             .init = [](std::span<std::byte>) {}}});
      }
      const Plan plan = optimizer.plan({.steps = 0});
      optimizer.prepare();
      EXPECT_EQ(plan.trained, optimizer.ledger());
      EXPECT_NEAR(static_cast<double>(plan.model_state_bytes()) * 1e-5, want[stage],
                  want[stage] * 5e-3);
    });
  }
}

// More than 2^31 elements in a parameter, in a bucket and in a shard.
TEST(Plan, SizesBeyond32Bits) {
  const std::int64_t p = (std::int64_t{1} << 33) + 16;  // cuts evenly in two
  for (const int ranks : {1, 2}) {
    for (const int stage : {0, 1, 2, 3}) {
      const Plan plan = PartitionManager::plan(
          stack(1, p, DType::kBFloat16), at(stage, R"({"zero_optimization": {"overlap_comm": false,
                "reduce_bucket_size": 1e12, "allgather_bucket_size": 1e12}})"),
          ranks);
      const std::int64_t want[] = {16 * p, 4 * p + 12 * p / ranks, 2 * p + 14 * p / ranks,
                                   16 * p / ranks};
      EXPECT_EQ(plan.padded_elems, p);
      EXPECT_EQ(plan.model_state_bytes(), want[stage]);
      const auto peak = [&](Category c) { return plan.trained.account(c).peak_bytes; };
      EXPECT_EQ(peak(Category::kBucket), stage >= 2 ? 2 * p : 0);
      EXPECT_EQ(peak(Category::kGather), stage == 3 ? 2 * p : 0);
      const std::int64_t volumes[] = {2, 2, 2, 3};
      EXPECT_EQ(plan.traffic_per_step.model_bytes(), volumes[stage] * 2 * p * (ranks - 1) / ranks);
    }
  }
}

TEST(Plan, EveryRankHoldsTheSame) {
  ModelShape model = stack(3, 1001, DType::kFloat16);
  model.units[1].params.push_back({.name = "bias", .shape = {3}, .dtype = DType::kFloat16});
  model.units[2].shared = {"w0"};
  for (const int stage : {0, 1, 2, 3}) {
    const Plan first = PartitionManager::plan(model, at(stage), 7);
    for (int rank = 1; rank < 7; ++rank) {
      const Plan other = PartitionManager::plan(model, at(stage), 7, {}, rank);
      EXPECT_EQ(other.prepared, first.prepared);
      EXPECT_EQ(other.trained, first.trained);
      EXPECT_EQ(other.traffic_per_step, first.traffic_per_step);
    }
  }
}

// What stays, and one bucket on its way home.
TEST(Plan, ConstructionHoldsOneBucketMoreAtMost) {
  const ModelShape model = stack(6, 10'000, DType::kBFloat16);
  for (const int stage : {0, 1, 2, 3}) {
    const Plan plan = PartitionManager::plan(model, at(stage), 4);
    EXPECT_LE(plan.prepared.total().peak_bytes,
              plan.prepared.total().current_bytes + (stage == 3 ? 2 * 10'000 : 0));
  }
}

TEST(Plan, ReproducibleModeHasATreeOfUpTo1024Ranks) {
  const Config config = at(1, R"({"runtime": {"reproducible": true}})");
  EXPECT_NO_THROW(PartitionManager::plan(stack(1, 10, DType::kFloat32), config, 1024));
  try {
    PartitionManager::plan(stack(1, 10, DType::kFloat32), config, 2048);
    ADD_FAILURE() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("runtime.reproducible takes up to 1024 ranks"));
  }
}

TEST(Plan, RefusesWhatPrepareRefuses) {
  ModelShape model = stack(2, 10, DType::kFloat32);
  model.units[1].params[0].name = "w0";
  EXPECT_THROW(PartitionManager::plan(model, at(0), 1), ConfigError);
  EXPECT_THROW(PartitionManager::plan(stack(1, -1, DType::kFloat32), at(0), 1), ConfigError);
  EXPECT_THROW(PartitionManager::plan(stack(1, 1, DType::kFloat32), at(0), 0), UsageError);
  EXPECT_THROW(PartitionManager::plan(stack(1, 1, DType::kFloat32),
                                      at(0, R"({"bf16": {"enabled": true}})"), 1),
               ConfigError);
}

// --- The device without memory ---

TEST(Meta, AddressesAreDistinctAndHugeSizesAreGiven) {
  const auto device = make_meta_device();
  std::vector<std::pair<std::uintptr_t, std::size_t>> blocks;
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{1} << 40, std::size_t{0}, std::size_t{5}}) {
    void* const p = device->allocate(bytes);
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % Device::kAlignment, 0u);
    for (const auto& [begin, size] : blocks) {
      const auto address = reinterpret_cast<std::uintptr_t>(p);
      EXPECT_TRUE(address > begin + size || address + bytes < begin);
    }
    blocks.emplace_back(reinterpret_cast<std::uintptr_t>(p), bytes);
  }
  EXPECT_THROW(device->allocate(~std::size_t{0}), OutOfMemory);
  EXPECT_FALSE(device->has_memory());
  EXPECT_TRUE(make_host_device()->has_memory());
}

TEST(Meta, RanksOutsideTheWorldAreRefused) {
  for (const auto& [rank, size] : {std::pair(-1, 2), std::pair(2, 2), std::pair(0, 0)}) {
    EXPECT_THROW(World::meta(rank, size), UsageError);
  }
  const World world = World::meta(1023, 1024);
  EXPECT_EQ(world.rank(), 1023);
  EXPECT_EQ(world.world_size(), 1024);
}

}  // namespace
}  // namespace zero::test
