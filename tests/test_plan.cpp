// Plans: equal to what is measured, to the formulas of the ZeRO paper, and to arithmetic by hand;
// and the budget that is kept by them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <random>
#include <set>

#include "tests/toy_model.hpp"
#include "zero/error.hpp"
#include "zero/partition_manager.hpp"

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

ModelShape stack(std::int64_t layers, std::int64_t elems_of_each, DType dtype) {
  ModelShape model;
  for (std::int64_t i = 0; i < layers; ++i) {
    model.units.push_back(
        {concat("u", i), {{.name = concat("w", i), .shape = {elems_of_each}, .dtype = dtype}}, {}});
  }
  return model;
}

Config at(int stage, const std::string& patch = "{}") {
  Config config = Config::parse(R"({"train_micro_batch_size_per_gpu": 1,
      "optimizer": {"type": "AdamW"}, "gradient_clipping": 1.0})");
  config.set("zero_optimization.stage", std::to_string(stage));
  config.merge(patch);
  return config;
}

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

TEST(Plan, SixtyFourRanksMeasureAThousandthOfThePaper) {
  const double want[] = {120.0, 31.4, 16.6, 1.88};
  for (const int stage : {0, 1, 2, 3}) {
    if (stage == 0) continue;  // 64 x 120 MB
    run_ranks(64, [&](World& world) {
      ZeroOptimizer optimizer(at(stage), world);
      std::vector<void*> data(8), grad(8);
      for (std::size_t i = 0; i < 8; ++i) {
        optimizer.add_unit(concat("u", i), {{.name = concat("w", i),
                                             .shape = {7'500'000 / 8},
                                             .data = &data[i],
                                             .grad = &grad[i],
                                             .dtype = DType::kBFloat16,
                                             .init = [](std::span<std::byte>) {}}});
      }
      const Plan plan = optimizer.plan({.steps = 0});
      optimizer.prepare();
      EXPECT_EQ(plan.trained, optimizer.ledger());
      EXPECT_NEAR(static_cast<double>(plan.model_state_bytes()) * 1e-6, want[stage],
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

// --- The budget ---

// Sizes at which each stage holds less than the one below, also for a tiny model.
Config small_buckets(int stage, const std::string& patch = "{}") {
  Config config = at(stage, patch);
  config.zero.reduce_bucket_size = 16 * 1024;
  config.zero.prefetch_bucket_size = 0;
  config.zero.param_persistence_threshold = 0;
  return config;
}

// Four units of 16 x 1024 bf16 elements; gives what prepare() says, "" if it accepts.
std::string prepare(World& world, const Config& config, std::vector<std::string>* log = nullptr,
                    int* stage = nullptr, bool fixed_address = false) {
  ZeroOptimizer optimizer(config, world);
  if (log != nullptr) optimizer.set_log([log](std::string_view line) { log->emplace_back(line); });
  std::vector<std::vector<bf16>> start(4, std::vector<bf16>(16 * 1024));
  std::vector<bf16*> data(4), grad(4);
  for (std::size_t i = 0; i < 4; ++i) {
    data[i] = start[i].data();
    ParamSpec spec{
        .name = concat("w", i), .shape = {16 * 1024}, .data = &data[i], .grad = &grad[i]};
    if (fixed_address) spec.data = fixed(start[i].data());
    optimizer.add_unit(concat("u", i), {spec});
  }
  const std::size_t before = world.device().reserved_bytes();
  try {
    const Plan plan = optimizer.plan();
    optimizer.prepare();
    EXPECT_EQ(plan.prepared, optimizer.ledger());
  } catch (const ConfigError& error) {
    EXPECT_EQ(world.ledger().total().peak_bytes, 0) << "something was allocated";
    EXPECT_EQ(world.device().reserved_bytes(), before);
    return error.what();
  }
  if (stage != nullptr) *stage = optimizer.stage();
  return "";
}

TEST(Budget, IsKeptToTheByte) {
  std::atomic<int> fitted{0};
  for (const int stage : {0, 1, 2, 3}) {
    const ModelShape model = stack(4, 16 * 1024, DType::kBFloat16);
    const std::int64_t peak = PartitionManager::plan(model, small_buckets(stage), 2).peak_bytes();
    run_ranks(2, [&](World& world) {
      const auto with = [&](std::int64_t budget, std::int64_t reserved) {
        return prepare(world,
                       small_buckets(stage, concat(R"({"runtime": {"memory_budget": )", budget,
                                                   R"(, "reserved": )", reserved, "}}")));
      };
      const std::string refusal = with(peak - 1, 0);
      EXPECT_THAT(refusal, HasSubstr(concat("peaks at ", peak, " bytes")));
      EXPECT_THAT(refusal, HasSubstr("master_weights"));  // the table
      const Fit fit = PartitionManager::fit(model, small_buckets(stage), 2, peak - 1);
      EXPECT_THAT(refusal, HasSubstr(fit.fits ? "This would fit: " : "Nothing fits"));
      EXPECT_THAT(refusal, HasSubstr(fit.json));
      fitted += fit.fits ? 1 : 0;
      EXPECT_THAT(with(peak + 999, 1000), HasSubstr("1000 of them reserved"));
    });
    run_ranks(2, [&](World& world) {
      EXPECT_EQ(
          prepare(world, small_buckets(stage, concat(R"({"runtime": {"memory_budget": )",
                                                     peak + 1000, R"(, "reserved": 1000}})"))),
          "");
    });
  }
  EXPECT_GT(fitted, 0);  // or no refusal ever named a way out
}

TEST(Budget, NothingFits) {
  run_ranks(2, [&](World& world) {
    const std::string refusal =
        prepare(world, small_buckets(1, R"({"runtime": {"memory_budget": "10 kB"}})"));
    EXPECT_THAT(refusal, HasSubstr("Nothing fits. The smallest is"));
    const std::string chosen = prepare(
        world,
        small_buckets(1, R"({"runtime": {"memory_budget": "10 kB", "choose_stage": true}})"));
    EXPECT_THAT(chosen, HasSubstr("Nothing fits"));
    EXPECT_THAT(chosen, HasSubstr("stage 0 does not fit"));
    EXPECT_THAT(chosen, HasSubstr("stage 3 does not fit"));
  });
}

TEST(Budget, ChoosesTheStageAndSaysWhyNotTheOneBelow) {
  const ModelShape model = stack(4, 16 * 1024, DType::kBFloat16);
  for (const int stage : {0, 1, 2, 3}) {
    const std::int64_t peak = PartitionManager::plan(model, small_buckets(stage), 8).peak_bytes();
    run_ranks(8, [&](World& world) {
      std::vector<std::string> log;
      int chosen = -1;
      EXPECT_EQ(
          prepare(world,
                  small_buckets(0, concat(R"({"runtime": {"choose_stage": true, "memory_budget": )",
                                          peak, "}}")),
                  &log, &chosen),
          "");
      EXPECT_EQ(chosen, stage);
      ASSERT_EQ(log.size(), 1u);
      EXPECT_THAT(log[0], HasSubstr(concat("stage ", stage, " chosen")));
      if (stage > 0) {
        EXPECT_THAT(log[0], HasSubstr(concat("stage ", stage - 1, " does not fit: at least ")));
      }
    });
  }
}

TEST(Budget, MoreReservedThanThereIs) {
  try {
    at(0, R"({"runtime": {"memory_budget": 1000, "reserved": 9223372036854775807}})");
    ADD_FAILURE() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("runtime.reserved: 9223372036854775807 bytes leave nothing"));
  }
}

TEST(Budget, FixedAddressesRuleOutStage3) {
  const ModelShape model = stack(4, 16 * 1024, DType::kBFloat16);
  const std::int64_t peak = PartitionManager::plan(model, small_buckets(3), 8).peak_bytes();
  run_ranks(8, [&](World& world) {
    const std::string refusal = prepare(
        world,
        small_buckets(
            0, concat(R"({"runtime": {"choose_stage": true, "memory_budget": )", peak, "}}")),
        nullptr, nullptr, true);
    EXPECT_THAT(refusal, HasSubstr("stage 3 is not possible"));
    EXPECT_THAT(refusal, HasSubstr("fixed address"));
  });
}

// --- The search ---

// Sizes at which the layout may change: just below what a run of parameters takes in a bucket. Runs
// over all parameters, over those of a unit, and over small and large ones apart.
std::vector<std::int64_t> bucket_sizes(const ModelShape& model, const Config& config) {
  std::set<std::int64_t, std::greater<>> sizes = {1, config.zero.reduce_bucket_size};
  const auto runs = [&](const std::vector<std::int64_t>& numels) {
    for (std::size_t i = 0; i < numels.size(); ++i) {
      std::int64_t used = 0;
      for (std::size_t j = i; j < numels.size(); ++j) {
        used = (used + 7) / 8 * 8 + numels[j];
        if (used - 1 < config.zero.reduce_bucket_size && used > 1) sizes.insert(used - 1);
      }
    }
  };
  std::vector<std::int64_t> all, small, large;
  for (const UnitShape& unit : model.units) {
    std::vector<std::int64_t> of_unit, large_of_unit;
    for (const ParamShape& param : unit.params) {
      const std::int64_t numel = param.shape[0];
      const bool is_small = numel <= config.zero.param_persistence_threshold;
      all.push_back(numel);
      of_unit.push_back(numel);
      (is_small ? small : large_of_unit).push_back(numel);
    }
    runs(of_unit);
    runs(large_of_unit);
  }
  runs(all);
  runs(small);
  return {sizes.begin(), sizes.end()};
}

// By stage (of those that fit the least traffic), then the largest buckets: from an independent
// enumeration of every layout. The window is checked to be the largest by its neighbour.
TEST(Fit, IsTheBestOfABruteForceSearch) {
  std::mt19937_64 random(20261130);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  int fitted[4] = {}, none = 0;
  for (int model_index = 0; model_index < 50; ++model_index) {
    SCOPED_TRACE(model_index);
    ModelShape model;
    const std::int64_t units = 1 + below(6);
    const std::int64_t largest = below(2) == 0 ? 300'000 : 500;
    for (std::int64_t u = 0; u < units; ++u) {
      UnitShape unit{concat("u", u), {}, {}};
      const std::int64_t params = 1 + below(3);
      for (std::int64_t p = 0; p < params; ++p) {
        unit.params.push_back({.name = concat("p", u, ".", p),
                               .shape = {1 + below(largest)},
                               .dtype = DType::kBFloat16});
      }
      model.units.push_back(unit);
    }
    const int ranks = static_cast<int>(1 + below(8));
    Config config = at(0, below(2) == 0 ? "{}" : R"({"gradient_accumulation_steps": 2})");
    config.zero.param_persistence_threshold = below(2) == 0 ? 0 : largest / 3;
    config.zero.reduce_bucket_size = 1 + below(7 * largest);
    config.zero.prefetch_bucket_size = below(3 * largest);

    struct Candidate {
      int stage;
      bool first;  // as configured
      std::int64_t threshold, bucket, peak, traffic;
    };
    std::vector<Candidate> all;
    std::int64_t smallest = INT64_MAX, most = 0;
    for (int stage = 0; stage <= 3; ++stage) {
      std::set<std::int64_t> thresholds = {config.zero.param_persistence_threshold};
      std::set<std::int64_t> windows = {config.zero.prefetch_bucket_size};
      if (stage == 3) {
        thresholds.insert(0);
        windows.insert({0, config.zero.prefetch_bucket_size / 2});
      }
      for (const std::int64_t threshold : thresholds) {
        for (const std::int64_t window : windows) {
          Config candidate = config;
          candidate.zero.stage = stage;
          candidate.zero.param_persistence_threshold = threshold;
          candidate.zero.prefetch_bucket_size = window;
          for (const std::int64_t bucket : bucket_sizes(model, candidate)) {
            candidate.zero.reduce_bucket_size = bucket;
            const Plan plan = PartitionManager::plan(model, candidate, ranks);
            all.push_back({stage, bucket == config.zero.reduce_bucket_size, threshold, bucket,
                           plan.peak_bytes(), plan.traffic_per_step.model_bytes()});
            smallest = std::min(smallest, plan.peak_bytes());
            most = std::max(most, plan.peak_bytes());
          }
        }
      }
    }
    // Half of the budgets are exactly what some setting takes.
    const std::int64_t budget =
        below(2) == 0
            ? all[static_cast<std::size_t>(below(static_cast<std::int64_t>(all.size())))].peak
            : smallest * 9 / 10 + below(most * 11 / 10 - smallest * 9 / 10);
    const std::int64_t reserved = below(2) * below(1000);
    std::erase_if(all, [&](const Candidate& c) { return c.peak + reserved > budget; });
    const Candidate* best = nullptr;
    for (int stage = 0; stage <= 3; ++stage) {
      const Candidate* of_stage = nullptr;
      for (const Candidate& c : all) {
        const auto order = [&](const Candidate& x) { return std::pair(x.threshold > 0, x.bucket); };
        if (c.stage == stage && (of_stage == nullptr || order(c) > order(*of_stage))) of_stage = &c;
      }
      if (of_stage == nullptr) continue;
      if (best == nullptr || of_stage->traffic < best->traffic) best = of_stage;
    }
    const Fit fit = PartitionManager::fit(model, config, ranks, budget, reserved);
    ASSERT_EQ(fit.fits, best != nullptr);
    if (best == nullptr) {
      ++none;
      EXPECT_EQ(fit.plan.peak_bytes(), smallest);
      continue;
    }
    ++fitted[best->stage];
    EXPECT_EQ(fit.config.zero.stage, best->stage);
    EXPECT_EQ(fit.config.zero.param_persistence_threshold, best->threshold);
    EXPECT_LE(fit.plan.peak_bytes(), budget - reserved);
    // The layout of the best bucket size, which may be had from several sizes.
    Config as_best = fit.config;
    as_best.zero.reduce_bucket_size = best->bucket;
    EXPECT_EQ(PartitionManager::plan(model, as_best, ranks).trained, fit.plan.trained);
    EXPECT_GE(fit.config.zero.reduce_bucket_size, best->bucket);
    EXPECT_LE(fit.config.zero.reduce_bucket_size, config.zero.reduce_bucket_size);
    if (fit.config.zero.prefetch_bucket_size < config.zero.prefetch_bucket_size) {
      Config wider = fit.config;
      ++wider.zero.prefetch_bucket_size;
      EXPECT_GT(PartitionManager::plan(model, wider, ranks).peak_bytes(), budget - reserved);
    }
    const Config patched = [&] {  // a file with the same sizes, and the patch
      Config file = at(
          0, concat(R"({"gradient_accumulation_steps": )", config.accumulation_steps.value_or(1),
                    R"(, "zero_optimization": {"reduce_bucket_size": )",
                    config.zero.reduce_bucket_size, R"(, "stage3_prefetch_bucket_size": )",
                    config.zero.prefetch_bucket_size, R"(, "stage3_param_persistence_threshold": )",
                    config.zero.param_persistence_threshold, "}}"));
      file.merge(fit.json);
      return file;
    }();
    EXPECT_EQ(PartitionManager::plan(model, patched, ranks).trained, fit.plan.trained);
  }
  // The budgets are drawn so that every outcome is met.
  for (const int count : fitted) EXPECT_GT(count, 0);
  EXPECT_GT(none, 0);
}

// With the default threshold stage 3 shards nothing of a model of small tensors.
TEST(Fit, SmallParametersAreShardedWhereNothingElseFits) {
  const ModelShape model = stack(32, 100'000, DType::kBFloat16);
  const Fit fit = PartitionManager::fit(model, at(0), 64, 5'000'000);
  ASSERT_TRUE(fit.fits);
  EXPECT_EQ(fit.config.zero.stage, 3);
  EXPECT_EQ(fit.config.zero.param_persistence_threshold, 0);
  EXPECT_THAT(fit.json, HasSubstr("\"stage3_param_persistence_threshold\": 0"));
  EXPECT_THAT(fit.reasons.back(),
              HasSubstr("stage3_param_persistence_threshold lowered from 100000 to 0"));
  // Not given up without need.
  const Fit roomy = PartitionManager::fit(model, at(3), 64, 8'000'000);
  EXPECT_EQ(roomy.config.zero.param_persistence_threshold, 100'000);
}

// With many parameters not every layout is tried, but what is found is found between two steps.
TEST(Fit, ManyParameters) {
  const ModelShape model = stack(200, 1000, DType::kBFloat16);
  const Config config = at(2);
  Config one_each = config;
  one_each.zero.reduce_bucket_size = 1;
  const std::int64_t least = PartitionManager::plan(model, one_each, 4).peak_bytes();
  const Fit fit = PartitionManager::fit(model, config, 4, least + 3 * 2 * 1000);
  EXPECT_TRUE(fit.fits);
  EXPECT_EQ(fit.config.zero.stage, 2);
  Config larger = fit.config;
  larger.zero.reduce_bucket_size += 1000;
  EXPECT_GT(PartitionManager::plan(model, larger, 4).peak_bytes(), least + 3 * 2 * 1000);
}

TEST(Fit, BytesBelowZeroAreRefused) {
  const ModelShape model = stack(1, 10, DType::kBFloat16);
  EXPECT_THROW(PartitionManager::fit(model, at(0), 1, INT64_MIN, 10), UsageError);
  EXPECT_THROW(PartitionManager::fit(model, at(0), 1, 10, -1), UsageError);
  EXPECT_FALSE(PartitionManager::fit(model, at(0), 1, 0, INT64_MAX).fits);
  EXPECT_TRUE(PartitionManager::fit(model, at(0), 1, INT64_MAX).fits);
}

// fp32 gradients of bf16 parameters: an all-reduce moves 2 x 4 bytes an element, a reduce-scatter
// and an all-gather of parameters 4 + 2. So stage 1 is the better one, though stage 0 fits.
TEST(Fit, ALowerStageThatMovesMoreIsNotTaken) {
  const Config config = at(0, R"({"data_types": {"grad_accum_dtype": "fp32"},
                                  "gradient_accumulation_steps": 2})");
  const Fit fit = PartitionManager::fit(stack(5, 1600, DType::kBFloat16), config, 2, 1 << 30);
  EXPECT_TRUE(fit.fits);
  EXPECT_EQ(fit.config.zero.stage, 1);
  ASSERT_EQ(fit.reasons.size(), 1u);
  EXPECT_THAT(fit.reasons[0], HasSubstr("stage 0 fits too, but moves 32000 bytes a step where this "
                                        "moves 24000"));
  // With bf16 sums both move 2 x 2 bytes, and the lower stage is the simpler one.
  EXPECT_EQ(
      PartitionManager::fit(stack(5, 1600, DType::kBFloat16), at(3), 2, 1 << 30).config.zero.stage,
      0);
}

}  // namespace
}  // namespace zero::test
