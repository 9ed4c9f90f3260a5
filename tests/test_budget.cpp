// The budget that prepare() keeps: to the byte, before anything is allocated, with a way out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "tests/device_access.hpp"
#include "tests/plan_fixtures.hpp"
#include "zero/zero_optimizer.hpp"

namespace zero::test {
namespace {

using detail::concat;
using testing::HasSubstr;

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
    run_on_device(2, [&](World& world) {
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
      EXPECT_THAT(with(peak + 999, 1000), HasSubstr("1000 of them runtime.reserved"));
    });
    run_on_device(2, [&](World& world) {
      EXPECT_EQ(
          prepare(world, small_buckets(stage, concat(R"({"runtime": {"memory_budget": )",
                                                     peak + 1000, R"(, "reserved": 1000}})"))),
          "");
    });
  }
  EXPECT_GT(fitted, 0);  // or no refusal ever named a way out
}

TEST(Budget, NothingFits) {
  run_on_device(2, [&](World& world) {
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
    run_on_device(8, [&](World& world) {
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
  run_on_device(8, [&](World& world) {
    const std::string refusal = prepare(
        world,
        small_buckets(
            0, concat(R"({"runtime": {"choose_stage": true, "memory_budget": )", peak, "}}")),
        nullptr, nullptr, true);
    EXPECT_THAT(refusal, HasSubstr("stage 3 is not possible"));
    EXPECT_THAT(refusal, HasSubstr("fixed address"));
  });
}

}  // namespace
}  // namespace zero::test
