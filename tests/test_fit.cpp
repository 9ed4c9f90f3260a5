// The search for stage and sizes within a budget, against an enumeration of every layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>

#include "tests/plan_fixtures.hpp"

namespace zero::test {
namespace {

using detail::concat;
using testing::HasSubstr;

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
