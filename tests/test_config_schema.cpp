// Walks the schema: every row is probed by hand-written values, and a row without a probe fails.
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "src/config_schema.hpp"
#include "tests/config_fixtures.hpp"
#include "tests/config_probes.hpp"

namespace zero {
namespace {

using config_test::effective;
using config_test::nested;
using config_test::parse;
using config_test::Probe;
using config_test::probes;
using config_test::refusal;
using detail::config_schema;
using detail::Effect;
using detail::SchemaRow;
using detail::ValueType;

using detail::Policy;
using detail::Value;

const SchemaRow& row_of(const Probe& probe) {
  return config_schema()[detail::row_index(probe.path)];
}

std::vector<std::string> wrong_types(ValueType type) {
  switch (type) {
    case ValueType::kBoolean:
    case ValueType::kSwitch:
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
    case ValueType::kText:
      return {"1", "true", "[]", "{}"};
    case ValueType::kSection:
    case ValueType::kAny:
      break;
  }
  return {};
}

TEST(ConfigSchema, EveryRowThatActsHasOneProbe) {
  std::multiset<std::string> probed;
  for (const Probe& probe : probes()) probed.insert(probe.path);
  for (const SchemaRow& row : config_schema()) {
    const bool acts = is_value(row) && row.policy == Policy::kActs;
    EXPECT_EQ(probed.count(row.path), acts ? 1u : 0u) << row.path;
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
    // A key that does something has a field; one that does nothing says so when it is given.
    EXPECT_EQ(row.field.set != nullptr, row.policy == Policy::kActs) << row.path;
    EXPECT_EQ(row.field.get != nullptr, row.policy == Policy::kActs) << row.path;
    EXPECT_EQ(!row.why.empty(), row.policy == Policy::kNoEffect) << row.path;
    EXPECT_TRUE(!detail::is_empty(row.default_value) || !row.default_text.empty()) << row.path;
    // Written out as null, an empty value can be read again.
    if (detail::is_empty(row.default_value) && !row.required && row.of_types.empty()) {
      EXPECT_TRUE(row.nullable) << row.path;
    }
    const bool idle = row.policy == Policy::kNoEffect;
    EXPECT_FALSE(idle && row.effect == Effect::kResult) << row.path;
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
  EXPECT_EQ(runtime.nccl_reduction, config.runtime.nccl_reduction);
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
      // The effective configuration has it as well.
      EXPECT_EQ(probe.get(parse(config.explained())), probe.with_good) << config.explained();
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

// A value of the row's type, in range, other than its default.
std::string other_value(const SchemaRow& row) {
  switch (row.type) {
    case ValueType::kBoolean:
      return row.default_value == Value(true) ? "false" : "true";
    case ValueType::kInteger:
      return row.default_value == Value(std::int64_t{7}) ? "8" : "7";
    case ValueType::kNumber:
      return row.default_value == Value(0.5) ? "0.25" : "0.5";
    case ValueType::kWord:
      for (const std::string& word : row.words) {
        if (row.default_value != Value(word)) return "\"" + word + "\"";
      }
      break;
    case ValueType::kText:
      return "\"some text\"";
    default:
      break;
  }
  ADD_FAILURE() << "no other value of " << row.path;
  return "";
}

// What "a.b" needs beside it: Adam takes other parameters than SGD.
std::string file_with(const SchemaRow& row, const std::string& value) {
  std::string text = nested(row.path, value);
  if (row.of_types == std::vector<std::string>{"SGD"}) {
    text.replace(text.find("\"Adam\""), 6, "\"SGD\"");
  }
  if (row.path.starts_with("scheduler.params")) {
    text.insert(text.find("\"params\""), "\"type\": \"WarmupLR\", ");
  }
  return text;
}

std::vector<std::string> wrong_values(const SchemaRow& row) {
  std::vector<std::string> wrong = wrong_types(row.type);
  if (!row.nullable) wrong.emplace_back("null");
  for (const double bound : {row.range.low, row.range.high}) {
    if (!std::isfinite(bound)) continue;
    const double beyond = bound == row.range.low ? bound - 1 : bound * 2;
    wrong.push_back(detail::number_text(beyond));
  }
  if (row.type == ValueType::kWord) wrong.emplace_back("\"nonsense\"");
  return wrong;
}

TEST(ConfigSchema, KeysWithoutEffectAreTakenWithANoteWhereTheyAskForSomething) {
  int rows = 0;
  for (const SchemaRow& row : config_schema()) {
    if (row.policy != Policy::kNoEffect || !is_value(row)) continue;
    ++rows;
    SCOPED_TRACE(row.path);
    const std::string by_default = value_text(row, row.default_value);
    const std::string other = other_value(row);
    const Config asks = parse(file_with(row, other));
    EXPECT_WARNS(asks, row.path + ": " + other);
    EXPECT_WARNS(asks, row.why);
    EXPECT_EQ(effective(asks, row.path).value, other);
    const Config silent = parse(file_with(row, by_default));
    EXPECT_NO_WARNING(silent, row.why);
    EXPECT_EQ(effective(silent, row.path).value, by_default);
    EXPECT_EQ(effective(parse("{}"), row.path).value, by_default);
    for (const std::string& wrong : wrong_values(row)) {
      EXPECT_CONTAINS(refusal(file_with(row, wrong)), ": " + row.path + ": ") << wrong;
    }
  }
  EXPECT_GT(rows, 50);
}

TEST(ConfigSchema, KeysThatAreNotBuiltAreTakenAtTheirDefaultAndRefusedOtherwise) {
  int rows = 0;
  for (const SchemaRow& row : config_schema()) {
    if (row.policy != Policy::kDefaultOnly) continue;
    ++rows;
    SCOPED_TRACE(row.path);
    EXPECT_NO_WARNING(parse(file_with(row, value_text(row, row.default_value))), row.path);
    const std::string message = refusal(file_with(row, other_value(row)));
    EXPECT_CONTAINS(message, ": " + row.path + ": " + other_value(row) + " is not built here");
    EXPECT_CONTAINS(message, "Valid: " + value_text(row, row.default_value));
    for (const std::string& wrong : wrong_values(row)) {
      EXPECT_CONTAINS(refusal(file_with(row, wrong)), ": " + row.path + ": ") << wrong;
    }
  }
  EXPECT_GT(rows, 15);
}

TEST(ConfigSchema, SectionsOfOthersAreTakenAsAWholeUnlessTheyAreEnabled) {
  int off_only = 0;
  int unread = 0;
  for (const SchemaRow& row : config_schema()) {
    if (row.type != ValueType::kAny) continue;
    SCOPED_TRACE(row.path);
    if (row.policy == Policy::kNoEffect) {
      ++unread;
      for (const char* value : {"{}", "{\"enabled\": true, \"x\": [{\"y \": 1}]}", "true", "[1]"}) {
        const Config config = parse(nested(row.path, value));
        EXPECT_EQ(config.notes().size(), 1u) << value;
        EXPECT_WARNS(config, row.path + ": " + row.why);
      }
      continue;
    }
    ++off_only;
    const std::string inside = "{\"enabled\": true}";
    if (row.by_presence) {
      EXPECT_NO_THROW(parse(nested(row.path, "null")));
      EXPECT_CONTAINS(refusal(nested(row.path, "{}")), ": " + row.path + ": is enabled by being");
      EXPECT_CONTAINS(refusal(nested(row.path, inside)), ": " + row.path + ": ");
      continue;
    }
    for (const char* value : {"{}", "{\"enabled\": false}", "{\"a\": {\"enabled\": 0.0, \"b\": 1}}",
                              "{\"_enabled\": true}", "false"}) {
      EXPECT_WARNS(parse(nested(row.path, value)), row.path + ": nothing in it is enabled");
    }
    EXPECT_CONTAINS(refusal(nested(row.path, inside)), ": " + row.path + ".enabled: is enabled");
    EXPECT_CONTAINS(refusal(nested(row.path, "{\"a\": [{\"enabled\": \"auto\"}]}")),
                    ": " + row.path + ".a.enabled: is enabled");
    EXPECT_CONTAINS(refusal(nested(row.path, "true")), ": " + row.path + ": is enabled");
  }
  EXPECT_GT(off_only, 10);
  EXPECT_GT(unread, 15);
}

TEST(ConfigSchema, SectionsMustBeObjects) {
  for (const SchemaRow& row : config_schema()) {
    if (row.type != ValueType::kSection) continue;
    for (const char* value : {"1", "\"x\"", "[]"}) {
      EXPECT_CONTAINS(refusal(nested(row.path, value)), row.path + ": ") << value;
    }
    if (row.path == "optimizer") continue;  // needs its type
    EXPECT_NO_THROW(parse(nested(row.path, "{}"))) << row.path;
  }
}

}  // namespace
}  // namespace zero
