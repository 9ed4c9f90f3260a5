// managed_gradient_accumulation false: the caller says when a step ends.
#include <gtest/gtest.h>

#include "tests/toy_model.hpp"
#include "tests/weight_fixtures.hpp"
#include "zero/error.hpp"
#include "zero/world.hpp"

namespace zero {
namespace {

using test::config;
using test::Weight;

const char* const kUnmanaged = R"({"managed_gradient_accumulation": false})";

// The same micro-steps give the same bits, whoever counts them, and hold what was planned.
TEST(Accumulation, UnmanagedIsTheSameAsManaged) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const char* grads : {"", R"("data_types": {"grad_accum_dtype": "fp32"}, )"}) {
      for (int stage = 0; stage <= 3; ++stage) {
        for (const char* bucket : {"7", "500000000"}) {
          test::ToySetup setup;
          setup.units = test::odd_units();
          setup.dtype = dtype;
          setup.world_size = 2;
          setup.accumulation = 3;
          const std::string rest = grads + std::string(R"("zero_optimization": {"stage": )") +
                                   std::to_string(stage) + R"(, "reduce_bucket_size": )" + bucket +
                                   R"(, "overlap_comm": true}})";
          setup.config = "{" + rest;
          const test::ToyResult managed = run_toy(setup);
          setup.config = R"({"managed_gradient_accumulation": false, )" + rest;
          const test::ToyResult unmanaged = run_toy(setup);
          EXPECT_TRUE(unmanaged == managed) << dtype_name(dtype) << " " << setup.config;
          // Passing memory is given back as early.
          EXPECT_EQ(unmanaged.ledgers[0].account(Category::kBucket).peak_bytes,
                    managed.ledgers[0].account(Category::kBucket).peak_bytes)
              << dtype_name(dtype) << " " << setup.config;
        }
      }
    }
  }
}

// Two ranks with gradients 1 and 3 in each of `counts` micro-steps: the mean is over four slots of
// two micro-steps, however many there were.
TEST(Accumulation, TheMeanIsOverTheConfiguredSlots) {
  for (int stage = 0; stage <= 3; ++stage) {
    test::run_on_device(2, [&](World& world) {
      Weight weight(world, {8, 8, 8});
      Config settings = config(stage, kUnmanaged);
      settings.set("gradient_accumulation_steps", "2");
      ZeroOptimizer optimizer(settings, world);
      const Unit unit = optimizer.add_unit("u", {weight.spec("w")});
      optimizer.prepare();
      float expected = 8;
      for (const int count : {1, 2, 5, 1}) {
        for (int micro = 0; micro < count; ++micro) {
          { const Use use = optimizer.forward(unit); }
          {
            const Use use = optimizer.backward(unit);
            weight.add(world.rank() == 0 ? 1.0f : 3.0f);
          }
          if (micro + 1 < count) optimizer.end_micro_step();
        }
        const StepResult result = optimizer.step();
        EXPECT_TRUE(result.boundary && result.applied);
        expected -= 0.5f * static_cast<float>(count) * 4.0f / 4.0f;
        EXPECT_EQ(test::read(optimizer, "w", Tensor::kParams, 3), std::vector<float>(3, expected))
            << "stage " << stage << ", " << count << " micro-steps";
      }
      EXPECT_EQ(optimizer.applied_steps(), 4);
    });
  }
}

// Without end_micro_step() further passes are further contributions, and count the same.
TEST(Accumulation, PassesOfOneMicroStepAddUp) {
  for (int stage = 0; stage <= 3; ++stage) {
    test::run_on_device(2, [&](World& world) {
      Weight weight(world, {8, 8, 8});
      ZeroOptimizer optimizer(config(stage, kUnmanaged), world);
      const Unit unit = optimizer.add_unit("u", {weight.spec("w")});
      optimizer.prepare();
      float expected = 8;
      for (const int count : {1, 3, 2}) {
        for (int pass = 0; pass < count; ++pass) {
          { const Use use = optimizer.forward(unit); }
          const Use use = optimizer.backward(unit);
          weight.add(2);
        }
        EXPECT_TRUE(optimizer.step().result().applied);
        expected -= 0.5f * static_cast<float>(count) * 2.0f;
        EXPECT_EQ(test::read(optimizer, "w", Tensor::kParams, 3), std::vector<float>(3, expected))
            << "stage " << stage << ", " << count << " passes";
      }
    });
  }
}

