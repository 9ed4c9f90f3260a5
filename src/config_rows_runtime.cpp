// Rows of "runtime": extensions of ours.
#include "src/config_access.hpp"
#include "src/config_rows.hpp"

namespace zero::detail {

using Type = ValueType;

void add_runtime_rows(std::vector<SchemaRow>& rows) {
  rows.push_back({.path = "runtime", .about = "Extensions of this library."});
  rows.push_back(
      {.path = "runtime.reproducible",
       .type = Type::kBoolean,
       .default_value = false,
       .about = "The same bits for any number of ranks and any stage with the same slots; ranks "
                "and accumulation must be powers of two.",
       .field = field<&Config::runtime, &RuntimeSettings::reproducible>()});
  rows.push_back(
      {.path = "runtime.nccl_reduction",
       .type = Type::kBoolean,
       .default_value = false,
       .about = "Gradients are summed by NCCL, in the dtype they travel in and in an order of its "
                "own, rather than here in fp32 and in rank order. Faster; the bits may change from "
                "machine to machine. Only where the ranks communicate by NCCL.",
       .field = field<&Config::runtime, &RuntimeSettings::nccl_reduction>()});
  rows.push_back({.path = "runtime.timeout_s",
                  .type = Type::kNumber,
                  .range = {.low = 0, .high = 1e8, .above_low = true},
                  .nullable = true,
                  .effect = Effect::kReport,
                  .about = "Seconds after which a rank that waits for another gives up with an "
                           "error.",
                  .default_text = "the world's own, 300",
                  .field = field<&Config::runtime, &RuntimeSettings::timeout_s>()});
  rows.push_back({.path = "runtime.memory_budget",
                  .type = Type::kBytes,
                  .range = kPositive,
                  .nullable = true,
                  .effect = Effect::kSpeedOrMemory,
                  .about = "Most that an optimizer may hold on a rank, with what is reserved; "
                           "prepare() refuses beyond.",
                  .default_text = "no limit",
                  .field = field<&Config::runtime, &RuntimeSettings::memory_budget>()});
  rows.push_back(
      {.path = "runtime.reserved",
       .type = Type::kBytes,
       .default_value = std::int64_t{0},
       .range = kNotNegative,
       .effect = Effect::kSpeedOrMemory,
       .about = "Part of the budget that others need: activations, the model's own buffers.",
       .field = field<&Config::runtime, &RuntimeSettings::reserved>()});
  rows.push_back(
      {.path = "runtime.choose_stage",
       .type = Type::kBoolean,
       .default_value = false,
       .effect = Effect::kSpeedOrMemory,
       .about = "Within the budget: the stage with the least traffic, then the largest buckets, "
                "then the largest prefetch.",
       .field = field<&Config::runtime, &RuntimeSettings::choose_stage>()});
}

}  // namespace zero::detail
