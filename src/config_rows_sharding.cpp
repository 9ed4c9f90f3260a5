#include "src/config_rows.hpp"

namespace zero::detail {
namespace {

using Type = ValueType;

constexpr std::int64_t kHalfBillion = 500'000'000;

void add_zero_rows(std::vector<SchemaRow>& rows) {
  rows.push_back({.path = "zero_optimization", .about = "What is sharded, and how it moves."});
  rows.push_back({.path = "zero_optimization.stage",
                  .type = Type::kInteger,
                  .default_value = std::int64_t{0},
                  .range = {.low = 0, .high = 3},
                  .effect = Effect::kSpeedOrMemory,
                  .about = "0: nothing is sharded; 1: optimizer state; 2: gradients too; 3: "
                           "parameters too.",
                  .set = [](Config& c, const Value& v) { c.zero.stage = small(v); }});
  rows.push_back(
      {.path = "zero_optimization.reduce_bucket_size",
       .type = Type::kInteger,
       .default_value = kHalfBillion,
       .range = kPositive,
       .effect = Effect::kSpeedOrMemory,
       .about = "Elements reduced at once; smaller holds less memory and sends more messages.",
       .set = [](Config& c, const Value& v) { c.zero.reduce_bucket_size = integer(v); }});
  rows.push_back(
      {.path = "zero_optimization.allgather_bucket_size",
       .type = Type::kInteger,
       .default_value = kHalfBillion,
       .range = kPositive,
       .effect = Effect::kSpeedOrMemory,
       .about = "Elements gathered at once after an update; smaller sends more messages.",
       .set = [](Config& c, const Value& v) { c.zero.allgather_bucket_size = integer(v); }});
  rows.push_back({.path = "zero_optimization.overlap_comm",
                  .type = Type::kBoolean,
                  .nullable = true,
                  .effect = Effect::kSpeedOrMemory,
                  .about = "Communication runs beside computation, for one more bucket of memory.",
                  .default_text = "true at stage 3, false below",
                  .set = [](Config& c, const Value& v) { c.zero.overlap_comm = boolean(v); }});
  rows.push_back({.path = "zero_optimization.reduce_scatter",
                  .type = Type::kBoolean,
                  .default_value = true,
                  .effect = Effect::kReport,
                  .about = "DeepSpeed may use all-reduce instead; here it is always a real "
                           "reduce-scatter.",
                  .note = "no effect: the sum is the same, and a reduce-scatter moves less"});
  rows.push_back({.path = "zero_optimization.contiguous_gradients",
                  .type = Type::kBoolean,
                  .default_value = true,
                  .effect = Effect::kReport,
                  .about = "Gradients lie in one buffer per bucket; here they always do.",
                  .note = "no effect: gradients always lie in one buffer per bucket"});
  rows.push_back(
      {.path = "zero_optimization.stage3_prefetch_bucket_size",
       .type = Type::kInteger,
       .default_value = std::int64_t{50'000'000},
       .range = kNotNegative,
       .aliases = {"prefetch_bucket_size"},
       .from_stage = 3,
       .effect = Effect::kSpeedOrMemory,
       .about = "Elements gathered ahead of their use; 0: none.",
       .set = [](Config& c, const Value& v) { c.zero.prefetch_bucket_size = integer(v); }});
  rows.push_back(
      {.path = "zero_optimization.stage3_param_persistence_threshold",
       .type = Type::kInteger,
       .default_value = std::int64_t{100'000},
       .range = kNotNegative,
       .aliases = {"param_persistence_threshold"},
       .from_stage = 3,
       .effect = Effect::kSpeedOrMemory,
       .about = "Parameters of up to so many elements stay whole on every rank.",
       .set = [](Config& c, const Value& v) { c.zero.param_persistence_threshold = integer(v); }});
  rows.push_back(
      {.path = "zero_optimization.stage3_model_persistence_threshold",
       .type = Type::kInteger,
       .default_value = std::numeric_limits<std::int64_t>::max(),
       .range = kNotNegative,
       .aliases = {"model_persistence_threshold"},
       .from_stage = 3,
       .effect = Effect::kSpeedOrMemory,
       .about = "Elements that may stay whole on every rank in all.",
       .set = [](Config& c, const Value& v) { c.zero.model_persistence_threshold = integer(v); }});
}

void add_offload_rows(std::vector<SchemaRow>& rows) {
  rows.push_back({.path = "zero_optimization.offload_optimizer",
                  .nullable = true,
                  .about = "Where optimizer state lives."});
  rows.push_back({.path = "zero_optimization.offload_optimizer.device",
                  .type = Type::kWord,
                  .default_value = std::string("none"),
                  .words = {"none", "cpu"},
                  .not_built = {"nvme"},
                  .effect = Effect::kSpeedOrMemory,
                  .about = "cpu: host memory, which is where it is on the host device.",
                  .note = "no effect on the host device: optimizer state is in host memory "
                          "already"});
  rows.push_back({.path = "zero_optimization.offload_param",
                  .nullable = true,
                  .from_stage = 3,
                  .about = "Where sharded parameters live."});
  rows.push_back({.path = "zero_optimization.offload_param.device",
                  .type = Type::kWord,
                  .default_value = std::string("none"),
                  .words = {"none", "cpu"},
                  .not_built = {"nvme"},
                  .effect = Effect::kSpeedOrMemory,
                  .about = "cpu: host memory, which is where they are on the host device.",
                  .note = "no effect on the host device: parameters are in host memory already"});
}

void add_runtime_rows(std::vector<SchemaRow>& rows) {
  rows.push_back({.path = "runtime", .about = "Extensions of this library."});
  rows.push_back(
      {.path = "runtime.reproducible",
       .type = Type::kBoolean,
       .default_value = false,
       .about = "The same bits for any number of ranks and any stage with the same slots; ranks "
                "and accumulation must be powers of two.",
       .set = [](Config& c, const Value& v) { c.runtime.reproducible = boolean(v); }});
  rows.push_back({.path = "runtime.timeout_s",
                  .type = Type::kNumber,
                  .range = {.low = 0, .high = 1e8, .above_low = true},
                  .effect = Effect::kReport,
                  .about = "Seconds after which a rank that waits for another gives up with an "
                           "error.",
                  .default_text = "the world's own, 300",
                  .set = [](Config& c, const Value& v) { c.runtime.timeout_s = number(v); }});
  rows.push_back({.path = "runtime.memory_budget",
                  .type = Type::kBytes,
                  .range = kPositive,
                  .nullable = true,
                  .effect = Effect::kSpeedOrMemory,
                  .about = "Most that an optimizer may hold on a rank, with what is reserved; "
                           "prepare() refuses beyond.",
                  .default_text = "no limit",
                  .set = [](Config& c, const Value& v) { c.runtime.memory_budget = integer(v); }});
  rows.push_back(
      {.path = "runtime.reserved",
       .type = Type::kBytes,
       .default_value = std::int64_t{0},
       .range = kNotNegative,
       .effect = Effect::kSpeedOrMemory,
       .about = "Part of the budget that others need: activations, the model's own buffers.",
       .set = [](Config& c, const Value& v) { c.runtime.reserved = integer(v); }});
  rows.push_back(
      {.path = "runtime.choose_stage",
       .type = Type::kBoolean,
       .default_value = false,
       .effect = Effect::kSpeedOrMemory,
       .about = "Within the budget: the stage with the least traffic, then the largest buckets, "
                "then the largest prefetch.",
       .set = [](Config& c, const Value& v) { c.runtime.choose_stage = boolean(v); }});
}

}  // namespace

void add_sharding_rows(std::vector<SchemaRow>& rows) {
  add_zero_rows(rows);
  add_offload_rows(rows);
  add_runtime_rows(rows);
}

}  // namespace zero::detail
