// Walks the schema: every row is probed by hand-written values, and a row without a probe fails.
#include <functional>
#include <limits>
#include <set>

#include "src/config_schema.hpp"
#include "tests/config_fixtures.hpp"

namespace zero {
namespace {

using config_test::nested;
using config_test::parse;
using config_test::refusal;
using detail::config_schema;
using detail::SchemaRow;
using detail::ValueType;

using Getter = std::function<double(const Config&)>;

struct Probe {
  std::string path;
  double by_default = 0;  // what the getter gives for {}
  std::string good;       // JSON
  double with_good = 0;
  std::vector<std::string> bad;  // out of range
  Getter get;                    // empty: the key only reports
  std::string beside = "{}";     // what the good value needs in the file
};

constexpr double kNone = -7;  // an optional that is empty
template <class T>
double given(const std::optional<T>& value) {
  return value.has_value() ? static_cast<double>(*value) : kNone;
}

double listed(const std::vector<double>& values) {
  return values.size() == 2 ? values[0] + 1000 * values[1] : -1;
}
// A value of the schedule, where there is one.
double scheduled(const Config& c, double (*get)(const SchedulerSettings&)) {
  return c.scheduler ? get(*c.scheduler) : kNone;
}

const std::vector<Probe>& probes() {
  static const std::string kTiny = "-1e-9";
  static const std::vector<Probe> kProbes = {
      {"train_batch_size",
       kNone,
       "24",
       24,
       {"0", "-1"},
       [](const Config& c) { return given(c.train_batch_size); }},
      {"train_micro_batch_size_per_gpu",
       kNone,
       "3",
       3,
       {"0", "-3"},
       [](const Config& c) { return given(c.micro_batch_size); }},
      {"gradient_accumulation_steps",
       kNone,
       "2147483647",
       2147483647,
       {"0", "2147483648"},
       [](const Config& c) { return given(c.accumulation_steps); }},
      {"gradient_clipping",
       1,
       "0",
       0,
       {kTiny, "1e39"},
       [](const Config& c) { return c.gradient_clipping; }},
      {"prescale_gradients", 0, "true", 0, {}, {}},
      {"gradient_predivide_factor", 0, "2.5", 0, {"0", "-1"}, {}},
      {"data_types.grad_accum_dtype",
       kNone,
       "\"bf16\"",
       2,
       {"\"fp8\""},
       [](const Config& c) { return given(c.grad_accum_dtype); }},
      {"steps_per_print", 0, "100", 0, {"0"}, {}},
      {"wall_clock_breakdown", 0, "true", 0, {}, {}},
      {"optimizer.type",
       0,
       "\"SGD\"",
       1,
       {"\"Lamb\"", "\"Nonsense\""},
       [](const Config& c) { return c.optimizer.kind == OptimizerKind::kSgd ? 1 : 0; }},
      {"optimizer.params.lr",
       1e-3,
       "0.25",
       0.25,
       {kTiny, "1e39"},
       [](const Config& c) { return c.optimizer.lr; }},
      {"optimizer.params.betas",
       0.9 + 999,
       "[0.5, 0.25]",
       250.5,
       {"[0.9, 1]", "[-0.1, 0.9]"},
       [](const Config& c) { return c.optimizer.beta1 + 1000 * c.optimizer.beta2; }},
      {"optimizer.params.eps",
       1e-8,
       "1e-3",
       1e-3,
       {kTiny},
       [](const Config& c) { return c.optimizer.eps; }},
      {"optimizer.params.weight_decay",
       0,
       "0.5",
       0.5,
       {kTiny},
       [](const Config& c) { return c.optimizer.weight_decay; }},
      {"optimizer.params.bias_correction",
       1,
       "false",
       0,
       {},
       [](const Config& c) { return c.optimizer.bias_correction; }},
      {"optimizer.params.adam_w_mode",
       1,
       "false",
       0,
       {},
       [](const Config& c) { return c.optimizer.decoupled_decay; }},
      {"optimizer.params.torch_adam", 0, "true", 0, {}, {}},
      {"scheduler.type",
       0,
       "\"WarmupLR\"",
       1,
       {"\"StepLR\"", "\"Nonsense\""},
       [](const Config& c) { return c.scheduler && c.scheduler->type == "WarmupLR" ? 1 : 0; }},
      {"scheduler.params.warmup_min_lr",
       kNone,
       "[0.5, 0.25]",
       250.5,
       {"-1", "[]", "[0.5, -1]", "1e39"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return listed(s.warmup_min_lr); });
       },
       R"({"scheduler": {"type": "WarmupLR", "params": {}}})"},
      {"scheduler.params.warmup_max_lr",
       kNone,
       "[0.5, 0.25]",
       250.5,
       {"-1", "[]", "[0.5, -1]", "1e39"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return listed(s.warmup_max_lr); });
       },
       R"({"scheduler": {"type": "WarmupLR", "params": {}}})"},
      {"scheduler.params.warmup_num_steps",
       kNone,
       "3",
       3,
       {"-1"},
       [](const Config& c) {
         return scheduled(
             c, [](const SchedulerSettings& s) { return static_cast<double>(s.warmup_num_steps); });
       },
       R"({"scheduler": {"type": "WarmupLR", "params": {}}})"},
      {"scheduler.params.warmup_type",
       kNone,
       "\"linear\"",
       1,
       {"\"cosine\""},
       [](const Config& c) {
         return scheduled(
             c, [](const SchedulerSettings& s) { return s.warmup_type == "linear" ? 1.0 : 0.0; });
       },
       R"({"scheduler": {"type": "WarmupLR", "params": {}}})"},
      {"scheduler.params.total_num_steps",
       kNone,
       "3",
       3,
       {"-1", "0"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return given(s.total_num_steps); });
       },
       R"({"scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 7}}})"},
      {"scheduler.params.warmup_min_ratio",
       kNone,
       "[0.5, 0.25]",
       250.5,
       {"-1", "[]", "[0.5, -1]", "1e39"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return listed(s.warmup_min_ratio); });
       },
       R"({"scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 7}}})"},
      {"scheduler.params.cos_min_ratio",
       kNone,
       "0.5",
       0.5,
       {"1e39", "-1"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return s.cos_min_ratio; });
       },
       R"({"scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 7}}})"},
      {"scheduler.params.cycle_min_lr",
       kNone,
       "[0.5, 0.25]",
       250.5,
       {"-1", "[]", "[0.5, -1]", "1e39"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return listed(s.cycle_min_lr); });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.cycle_max_lr",
       kNone,
       "[0.5, 0.25]",
       250.5,
       {"-1", "[]", "[0.5, -1]", "1e39"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return listed(s.cycle_max_lr); });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.cycle_first_step_size",
       kNone,
       "3",
       3,
       {"-1", "0"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) {
           return static_cast<double>(s.cycle_first_step_size);
         });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.cycle_second_step_size",
       kNone,
       "3",
       3,
       {"-1"},
       [](const Config& c) {
         return scheduled(
             c, [](const SchedulerSettings& s) { return given(s.cycle_second_step_size); });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.cycle_first_stair_count",
       kNone,
       "3",
       3,
       {"-1"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) {
           return static_cast<double>(s.cycle_first_stair_count);
         });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.cycle_second_stair_count",
       kNone,
       "3",
       3,
       {"-1"},
       [](const Config& c) {
         return scheduled(
             c, [](const SchedulerSettings& s) { return given(s.cycle_second_stair_count); });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.decay_step_size",
       kNone,
       "3",
       3,
       {"-1"},
       [](const Config& c) {
         return scheduled(
             c, [](const SchedulerSettings& s) { return static_cast<double>(s.decay_step_size); });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.decay_lr_rate",
       kNone,
       "0.5",
       0.5,
       {"1e39", "-1"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return s.decay_lr_rate; });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.cycle_momentum",
       kNone,
       "false",
       0,
       {},
       [](const Config& c) {
         return scheduled(c,
                          [](const SchedulerSettings& s) { return s.cycle_momentum ? 1.0 : 0.0; });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.cycle_min_mom",
       kNone,
       "[0.5, 0.25]",
       250.5,
       {"-1", "[]", "[0.5, -1]", "1"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return listed(s.cycle_min_mom); });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.cycle_max_mom",
       kNone,
       "[0.5, 0.25]",
       250.5,
       {"-1", "[]", "[0.5, -1]", "1"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return listed(s.cycle_max_mom); });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.decay_mom_rate",
       kNone,
       "0.5",
       0.5,
       {"1e39"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return s.decay_mom_rate; });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.lr_range_test_min_lr",
       kNone,
       "[0.5, 0.25]",
       250.5,
       {"-1", "[]", "[0.5, -1]", "1e39"},
       [](const Config& c) {
         return scheduled(
             c, [](const SchedulerSettings& s) { return listed(s.lr_range_test_min_lr); });
       },
       R"({"scheduler": {"type": "LRRangeTest", "params": {}}})"},
      {"scheduler.params.lr_range_test_step_size",
       kNone,
       "3",
       3,
       {"-1", "0"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) {
           return static_cast<double>(s.lr_range_test_step_size);
         });
       },
       R"({"scheduler": {"type": "LRRangeTest", "params": {}}})"},
      {"scheduler.params.lr_range_test_step_rate",
       kNone,
       "0.5",
       0.5,
       {"1e39", "-1"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return s.lr_range_test_step_rate; });
       },
       R"({"scheduler": {"type": "LRRangeTest", "params": {}}})"},
      {"scheduler.params.lr_range_test_staircase",
       kNone,
       "true",
       1,
       {},
       [](const Config& c) {
         return scheduled(
             c, [](const SchedulerSettings& s) { return s.lr_range_test_staircase ? 1.0 : 0.0; });
       },
       R"({"scheduler": {"type": "LRRangeTest", "params": {}}})"},
      {"fp16.enabled", kNone, "true", 1, {}, [](const Config& c) { return given(c.fp16_enabled); }},
      {"fp16.loss_scale",
       0,
       "128",
       128,
       {"-1", "1e39"},
       [](const Config& c) { return c.loss_scale.loss_scale; }},
      {"fp16.initial_scale_power",
       16,
       "32",
       32,
       {"-1", "128"},
       [](const Config& c) { return c.loss_scale.initial_scale_power; }},
      {"fp16.loss_scale_window",
       1000,
       "5000000000",
       5e9,
       {"0"},
       [](const Config& c) { return static_cast<double>(c.loss_scale.loss_scale_window); }},
      {"fp16.hysteresis",
       2,
       "1",
       1,
       {"0", "2147483648"},
       [](const Config& c) { return c.loss_scale.hysteresis; }},
      {"fp16.consecutive_hysteresis",
       0,
       "true",
       1,
       {},
       [](const Config& c) { return c.loss_scale.consecutive_hysteresis; }},
      {"fp16.min_loss_scale",
       1,
       "0.125",
       0.125,
       {"0", "-1"},
       [](const Config& c) { return c.loss_scale.min_loss_scale; }},
      {"bf16.enabled",
       kNone,
       "false",
       0,
       {},
       [](const Config& c) { return given(c.bf16_enabled); }},
      {"zero_optimization.stage",
       0,
       "3",
       3,
       {"-1", "4"},
       [](const Config& c) { return c.zero.stage; }},
      {"zero_optimization.reduce_bucket_size",
       5e8,
       "1",
       1,
       {"0", "-1"},
       [](const Config& c) { return static_cast<double>(c.zero.reduce_bucket_size); }},
      {"zero_optimization.allgather_bucket_size",
       5e8,
       "7",
       7,
       {"0", "-1"},
       [](const Config& c) { return static_cast<double>(c.zero.allgather_bucket_size); }},
      {"zero_optimization.overlap_comm",
       0,
       "true",
       1,
       {},
       [](const Config& c) { return c.zero.overlaps(); }},
      {"zero_optimization.reduce_scatter", 0, "false", 0, {}, {}},
      {"zero_optimization.contiguous_gradients", 0, "false", 0, {}, {}},
      {"zero_optimization.stage3_prefetch_bucket_size",
       5e7,
       "0",
       0,
       {"-1"},
       [](const Config& c) { return static_cast<double>(c.zero.prefetch_bucket_size); }},
      {"zero_optimization.stage3_param_persistence_threshold",
       1e5,
       "0",
       0,
       {"-1"},
       [](const Config& c) { return static_cast<double>(c.zero.param_persistence_threshold); }},
      {"zero_optimization.stage3_model_persistence_threshold",
       9223372036854775807.0,
       "0",
       0,
       {"-1"},
       [](const Config& c) { return static_cast<double>(c.zero.model_persistence_threshold); }},
      {"zero_optimization.offload_optimizer.device", 0, "\"cpu\"", 0, {"\"nvme\"", "\"tpu\""}, {}},
      {"zero_optimization.offload_param.device", 0, "\"cpu\"", 0, {"\"nvme\"", "\"tpu\""}, {}},
      {"runtime.reproducible",
       0,
       "true",
       1,
       {},
       [](const Config& c) { return c.runtime.reproducible; }},
      {"runtime.timeout_s",
       kNone,
       "0.5",
       0.5,
       {"0", "-1", "1e9"},
       [](const Config& c) { return given(c.runtime.timeout_s); }},
      {"runtime.memory_budget",
       kNone,
       "\"24GiB\"",
       24.0 * 1024 * 1024 * 1024,
       {"0", "\"0 MB\""},
       [](const Config& c) { return given(c.runtime.memory_budget); }},
      {"runtime.reserved",
       0,
       "\"1.5 GB\"",
       1.5e9,
       {"-1", "\"-1 kB\""},
       [](const Config& c) { return static_cast<double>(c.runtime.reserved); }},
      {"runtime.choose_stage",
       0,
       "true",
       1,
       {},
       [](const Config& c) { return c.runtime.choose_stage; },
       R"({"runtime": {"memory_budget": 1}})"},
  };
  return kProbes;
}

