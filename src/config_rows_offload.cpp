// Rows of "zero_optimization.offload_...", and the old keys they replace. What device "cpu" means
// is decided in config_rules.cpp, where the device of the run is known.
#include "src/config_rows.hpp"

namespace zero::detail {
namespace {

using Type = ValueType;

const char* const kOptimizer = "zero_optimization.offload_optimizer";
const char* const kParam = "zero_optimization.offload_param";
const char* const kHostOnly = "nothing is moved to another memory";
constexpr Range kShare = {.low = 0, .high = 1};

void add_device_row(std::vector<SchemaRow>& rows, const std::string& section, const char* about) {
  rows.push_back({.path = section + ".device",
                  .type = Type::kWord,
                  .policy = Policy::kNoEffect,
                  .default_value = std::string("none"),
                  .words = {"none", "cpu"},
                  .not_built = {"nvme"},
                  .effect = Effect::kSpeedOrMemory,
                  .about = about,
                  .why = "nothing to move on the host device: it is in host memory already"});
}

void add_idle_row(std::vector<SchemaRow>& rows, const std::string& section, const char* name,
                  Type type, Value value, const char* about, Range range = {}) {
  rows.push_back(no_effect(section + "." + name, type, std::move(value), about, kHostOnly, range));
}

void add_shared_rows(std::vector<SchemaRow>& rows, const std::string& section,
                     std::int64_t buffers) {
  add_idle_row(rows, section, "nvme_path", Type::kText, {}, "Folder for device nvme.");
  rows.back().nullable = true;
  rows.back().default_text = "none";
  add_idle_row(rows, section, "buffer_count", Type::kInteger, buffers,
               "Buffers that DeepSpeed copies through.", kNotNegative);
  add_idle_row(rows, section, "pin_memory", Type::kBoolean, false, "Page-locked host memory.");
}

void add_old_row(std::vector<SchemaRow>& rows, const char* name, const std::string& section) {
  rows.push_back({.path = std::string("zero_optimization.") + name,
                  .type = Type::kBoolean,
                  .stands_for = section + ".device",
                  .stands_as =
                      [](const Value& value) {
                        return Value(std::string(std::get<bool>(value) ? "cpu" : "none"));
                      },
                  .nullable = true,
                  .effect = Effect::kSpeedOrMemory,
                  .about = "Old form of " + section + ".",
                  .default_text = "not given"});
}

}  // namespace

void add_offload_rows(std::vector<SchemaRow>& rows) {
  rows.push_back({.path = kOptimizer,
                  .nullable = true,
                  .effect = Effect::kSpeedOrMemory,
                  .about = "Where optimizer state lives."});
  add_device_row(rows, kOptimizer,
                 "cpu: host memory, which is where optimizer state is on the host device.");
  add_shared_rows(rows, kOptimizer, 4);
  for (const char* name : {"pipeline_read", "pipeline_write", "fast_init", "super_offload"}) {
    add_idle_row(rows, kOptimizer, name, Type::kBoolean, false, "How DeepSpeed offloads.");
  }
  add_idle_row(rows, kOptimizer, "convert_grad_on_cpu", Type::kBoolean, true,
               "How DeepSpeed offloads.");
  add_idle_row(rows, kOptimizer, "ratio", Type::kNumber, 1.0, "Part that is offloaded.", kShare);
  add_idle_row(rows, kOptimizer, "cpuadam_cores_perc", Type::kNumber, 0.8,
               "Part of the cores that DeepSpeed updates on.", kShare);

  rows.push_back({.path = kParam,
                  .nullable = true,
                  .from_stage = 3,
                  .effect = Effect::kSpeedOrMemory,
                  .about = "Where sharded parameters live."});
  add_device_row(rows, kParam, "cpu: host memory, which is where they are on the host device.");
  add_shared_rows(rows, kParam, 5);
  add_idle_row(rows, kParam, "buffer_size", Type::kInteger, std::int64_t{100'000'000},
               "Elements of a buffer.", kNotNegative);
  add_idle_row(rows, kParam, "max_in_cpu", Type::kInteger, std::int64_t{1'000'000'000},
               "Elements kept in host memory.", kNotNegative);

  add_old_row(rows, "cpu_offload", kOptimizer);
  add_old_row(rows, "cpu_offload_param", kParam);
  rows.push_back(no_effect("zero_optimization.cpu_offload_use_pin_memory", Type::kBoolean, {},
                           "Old form of pin_memory in the sections above.", kHostOnly));
  rows.back().nullable = true;
  rows.back().default_text = "not given";
}

}  // namespace zero::detail
