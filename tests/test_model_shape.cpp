// Model descriptions as JSON: what is written is read back, and whatever is wrong is refused with
// its place and path.
#include <string>

#include "tests/config_fixtures.hpp"
#include "zero/model_shape.hpp"

namespace zero {
namespace {

std::string refused(const std::string& text) {
  try {
    ModelShape::from_json(text, "m.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << text;
  return "";
}

void expect_same(const ModelShape& a, const ModelShape& b) {
  EXPECT_EQ(a.groups, b.groups);
  ASSERT_EQ(a.units.size(), b.units.size());
  for (std::size_t u = 0; u < a.units.size(); ++u) {
    EXPECT_EQ(a.units[u].name, b.units[u].name);
    EXPECT_EQ(a.units[u].shared, b.units[u].shared);
    ASSERT_EQ(a.units[u].params.size(), b.units[u].params.size());
    for (std::size_t p = 0; p < a.units[u].params.size(); ++p) {
      const ParamShape& x = a.units[u].params[p];
      const ParamShape& y = b.units[u].params[p];
      EXPECT_EQ(x.name, y.name);
      EXPECT_EQ(x.shape, y.shape) << x.name;
      EXPECT_EQ(x.dtype, y.dtype) << x.name;
      EXPECT_EQ(x.group, y.group) << x.name;
      EXPECT_EQ(x.requires_grad, y.requires_grad) << x.name;
      EXPECT_EQ(x.fixed, y.fixed) << x.name;
    }
  }
}

ModelShape every_field() {
  ModelShape model;
  model.groups = 3;
  model.units.resize(3);
  model.units[0].name = "first \"unit\"\n";
  model.units[0].params = {{.name = "w", .shape = {2, 3}, .dtype = DType::kFloat16},
                           {.name = "scalar", .shape = {}, .dtype = DType::kBFloat16, .group = 2},
                           {.name = "none", .shape = {0, 4}, .requires_grad = false},
                           {.name = "here", .shape = {1LL << 40}, .fixed = true}};
  model.units[1].name = "without parameters";
  model.units[2].name = "last";
  model.units[2].params = {{.name = "b\\", .shape = {1}}};
  model.units[2].shared = {"w", "scalar"};
  return model;
}

TEST(ModelShapeJson, WhatIsWrittenIsReadBack) {
  for (const ModelShape& model : {every_field(), ModelShape{}}) {
    const std::string text = model.to_json();
    expect_same(ModelShape::from_json(text), model);
    EXPECT_EQ(ModelShape::from_json(text).to_json(), text);
  }
}

TEST(ModelShapeJson, WhatIsLeftOutHasItsDefault) {
  const ModelShape model = ModelShape::from_json(R"({ // a note
    "units": [{"name": "u", "params": [{"name": "w", "shape": [4e0, 2.0], "dtype": "bf16"},
                                       {"name": "x", "shape": [], "dtype": "float32", "group": 4}]}]})");
  EXPECT_EQ(model.groups, 5);  // as many as are named
  const ParamShape& w = model.units.at(0).params.at(0);
  EXPECT_EQ(w.shape, (std::vector<std::int64_t>{4, 2}));
  EXPECT_EQ(w.dtype, DType::kBFloat16);
  EXPECT_EQ(w.group, 0);
  EXPECT_TRUE(w.requires_grad);
  EXPECT_FALSE(w.fixed);
  EXPECT_TRUE(model.units[0].shared.empty());
  EXPECT_EQ(ModelShape::from_json(R"({"units": []})").groups, 1);
  EXPECT_EQ(model.elems(), 9);
}

// The parameter stands on line 3.
std::string with_param(const std::string& param) {
  return "{\"units\": [{\"name\": \"u\", \"params\": [\n{\"name\": \"a\", \"shape\": [1], "
         "\"dtype\": \"fp32\"},\n" +
         param + "]}]}";
}

TEST(ModelShapeJson, EveryRefusalNamesPlaceAndPath) {
  const struct {
    std::string text;
    const char* place;
    const char* rest;
  } kCases[] = {
      {"", "m.json:1:1: ", "not JSON"},
      {"[]", "m.json:1:1: ", "model: must be an object"},
      {"{}", "m.json:1:1: ", "model: the key \"units\" is missing"},
      {"{\n \"unit\": []}", "m.json:2:10: ", "model.unit: unknown key; known are groups, units"},
      {"{\"units\": {}}", "m.json:1:11: ", "units: must be a list"},
      {"{\"units\": [], \"units\": []}", "m.json:1:15: ", "units: duplicate key"},
      {"{\"units\": [], \"groups\": 1.5}", "m.json:1:25: ", "groups: must be a whole number"},
      {"{\"units\": [], \"groups\": -1}", "m.json:1:25: ", "groups: must be a whole number"},
      {"{\"units\": [], \"groups\": 1048577}",
       "m.json:1:25: ", "groups: 1048577 is too large; at most 1048576"},
      {"{\"units\": [\n1]}", "m.json:2:1: ", "units[0]: must be an object"},
      {"{\"units\": [{\"params\": []}]}", "m.json:1:12: ", "units[0]: the key \"name\" is missing"},
      {"{\"units\": [{\"name\": \"u\"}]}",
       "m.json:1:12: ", "units[0]: the key \"params\" is missing"},
      {"{\"units\": [{\"name\": 5, \"params\": []}]}",
       "m.json:1:21: ", "units[0].name: must be a string"},
      {"{\"units\": [{\"name\": \"u\", \"params\": 5}]}",
       "m.json:1:36: ", "units[0].params: must be a list"},
      {"{\"units\": [{\"name\": \"u\", \"params\": [], \"shared\": \"w\"}]}",
       "m.json:1:50: ", "units[0].shared: must be a list"},
      {"{\"units\": [{\"name\": \"u\", \"params\": [], \"shared\": [1]}]}",
       "m.json:1:51: ", "units[0].shared: must be a string"},
      {"{\"units\": [{\"name\": \"u\", \"params\": [], \"shard\": []}]}",
       "m.json:1:49: ", "units[0].shard: unknown key; known are name, params, shared"},
      {with_param("1"), "m.json:3:1: ", "units[0].params[1]: must be an object"},
      {with_param(R"({"shape": [], "dtype": "fp32"})"),
       "m.json:3:1: ", "units[0].params[1]: the key \"name\" is missing"},
      {with_param(R"({"name": "b", "dtype": "fp32"})"),
       "m.json:3:1: ", "units[0].params[1]: the key \"shape\" is missing"},
      {with_param(R"({"name": "b", "shape": []})"),
       "m.json:3:1: ", "units[0].params[1]: the key \"dtype\" is missing"},
      {with_param(R"({"name": null, "shape": [], "dtype": "fp32"})"),
       "m.json:3:10: ", "units[0].params[1].name: must be a string"},
      {with_param(R"({"name": "b", "shape": 4, "dtype": "fp32"})"),
       "m.json:3:24: ", "units[0].params[1].shape: must be a list"},
      {with_param(R"({"name": "b", "shape": [1, -1], "dtype": "fp32"})"),
       "m.json:3:28: ", "units[0].params[1].shape: must be a whole number, 0 or more, below 2^63"},
      {with_param(R"({"name": "b", "shape": [0.5], "dtype": "fp32"})"),
       "m.json:3:25: ", "units[0].params[1].shape: must be a whole number"},
      {with_param(R"({"name": "b", "shape": [9223372036854775808], "dtype": "fp32"})"),
       "m.json:3:25: ", "units[0].params[1].shape: must be a whole number"},
      {with_param(R"({"name": "b", "shape": ["1"], "dtype": "fp32"})"),
       "m.json:3:25: ", "units[0].params[1].shape: must be a whole number"},
      {with_param(R"({"name": "b", "shape": [], "dtype": "fp8"})"),
       "m.json:3:37: ", "units[0].params[1].dtype: \"fp8\"; fp32, fp16, bf16 are valid"},
      {with_param(R"({"name": "b", "shape": [], "dtype": 32})"),
       "m.json:3:37: ", "units[0].params[1].dtype: must be a string"},
      {with_param(R"({"name": "b", "shape": [], "dtype": "fp32", "group": 1048577})"),
       "m.json:3:54: ", "units[0].params[1].group: 1048577 is too large"},
      {with_param(R"({"name": "b", "shape": [], "dtype": "fp32", "group": true})"),
       "m.json:3:54: ", "units[0].params[1].group: must be a whole number"},
      {with_param(R"({"name": "b", "shape": [], "dtype": "fp32", "requires_grad": 1})"),
       "m.json:3:62: ", "units[0].params[1].requires_grad: must be true or false"},
      {with_param(R"({"name": "b", "shape": [], "dtype": "fp32", "fixed": "no"})"),
       "m.json:3:54: ", "units[0].params[1].fixed: must be true or false"},
      {with_param(R"({"name": "b", "shape": [], "dtype": "fp32", "frozen": true})"),
       "m.json:3:55: ",
       "units[0].params[1].frozen: unknown key; known are name, shape, dtype, group, "
       "requires_grad, fixed"},
  };
  for (const auto& c : kCases) {
    const std::string message = refused(c.text);
    EXPECT_TRUE(message.starts_with(c.place)) << message << "\n" << c.text;
    EXPECT_CONTAINS(message, c.rest) << c.text;
  }
}

}  // namespace
}  // namespace zero