TEST(Accumulation, EndOfAMicroStepIsForTheUnmanagedAlone) {
  test::run_on_device(1, [](World& world) {
    Weight weight(world, {8});
    ZeroOptimizer managed(config(1), world);
    const Unit unit = managed.add_unit("u", {weight.spec("w")});
    EXPECT_THROW(managed.end_micro_step(), UsageError);  // before prepare()
    managed.prepare();
    EXPECT_THROW(managed.end_micro_step(), UsageError);
    const Use use = managed.forward(unit);
    EXPECT_THROW(managed.end_micro_step(), UsageError);
  });
  test::run_on_device(1, [](World& world) {
    Weight weight(world, {8});
    ZeroOptimizer unmanaged(config(1, kUnmanaged), world);
    const Unit unit = unmanaged.add_unit("u", {weight.spec("w")});
    unmanaged.prepare();
    {
      const Use use = unmanaged.forward(unit);
      EXPECT_THROW(unmanaged.end_micro_step(), UsageError);
    }
    unmanaged.end_micro_step();  // an empty one
    EXPECT_TRUE(unmanaged.step().result().boundary);
  });
}

// What "auto" leaves to the registered parameters, and types that do not go together.
TEST(Precision, AutoFollowsTheRegisteredParameters) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    test::run_on_device(1, [&](World& world) {
      std::vector<std::byte> start(4 * dtype_bytes(dtype));
      void* data = start.data();
      void* grad = nullptr;
      ZeroOptimizer optimizer(
          config(2, R"({"fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}})"), world);
      optimizer.add_unit(
          "u", {{.name = "w", .shape = {4}, .data = &data, .grad = &grad, .dtype = dtype}});
      optimizer.prepare();
      EXPECT_EQ(optimizer.loss_scale(), dtype == DType::kFloat16 ? 65536 : 1);
      EXPECT_EQ(optimizer.config().fp16_enabled, dtype == DType::kFloat16);
      EXPECT_EQ(optimizer.config().bf16_enabled, dtype == DType::kBFloat16);
    });
  }
}

// Of mixed types neither true nor false is right: it stays open, and everything works.
TEST(Precision, AutoOfMixedTypesStaysOpen) {
  test::run_on_device(1, [&](World& world) {
    std::vector<fp16> half(4);
    std::vector<float> full(4);
    void *half_data = half.data(), *half_grad = nullptr;
    void *full_data = full.data(), *full_grad = nullptr;
    ZeroOptimizer optimizer(
        config(2, R"({"fp16": {"enabled": "auto"}, "runtime": {"memory_budget": "1MB"}})"), world);
    optimizer.add_unit("u", {{.name = "h",
                              .shape = {4},
                              .data = &half_data,
                              .grad = &half_grad,
                              .dtype = DType::kFloat16},
                             {.name = "f",
                              .shape = {4},
                              .data = &full_data,
                              .grad = &full_grad,
                              .dtype = DType::kFloat32}});
    optimizer.prepare();
    EXPECT_EQ(optimizer.loss_scale(), 65536);
    EXPECT_EQ(optimizer.config().fp16_enabled, std::nullopt);
    EXPECT_NO_THROW(PartitionManager::plan(optimizer.shape(), optimizer.config(), 1));
    EXPECT_NO_THROW(Config::parse(optimizer.config().explained()));
  });
}

TEST(Precision, AWireThatWouldRoundGradientsIsRefused) {
  const auto prepare = [](DType dtype, const std::string& patch) {
    test::run_on_device(1, [&](World& world) {
      std::vector<std::byte> start(4 * dtype_bytes(dtype));
      void* data = start.data();
      void* grad = nullptr;
      ZeroOptimizer optimizer(config(2, patch), world);
      optimizer.add_unit(
          "u", {{.name = "some.w", .shape = {4}, .data = &data, .grad = &grad, .dtype = dtype}});
      optimizer.prepare();
    });
  };
  const char* const kBf16 = R"({"communication_data_type": "bf16"})";
  EXPECT_NO_THROW(prepare(DType::kBFloat16, kBf16));
  EXPECT_NO_THROW(prepare(DType::kFloat16, R"({"communication_data_type": "fp32"})"));
  EXPECT_NO_THROW(prepare(DType::kFloat32, R"({"communication_data_type": "fp32"})"));
  for (const auto& [dtype, patch] :
       {std::pair{DType::kFloat32, kBf16}, std::pair{DType::kFloat16, kBf16}}) {
    try {
      prepare(dtype, patch);
      ADD_FAILURE() << "accepted: " << dtype_name(dtype) << " " << patch;
    } catch (const ConfigError& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find("communication_data_type: "), message.npos) << message;
      EXPECT_NE(message.find("some.w"), message.npos) << message;
    }
  }
}

}  // namespace
}  // namespace zero