bool is_value(const SchemaRow& row) {
  return row.type != ValueType::kSection && row.type != ValueType::kNotBuilt;
}

const SchemaRow& row_of(const Probe& probe) {
  return config_schema()[detail::row_index(probe.path)];
}

std::vector<std::string> wrong_types(ValueType type) {
  switch (type) {
    case ValueType::kBoolean:
      return {"1", "0", "\"true\"", "[true]", "{}"};
    case ValueType::kInteger:
      return {"true", "1.5", "1e30", "9223372036854775808", "\"x\"", "\"\"", "\" 3\"", "[3]", "{}"};
    case ValueType::kNumber:
      return {"true", "\"1\"", "[1]", "{}"};
    case ValueType::kBytes:
      return {"true",      "1.5",        "\"\"", "\"GiB\"", "\"1 parsec\"",
              "\"1  GB\"", "\"1e30GB\"", "[1]",  "{}"};
    case ValueType::kWord:
      return {"1", "true", "[]", "{}", "\"\""};
    case ValueType::kPair:
      return {"0.9", "[]", "[0.9]", "[0.9, 0.9, 0.9]", "[0.9, true]", "[0.9, \"0.9\"]", "{}"};
    case ValueType::kNumbers:
      return {"true", "\"1\"", "[true]", "[[1]]", "{}"};
    case ValueType::kSection:
    case ValueType::kNotBuilt:
      break;
  }
  return {};
}

