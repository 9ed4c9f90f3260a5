// Walks the schema: every row is probed by hand-written values, and a row without a probe fails.
#include <functional>
#include <limits>
#include <set>

#include "src/config_schema.hpp"
#include "tests/config_fixtures.hpp"
#include "tests/config_probes.hpp"

namespace zero {
namespace {

using config_test::nested;
using config_test::parse;
using config_test::Probe;
using config_test::probes;
using config_test::refusal;
using detail::config_schema;
using detail::SchemaRow;
using detail::ValueType;

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
