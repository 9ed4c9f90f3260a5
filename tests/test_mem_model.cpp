// Presets against published counts and closed formulas; models and numbers from the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "tools/mem_model.hpp"
#include "tools/mem_presets.hpp"
#include "zero/error.hpp"

namespace {

using testing::HasSubstr;
using zero::ConfigError;
using zero::DType;

TEST(MemModel, PresetsHaveThePublishedParameters) {
  const auto elems = [](const char* name) {
    return mem::preset_model(name, DType::kBFloat16).elems();
  };
  EXPECT_EQ(elems("gpt2-124m"), 124'439'808);     // as counted of the released weights
  EXPECT_EQ(elems("gpt2-1.5b"), 1'557'611'200);   // likewise
  EXPECT_EQ(elems("llama-7b"), 6'738'415'616);    // likewise
  EXPECT_EQ(elems("llama-70b"), 68'976'648'192);  // likewise: 8 heads of keys and values
  // Narayanan et al. 2021, equation 2, and the final norm: 12 l h^2 + 13 l h + (V + s) h + 2 h.
  const auto formula = [](std::int64_t l, std::int64_t h, std::int64_t v, std::int64_t s) {
    return 12 * l * h * h + 13 * l * h + (v + s) * h + 2 * h;
  };
  EXPECT_EQ(elems("gpt2-124m"), formula(12, 768, 50257, 1024));
  EXPECT_EQ(elems("gpt3-175b"), formula(96, 12288, 50257, 2048));
  EXPECT_EQ(elems("1t"), formula(128, 25600, 51200, 2048));
}

TEST(MemModel, PresetsAreUnitListsWithDistinctNames) {
  for (const char* name : {"gpt2-124m", "gpt2-1.5b", "llama-7b", "llama-70b", "gpt3-175b", "1t"}) {
    const zero::ModelShape model = mem::preset_model(name, DType::kFloat16);
    EXPECT_EQ(model.units.front().name, "embedding");
    EXPECT_EQ(model.units.back().name, "head");
    const bool tied = std::string(name).starts_with("llama") == false;
    EXPECT_EQ(model.units.back().shared.size(), tied ? 1u : 0u) << name;
    std::set<std::string> names;
    for (const zero::UnitShape& unit : model.units) {
      for (const zero::ParamShape& param : unit.params) {
        EXPECT_TRUE(names.insert(param.name).second) << param.name;
        EXPECT_EQ(param.dtype, DType::kFloat16);
      }
    }
    EXPECT_THAT(mem::preset_names(), HasSubstr(name));
  }
  EXPECT_EQ(mem::preset_model("llama-70b", DType::kFloat32).units.size(), 82u);
}

TEST(MemModel, UnknownPresetsListTheValidOnes) {
  try {
    mem::preset_model("gpt5", DType::kFloat32);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("gpt5"));
    EXPECT_THAT(error.what(),
                HasSubstr("gpt2-124m, gpt2-1.5b, llama-7b, llama-70b, gpt3-175b, 1t"));
  }
}

TEST(MemModel, CountsAreWholeNumbersInAnySpelling) {
  EXPECT_EQ(mem::parse_params("1"), 1);
  EXPECT_EQ(mem::parse_params("7.5e9"), 7'500'000'000);
  EXPECT_EQ(mem::parse_params("7.5E+9"), 7'500'000'000);
  EXPECT_EQ(mem::parse_params("9007199254740993"), 9'007'199'254'740'993);  // 2^53 + 1: no double
  EXPECT_EQ(mem::parse_params("1e16"), 10'000'000'000'000'000);
  for (const char* bad : {"", "0", "-1", "1.5", "7.5 GB", "7kB", "1e17", "1e99", "nan", "7.5e", "e",
                          "0x10", " 1", "1e-1"}) {
    try {
      mem::parse_params(bad);
      FAIL() << bad;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr(std::string("--params ") + bad));
      EXPECT_THAT(error.what(), HasSubstr("10000000000000000"));
      EXPECT_THAT(error.what(), testing::Not(HasSubstr("GiB"))) << "it is no size in bytes";
    }
  }
}

TEST(MemModel, AStackIsEqualAndItsSumIsExact) {
  for (const std::int64_t elems :
       {std::int64_t{1}, std::int64_t{31}, std::int64_t{32}, std::int64_t{33},
        std::int64_t{7'500'000'001}, mem::kMostElems}) {
    const zero::ModelShape model = mem::plain_stack(elems, DType::kBFloat16);
    ASSERT_EQ(model.units.size(), 32u);
    EXPECT_EQ(model.elems(), elems);
    for (const zero::UnitShape& unit : model.units) {
      ASSERT_EQ(unit.params.size(), 1u);
      EXPECT_LE(unit.params[0].shape[0] - elems / 32, 1);
      EXPECT_GE(unit.params[0].shape[0] - elems / 32, 0);
    }
  }
}

mem::ModelOptions with_params(const std::string& params) {
  mem::ModelOptions options;
  options.params = params;
  return options;
}

std::string refusal(const mem::ModelOptions& options) {
  try {
    mem::resolve(options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "not refused";
}

std::string file_with(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

TEST(MemModel, ExactlyOneModel) {
  EXPECT_THAT(refusal({}), HasSubstr("no model is given"));
  mem::ModelOptions both = with_params("5");
  both.preset = "1t";
  EXPECT_THAT(refusal(both), HasSubstr("exactly one of --params, --model and --preset"));
}

TEST(MemModel, TheDtypeIsTheFlagsThenTheFilesThenFp32) {
  const auto dtype = [](const mem::ModelOptions& options) {
    return mem::resolve(options).model.units[0].params[0].dtype;
  };
  mem::ModelOptions options = with_params("100");
  EXPECT_EQ(dtype(options), DType::kFloat32);
  options.config_path = file_with("mem_bf16.json", R"({"bf16": {"enabled": true}, "optimizer":
      {"type": "AdamW"}, "runtime": {"reserved": "3MB"}})");
  EXPECT_EQ(dtype(options), DType::kBFloat16);
  EXPECT_EQ(mem::resolve(options).activation_bytes, 3'000'000);
  for (const char* flag : {"fp32", "fp16", "bf16"}) {
    options.dtype = flag;
    EXPECT_EQ(zero::dtype_name(dtype(options)), flag);
    EXPECT_EQ(mem::resolve(options).config.bf16_enabled.value_or(false),
              std::string(flag) == "bf16");
  }
  options.activations = "1KiB";
  EXPECT_EQ(mem::resolve(options).activation_bytes, 1024);
  options.activations = "much";
  EXPECT_THAT(refusal(options), HasSubstr("--activations: \"much\""));
  options.activations = "2000PB";
  EXPECT_THAT(refusal(options), HasSubstr("at most 1000000000000000000"));
}

TEST(MemModel, AFileIsCheckedBeforeItIsSummedUp) {
  mem::ModelOptions options;
  options.model_path = testing::TempDir() + "no_such_model.json";
  EXPECT_THAT(refusal(options), HasSubstr("no_such_model.json: cannot be read"));
  options.model_path = testing::TempDir();
  EXPECT_THAT(refusal(options), HasSubstr("cannot be read"));
  options.model_path = file_with("mem_empty.json", "");
  EXPECT_THAT(refusal(options), HasSubstr("mem_empty.json"));
  options.model_path = file_with("mem_huge.json", R"({"units": [{"name": "u", "params": [
      {"name": "vast", "shape": [4294967296, 0, 4294967296, 4294967296], "dtype": "fp32"},
      {"name": "huge", "shape": [4294967296, 4294967296], "dtype": "fp32"}]}]})");
  EXPECT_THAT(refusal(options), HasSubstr("parameter huge"));
  options.model_path = file_with("mem_none.json", R"({"units": [{"name": "u", "params": [
      {"name": "a", "shape": [9223372036854775807, 9223372036854775807, 0], "dtype": "fp32"},
      {"name": "b", "shape": [3, 0, 9223372036854775807], "dtype": "fp32"},
      {"name": "c", "shape": [0, 9223372036854775807, 2], "dtype": "fp32"},
      {"name": "d", "shape": [7], "dtype": "fp32"}]}]})");
  EXPECT_EQ(mem::resolve(options).elems, 7);
  options.model_path = file_with("mem_groups.json", R"({"groups": 0, "units": []})");
  EXPECT_THAT(refusal(options), HasSubstr("groups: must be 1 or more"));
  options.model_path = file_with("mem_two.json", R"({"units": [{"name": "u", "params": [
      {"name": "a", "shape": [3, 5], "dtype": "bf16"}, {"name": "b", "shape": [0], "dtype": "fp32"},
      {"name": "c", "shape": [], "dtype": "fp32"}]}]})");
  EXPECT_EQ(mem::resolve(options).elems, 16);
  EXPECT_THAT(mem::resolve(options).title, testing::EndsWith("mem_two.json, bf16, fp32"));
  options.dtype = "bf16";
  EXPECT_THAT(refusal(options), HasSubstr("--dtype bf16"));
}

}  // namespace
