// Old forms of keys, keys that depend on the device, and types that do not go together.
#include "tests/config_fixtures.hpp"

namespace zero {
namespace {

using config_test::effective;
using config_test::nested;
using config_test::parse;
using config_test::refusal;

TEST(ConfigOldForms, MeanTheNewOnesWithAWarning) {
  const auto warned = [](const Config& config, const std::string& path) {
    for (const Remark& warning : config.warnings()) {
      if (warning.path == path) return warning.message;
    }
    return std::string("(no warning)");
  };
  const Config on = parse("{\"zero_optimization\": true, \"allgather_size\": 5e6}");
  EXPECT_EQ(on.zero.stage, 1);
  EXPECT_EQ(on.zero.allgather_bucket_size, 5'000'000);
  EXPECT_EQ(warned(on, "zero_optimization"), "old form; write {\"stage\": 1}");
  EXPECT_EQ(warned(on, "allgather_size"),
            "old form; write zero_optimization.allgather_bucket_size 5000000");
  EXPECT_EQ(parse("{\"zero_optimization\": false}").zero.stage, 0);

  const Config cpu = parse(nested("zero_optimization.cpu_offload", "true"));
  EXPECT_EQ(warned(cpu, "zero_optimization.cpu_offload"),
            "old form; write zero_optimization.offload_optimizer.device \"cpu\"");
  EXPECT_EQ(effective(cpu, "zero_optimization.offload_optimizer.device").value, "\"cpu\"");
  const Config none = parse(nested("zero_optimization.cpu_offload_param", "false"));
  EXPECT_EQ(effective(none, "zero_optimization.offload_param.device").value, "\"none\"");
  EXPECT_EQ(
      warned(parse(nested("zero_optimization.stage3_gather_fp16_weights_on_model_save", "true")),
             "zero_optimization.stage3_gather_fp16_weights_on_model_save"),
      "old name; write zero_optimization.stage3_gather_16bit_weights_on_model_save");
  EXPECT_NO_WARNING(parse(nested("zero_optimization.cpu_offload", "null")), "offload");
}

TEST(ConfigOldForms, KeysCanBeSetInTheOldBoolean) {
  Config config = parse("{\"zero_optimization\": true}");
  config.set("zero_optimization.reduce_bucket_size", "7");
  EXPECT_EQ(config.zero.stage, 1);
  EXPECT_EQ(config.zero.reduce_bucket_size, 7);
  config.set("zero_optimization.stage", "3");
  EXPECT_EQ(config.zero.stage, 3);
  Config merged = parse("{\"zero_optimization\": true}");
  merged.merge("{\"zero_optimization\": {\"overlap_comm\": true}}");
  EXPECT_EQ(merged.zero.stage, 1);
  EXPECT_TRUE(merged.zero.overlaps());
  merged.set("zero_optimization", "false");
  EXPECT_EQ(merged.zero.stage, 0);
}

TEST(ConfigOldForms, SettingTheNewFormReplacesTheOldOne) {
  Config config = parse(R"({"allgather_size": 7, "zero_optimization": {"cpu_offload": true}})");
  config.set("zero_optimization.offload_optimizer.device", "none");
  EXPECT_EQ(effective(config, "zero_optimization.offload_optimizer.device").value, "\"none\"");
  config.set("zero_optimization.allgather_bucket_size", "9");
  EXPECT_EQ(config.zero.allgather_bucket_size, 9);
  config.set("zero_optimization.cpu_offload", "true");
  EXPECT_EQ(effective(config, "zero_optimization.offload_optimizer.device").value, "\"cpu\"");
  config.merge(R"({"zero_optimization": {"offload_optimizer": {"device": "none"}}})");
  EXPECT_EQ(effective(config, "zero_optimization.offload_optimizer.device").value, "\"none\"");
}

TEST(ConfigOldForms, OldAndNewMayNotContradict) {
  const auto both = [](const char* old, const char* device) {
    return std::string("{\"zero_optimization\": {\"cpu_offload\": ") + old +
           ", \"offload_optimizer\": {\"device\": \"" + device + "\"}}}";
  };
  EXPECT_NO_THROW(parse(both("true", "cpu")));
  EXPECT_NO_THROW(parse(both("false", "none")));
  EXPECT_CONTAINS(refusal(both("true", "none")),
                  "zero_optimization.offload_optimizer.device: \"none\" contradicts "
                  "zero_optimization.cpu_offload");
  EXPECT_CONTAINS(refusal(both("false", "cpu")), "contradicts zero_optimization.cpu_offload");
  EXPECT_CONTAINS(
      refusal("{\"allgather_size\": 5, \"zero_optimization\": {\"allgather_bucket_size\": 6}}"),
      "zero_optimization.allgather_bucket_size: 6 contradicts allgather_size");
  EXPECT_CONTAINS(refusal(nested("zero_optimization.cpu_offload", "\"auto\"")),
                  "zero_optimization.cpu_offload: \"auto\" has no meaning here");
}

TEST(ConfigDevice, OffloadingIsANoteOnTheHostAndRefusedElsewhere) {
  Facts cuda;
  cuda.device = DeviceKind::kCuda;
  for (const char* section : {"offload_optimizer", "offload_param"}) {
    const std::string path = std::string("zero_optimization.") + section + ".device";
    const std::string cpu = nested(path, "\"cpu\"");
    EXPECT_WARNS(parse(cpu), path + ": \"cpu\": no effect: nothing to move on the host device");
    EXPECT_CONTAINS(refusal(cpu, cuda), path + ": \"cpu\": offloading is not built here");
    EXPECT_NO_THROW(parse(nested(path, "\"none\""), cuda));
    EXPECT_CONTAINS(refusal(nested(path, "\"nvme\"")), "\"nvme\" is not built here");
  }
  EXPECT_CONTAINS(refusal(nested("zero_optimization.cpu_offload", "true"), cuda),
                  "zero_optimization.cpu_offload: \"cpu\": offloading is not built here");
}

TEST(ConfigDevice, OtherKindsOfRanksAreWarnedOf) {
  EXPECT_WARNS(parse(R"({"tensor_parallel": {"tp_size": 4}})"),
               "tensor_parallel.tp_size: 4 has no effect: world sizes here count data-parallel");
  EXPECT_WARNS(parse(R"({"tensor_parallel": {"a": {"autotp_size": 2}}})"),
               "tensor_parallel.a.autotp_size: 2");
  EXPECT_WARNS(parse(R"({"pipeline": {"stages": 2}})"), "pipeline.stages: 2");
  EXPECT_WARNS(parse(R"({"pipeline": {"stages": "4"}})"), "pipeline.stages: \"4\"");
  for (const char* one :
       {R"({"tensor_parallel": {"tp_size": 1}})", R"({"pipeline": {"stages": "auto"}})"}) {
    EXPECT_NO_WARNING(parse(one), "has no effect: world sizes");
  }
  EXPECT_NO_THROW(parse("{\"sequence_parallel_size\": 1}"));
  EXPECT_CONTAINS(refusal("{\"sequence_parallel_size\": 2}"), "sequence_parallel_size: 2 is not");
}

TEST(ConfigTypes, GradientsTravelInATypeThatHoldsThem) {
  Facts bf16;
  bf16.dtype = DType::kBFloat16;
  const std::string wire = "{\"communication_data_type\": \"bf16\"";
  EXPECT_NO_THROW(parse(wire + "}", bf16));
  EXPECT_NO_THROW(parse(wire + "}"));  // the registered parameters will tell
  EXPECT_CONTAINS(refusal(wire + ", \"data_types\": {\"grad_accum_dtype\": \"fp32\"}}", bf16),
                  "communication_data_type: bf16 would round gradients, which are fp32");
  Facts fp16;
  fp16.dtype = DType::kFloat16;
  EXPECT_CONTAINS(refusal(wire + "}", fp16), "valid: fp32, fp16");
  // The file's precision is the type, before any fact.
  EXPECT_NO_THROW(parse(wire + ", \"bf16\": {\"enabled\": true}}", fp16));
  EXPECT_CONTAINS(refusal(wire + ", \"fp16\": {\"enabled\": true}}"), "gradients, which are fp16");
  EXPECT_WARNS(parse("{\"communication_data_type\": \"fp32\"}", bf16),
               "communication_data_type: sums are in fp32 whatever gradients travel in");
}

TEST(ConfigTypes, UnmanagedAccumulationHasNoFixedTree) {
  Config config = parse("{\"train_batch_size\": 2}");
  config.managed_accumulation = false;
  config.runtime.reproducible = true;  // not by a file, but found all the same
  try {
    config.resolve_batch(2);
    ADD_FAILURE() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_CONTAINS(error.what(), "managed_gradient_accumulation false contradicts");
  }
}

TEST(ConfigTypes, AnEpsOfZeroIsWarnedOf) {
  EXPECT_WARNS(parse(nested("optimizer.params.eps", "0")), "optimizer.params.eps: 0: an element");
  EXPECT_NO_WARNING(parse(nested("optimizer.params.eps", "1e-30")), "eps: 0");
}

}  // namespace
}  // namespace zero