TEST(ConfigSchema, EveryRowHasOneProbe) {
  std::multiset<std::string> probed;
  for (const Probe& probe : probes()) probed.insert(probe.path);
  for (const SchemaRow& row : config_schema()) {
    EXPECT_EQ(probed.count(row.path), is_value(row) ? 1u : 0u) << row.path;
  }
}

TEST(ConfigSchema, RowsAreWhole) {
  std::set<std::string> names;
  for (const SchemaRow& row : config_schema()) {
    EXPECT_FALSE(row.about.empty()) << row.path;
    std::vector<std::string> own = row.aliases;
    if (!row.old_name.empty()) own.push_back(row.old_name);
    own.emplace_back(detail::row_name(row));
    for (const std::string& name : own) {
      EXPECT_TRUE(names.insert(std::string(detail::row_section(row)) + "." + name).second)
          << "two rows for " << row.path;
    }
    const auto section = detail::row_section(row);
    if (!section.empty()) {
      EXPECT_EQ(config_schema()[detail::row_index(section)].type, ValueType::kSection) << row.path;
    }
    if (!is_value(row)) continue;
    // A key that does something has a setter; one that does nothing says so when it is given.
    EXPECT_TRUE((row.set != nullptr) != !row.note.empty()) << row.path;
    EXPECT_TRUE(row.default_value.index() != 0 || !row.default_text.empty()) << row.path;
  }
}

