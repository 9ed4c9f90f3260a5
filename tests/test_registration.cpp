// What prepare() and registration refuse, and that the message names place, value and what would be
// valid.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/device_access.hpp"
#include "zero/error.hpp"
#include "zero/zero_optimizer.hpp"

namespace zero {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Registration : public testing::Test {
 protected:
  Config config(const std::string& patch = "{}") {
    Config config = Config::parse(R"({"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0,
                                      "optimizer": {"type": "SGD", "params": {"lr": 0.5}}})");
    config.merge(patch);
    return config;
  }
  ParamSpec weight(const std::string& name = "w") {
    return {.name = name, .shape = {4}, .data = &data, .grad = &grad};
  }
  template <class Body>
  void refuses(const std::string& patch, Body body, const testing::Matcher<std::string>& message) {
    World world = test::test_world();
    ZeroOptimizer optimizer(config(patch), world);
    try {
      body(optimizer);
      optimizer.prepare();
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), message);
    }
    EXPECT_EQ(world.ledger().total().peak_bytes, 0) << "something was allocated before the refusal";
  }

  float values[4] = {1, 2, 3, 4};
  float* data = values;
  float* grad = nullptr;
  float grads[4] = {};
};

TEST_F(Registration, NamesAndPointers) {
  refuses(
      "{}",
      [&](auto& o) {
        o.add_unit("u", {weight(""), weight("b")});
      },
      HasSubstr("unit u"));
  refuses(
      "{}",
      [&](auto& o) {
        o.add_unit("u", {weight(), weight()});
      },
      AllOf(HasSubstr("w"), HasSubstr("twice"), HasSubstr("shared")));
  refuses(
      "{}", [&](auto& o) { o.add_unit("u", {{.name = "w", .shape = {4}, .grad = &grad}}); },
      AllOf(HasSubstr("w"), HasSubstr(".data")));
  refuses(
      "{}", [&](auto& o) { o.add_unit("u", {{.name = "w", .shape = {4}, .data = &data}}); },
      AllOf(HasSubstr("w"), HasSubstr(".grad"), HasSubstr("requires_grad")));
  refuses(
      "{}", [&](auto& o) { o.add_unit("u", {weight()}, {"v"}); },
      AllOf(HasSubstr("v"), HasSubstr("earlier unit")));
  refuses(
      "{}", [&](auto& o) { o.add_unit("u", {weight()}, {"w"}); }, HasSubstr("earlier unit"));
  data = nullptr;
  refuses(
      "{}", [&](auto& o) { o.add_unit("u", {weight()}); },
      AllOf(HasSubstr("w"), HasSubstr("start values"), HasSubstr("init")));
}

TEST_F(Registration, ShapesDtypesGroups) {
  refuses(
      "{}",
      [&](auto& o) {
        o.add_unit("u", {{.name = "w", .shape = {4, -1}, .data = &data, .grad = &grad}});
      },
      AllOf(HasSubstr("w"), HasSubstr("-1")));
  refuses(
      "{}",
      [&](auto& o) {
        o.add_unit("u",
                   {{.name = "w", .shape = {1L << 40, 1L << 40}, .data = &data, .grad = &grad}});
      },
      AllOf(HasSubstr("w"), HasSubstr("2^58")));
  refuses(  // each alone could be counted
      "{}",
      [&](auto& o) {
        ParamSpec half{.name = "w", .shape = {1L << 57}, .data = &data, .grad = &grad};
        ParamSpec rest = half;
        ParamSpec one = half;
        rest.name = "rest";
        one.name = "one";
        one.shape = {1};
        o.add_unit("u", {half, rest, one});
      },
      AllOf(HasSubstr("parameter one"), HasSubstr("2^58")));
  refuses(
      "{}",
      [&](auto& o) {
        ParamSpec spec = weight();
        spec.dtype = DType::kBFloat16;
        o.add_unit("u", {spec});
      },
      AllOf(HasSubstr("w"), HasSubstr("bf16"), HasSubstr("fp32")));
  refuses(
      "{}",
      [&](auto& o) {
        std::uint16_t* half = nullptr;
        o.add_unit("u", {{.name = "w", .shape = {4}, .data = &half, .grad = &half}});
      },
      AllOf(HasSubstr("w"), HasSubstr(".dtype")));
  refuses(
      "{}",
      [&](auto& o) {
        ParamSpec spec = weight();
        spec.group = 2;
        o.add_unit("u", {spec});
      },
      AllOf(HasSubstr("w"), HasSubstr("group 2"), HasSubstr("0 to 0")));
}