TEST(ConfigSchema, Defaults) {
  for (const Probe& probe : probes()) {
    if (!probe.get) continue;
    EXPECT_EQ(probe.get(Config()), probe.by_default) << probe.path;
    EXPECT_EQ(probe.get(parse("{}")), probe.by_default) << probe.path;
    if (row_of(probe).nullable) {
      EXPECT_EQ(probe.get(parse(nested(probe.path, "null"))), probe.by_default) << probe.path;
    }
  }
}

// The settings structs have initialisers of their own, for those who fill them without a file.
TEST(ConfigSchema, DefaultsOfTheStructsAreThoseOfTheTable) {
  const Config config;
  const OptimizerSettings optimizer;
  EXPECT_EQ(optimizer.lr, config.optimizer.lr);
  EXPECT_EQ(optimizer.beta1, config.optimizer.beta1);
  EXPECT_EQ(optimizer.beta2, config.optimizer.beta2);
  EXPECT_EQ(optimizer.eps, config.optimizer.eps);
  EXPECT_EQ(optimizer.weight_decay, config.optimizer.weight_decay);
  EXPECT_EQ(optimizer.kind, config.optimizer.kind);
  EXPECT_EQ(optimizer.decoupled_decay, config.optimizer.decoupled_decay);
  EXPECT_EQ(optimizer.bias_correction, config.optimizer.bias_correction);
  const LossScaleSettings fp16;
  EXPECT_EQ(fp16.loss_scale, config.loss_scale.loss_scale);
  EXPECT_EQ(fp16.initial_scale_power, config.loss_scale.initial_scale_power);
  EXPECT_EQ(fp16.loss_scale_window, config.loss_scale.loss_scale_window);
  EXPECT_EQ(fp16.hysteresis, config.loss_scale.hysteresis);
  EXPECT_EQ(fp16.consecutive_hysteresis, config.loss_scale.consecutive_hysteresis);
  EXPECT_EQ(fp16.min_loss_scale, config.loss_scale.min_loss_scale);
  const ZeroSettings zero;
  EXPECT_EQ(zero.stage, config.zero.stage);
  EXPECT_EQ(zero.reduce_bucket_size, config.zero.reduce_bucket_size);
  EXPECT_EQ(zero.allgather_bucket_size, config.zero.allgather_bucket_size);
  EXPECT_EQ(zero.prefetch_bucket_size, config.zero.prefetch_bucket_size);
  EXPECT_EQ(zero.param_persistence_threshold, config.zero.param_persistence_threshold);
  EXPECT_EQ(zero.model_persistence_threshold, config.zero.model_persistence_threshold);
  EXPECT_EQ(zero.overlap_comm, config.zero.overlap_comm);
  // Of each type, with what it needs: the defaults of the struct are those of the table.
  for (const char* type :
       {"WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "OneCycle", "LRRangeTest"}) {
    SchedulerSettings scheduler;
    scheduler.type = type;
    std::string needed;
    if (scheduler.type == "WarmupDecayLR" || scheduler.type == "WarmupCosineLR") {
      scheduler.total_num_steps = 7;
      needed = "\"total_num_steps\": 7";
    } else if (scheduler.type == "OneCycle") {
      scheduler.cycle_min_lr = {0.5};
      scheduler.cycle_max_lr = {1.0};
      needed = R"("cycle_min_lr": 0.5, "cycle_max_lr": [1])";
    }
    const Config given = parse(R"({"optimizer": {"type": "Adam"}, "scheduler": {"type": ")" +
                               scheduler.type + R"(", "params": {)" + needed + "}}}");
    ASSERT_TRUE(given.scheduler.has_value());
    EXPECT_EQ(*given.scheduler, scheduler) << type;
  }
  const RuntimeSettings runtime;
  EXPECT_EQ(runtime.reproducible, config.runtime.reproducible);
  EXPECT_EQ(runtime.timeout_s, config.runtime.timeout_s);
  EXPECT_EQ(runtime.memory_budget, config.runtime.memory_budget);
  EXPECT_EQ(runtime.reserved, config.runtime.reserved);
  EXPECT_EQ(runtime.choose_stage, config.runtime.choose_stage);
}