// Each value is in its range; what the update would form of them is no fp32.
TEST_F(Registration, GroupsWhoseUpdateWouldOverflow) {
  for (const char* params : {R"({"lr": 1e38})", R"({"lr": 1e3, "weight_decay": 1e36})",
                             R"({"lr": 1e30, "betas": [0.9999999999, 0.999]})"}) {
    refuses(R"({"optimizer": {"type": "AdamW", "params": )" + std::string(params) + "}}",
            [&](auto& o) { o.add_unit("u", {weight()}); },
            AllOf(HasSubstr("param group 0"), HasSubstr("weight_decay"), HasSubstr("3.40282e+38")));
  }
}

// An empty parameter is one, wherever its zero stands.
TEST_F(Registration, EmptyShapes) {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{0}, {0, 1L << 40, 1L << 40}, {1L << 40, 1L << 40, 0}}) {
    World world = test::test_world();
    ZeroOptimizer o(config(), world);
    o.add_unit("u", {{.name = "w", .shape = shape, .data = &data, .grad = &grad}});
    o.prepare();
    EXPECT_EQ(o.params()[0].numel, 0);
  }
}

TEST_F(Registration, PrecisionOfTheConfigurationMustFit) {
  refuses(R"({"bf16": {"enabled": true}})", [&](auto& o) { o.add_unit("u", {weight("w.first")}); },
          AllOf(HasSubstr("bf16"), HasSubstr("w.first"), HasSubstr("fp32")));
  refuses(R"({"fp16": {"enabled": true}})", [&](auto& o) { o.add_unit("u", {weight("w.first")}); },
          AllOf(HasSubstr("fp16"), HasSubstr("w.first"), HasSubstr("fp32")));
  refuses(R"({"data_types": {"grad_accum_dtype": "bf16"}})",
          [&](auto& o) { o.add_unit("u", {weight("w.first")}); },
          AllOf(HasSubstr("grad_accum_dtype"), HasSubstr("w.first")));
}

TEST_F(Registration, FixedAddressesAreRefusedAtStage3) {
  refuses(R"({"zero_optimization": {"stage": 3}})",
          [&](auto& o) {
            o.add_unit("u",
                       {{.name = "w", .shape = {4}, .data = fixed(values), .grad = fixed(grads)}});
          },
          AllOf(HasSubstr("w"), HasSubstr("stage 3"), HasSubstr("&model.w")));
}

TEST_F(Registration, ReproducibleNeedsPowersOfTwo) {
  World single = test::test_world();
  try {
    ZeroOptimizer o(
        config(R"({"runtime": {"reproducible": true}, "gradient_accumulation_steps": 3})"), single);
    ADD_FAILURE() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("runtime.reproducible"), HasSubstr("3"),
                                    HasSubstr("powers of two")));
  }
  EXPECT_THROW(test::run_on_device(
                   3,
                   [&](World& world) {
                     ZeroOptimizer o(config(R"({"runtime": {"reproducible": true}})"), world);
                     float* own = values;
                     float* own_grad = nullptr;
                     o.add_unit("u",
                                {{.name = "w", .shape = {4}, .data = &own, .grad = &own_grad}});
                     o.prepare();
                   }),
               ConfigError);
}

TEST_F(Registration, CallsInTheWrongOrder) {
  World world = test::test_world();
  ZeroOptimizer o(config(), world);
  const Unit unit = o.add_unit("u", {weight()});
  const auto says = [](auto&& call, const std::string& text) {
    try {
      call();
      ADD_FAILURE() << "accepted: " << text;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  std::vector<float> out(4);
  says([&] { o.step(); }, "prepare()");
  says([&] { o.begin_forward(unit); }, "prepare()");
  says([&] { o.read("w", Tensor::kParams, out); }, "prepare()");
  o.prepare();
  says([&] { o.prepare(); }, "before prepare()");
  says([&] { o.add_unit("v", {weight("v")}); }, "before prepare()");
  says([&] { o.add_group({}); }, "before prepare()");
  says([&] { o.begin_forward({7}); }, "unit 7");
  says([&] { o.end_forward(unit); }, "without its begin");
  says([&] { o.end_backward(unit); }, "without its begin");
  says([&] { o.unused(unit, "w"); }, "not in backward");
  says([&] { o.set_group(1, {}); }, "group 1");
  says([&] { o.read("nobody", Tensor::kParams, out); }, "nobody");
  says([&] { o.read("w", Tensor::kExpAvg, out); }, "SGD");
  says([&] { o.write("w", Tensor::kGrads, out); }, "written");
  says([&] { o.read("w", Tensor::kParams, std::span(out).first(3)); }, "4 elements");
  {
    const Use use = o.forward(unit);
    says([&] { o.step(); }, "unit u is in use");
    says([&] { o.write("w", Tensor::kParams, out); }, "unit u is in use");
  }
}

}  // namespace
}  // namespace zero