TEST(ConfigSchema, GoodValues) {
  for (const Probe& probe : probes()) {
    Config config = parse(probe.beside);
    config.merge(nested(probe.path, probe.good));
    if (probe.get) {
      EXPECT_EQ(probe.get(config), probe.with_good) << probe.path;
    }
    if (!row_of(probe).note.empty()) {
      EXPECT_WARNS(config, probe.path);
    }
  }
}

TEST(ConfigSchema, WrongTypesAndRangesAreRefusedByPathAndPlace) {
  for (const Probe& probe : probes()) {
    const SchemaRow& row = row_of(probe);
    std::vector<std::string> bad = wrong_types(row.type);
    ASSERT_FALSE(bad.empty());
    bad.insert(bad.end(), probe.bad.begin(), probe.bad.end());
    if (!row.nullable) bad.emplace_back("null");
    for (const std::string& value : bad) {
      SCOPED_TRACE(probe.path + " = " + value);
      const std::string text = nested(probe.path, value);
      const std::string message = refusal(text);
      const auto column = text.rfind(": " + value) + 3;
      EXPECT_CONTAINS(message, "file.json:1:" + std::to_string(column) + ": " + probe.path);
    }
  }
}

TEST(ConfigSchema, MisspeltKeysAreRefusedWithTheNearest) {
  for (const SchemaRow& row : config_schema()) {
    if (!is_value(row)) continue;
    for (const std::string& spelt : {row.path + "x", row.path.substr(0, row.path.size() - 1)}) {
      const std::string message = refusal(nested(spelt, "1"));
      EXPECT_CONTAINS(message, spelt + ": unknown key");
      if (row.path.ends_with(".lr") && !spelt.ends_with("x")) continue;  // "l" is near to all
      EXPECT_CONTAINS(message, "nearest is " + row.path);
    }
  }
}

TEST(ConfigSchema, KeysThatAreNotBuiltAreRefusedByName) {
  std::size_t rows = 0;
  for (const SchemaRow& row : config_schema()) {
    if (row.type != ValueType::kNotBuilt) continue;
    ++rows;
    const std::string message = refusal(nested(row.path, "{}"));
    EXPECT_CONTAINS(message, row.path + ": ");
    EXPECT_CONTAINS(message, "not built yet");
  }
  EXPECT_GT(rows, 50u);
}

TEST(ConfigSchema, SectionsMustBeObjects) {
  for (const SchemaRow& row : config_schema()) {
    if (row.type != ValueType::kSection) continue;
    for (const char* value : {"true", "1", "\"x\"", "[]"}) {
      EXPECT_CONTAINS(refusal(nested(row.path, value)), row.path + ": ") << value;
    }
    if (row.path == "optimizer") continue;  // needs its type
    EXPECT_NO_THROW(parse(nested(row.path, "{}"))) << row.path;
  }
}

}  // namespace
}  // namespace zero
