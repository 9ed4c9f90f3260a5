// Rows of the batch, the gradients and their types.
#include "src/config_access.hpp"
#include "src/config_rows.hpp"

namespace zero::detail {
namespace {

using Type = ValueType;

void add_batch_rows(std::vector<SchemaRow>& rows) {
  rows.push_back({.path = "train_batch_size",
                  .type = Type::kInteger,
                  .range = kPositive,
                  .nullable = true,
                  .about = "Samples per optimizer step over all ranks: micro-batch x accumulation "
                           "x ranks.",
                  .default_text = "follows from the other two",
                  .field = field<&Config::train_batch_size>()});
  rows.push_back({.path = "train_micro_batch_size_per_gpu",
                  .type = Type::kInteger,
                  .range = kPositive,
                  .nullable = true,
                  .automatic = {.fact = "micro_batch", .from_facts = known<&Facts::micro_batch>},
                  .about = "Samples per rank in one forward and backward pass.",
                  .default_text = "follows from the other two, or is given by the caller",
                  .field = field<&Config::micro_batch_size>()});
  rows.push_back({.path = "gradient_accumulation_steps",
                  .type = Type::kInteger,
                  .range = {.low = 1, .high = kIntMax},
                  .nullable = true,
                  .automatic = {.fact = "accumulation", .from_facts = known<&Facts::accumulation>},
                  .about = "Micro-steps per optimizer step.",
                  .default_text = "follows from the other two, else 1",
                  .field = field<&Config::accumulation_steps>()});
  rows.push_back({.path = "managed_gradient_accumulation",
                  .type = Type::kBoolean,
                  .default_value = true,
                  .about = "false: every step() updates, whatever was accumulated, and the caller "
                           "ends the micro-steps before; the mean is still over accumulation x "
                           "ranks.",
                  .field = field<&Config::managed_accumulation>()});
}

void add_gradient_rows(std::vector<SchemaRow>& rows) {
  rows.push_back({.path = "gradient_clipping",
                  .type = Type::kNumber,
                  .default_value = 1.0,
                  .range = kFiniteFloat,
                  .automatic = {.fact = "clipping", .from_facts = known<&Facts::clipping>},
                  .about = "Largest global norm of the mean gradient; larger ones are scaled down "
                           "to it; 0 is off.",
                  .field = field<&Config::gradient_clipping>()});
  rows.push_back(no_effect("prescale_gradients", Type::kBoolean, false,
                           "DeepSpeed divides before it sums; sums here are in fp32 and need not.",
                           "gradients are summed in fp32, so nothing can overflow early"));
  rows.push_back(no_effect("gradient_predivide_factor", Type::kNumber, 1.0,
                           "Part of prescale_gradients.",
                           "gradients are summed in fp32, so nothing can overflow early",
                           {.low = 0, .high = kFloatMax, .above_low = true}));
  SchemaRow reduction = default_only("gradient_allreduce_op", Type::kWord, std::string("mean"),
                                     Effect::kResult, "Gradients are averaged over all slots.");
  reduction.words = {"mean", "sum"};
  rows.push_back(reduction);
  rows.push_back({.path = "communication_data_type",
                  .type = Type::kWord,
                  .words = {"fp32", "fp16", "bf16"},
                  .nullable = true,
                  .about = "Type that DeepSpeed sends gradients in. Here they travel in their own "
                           "type and are summed in fp32, so fp32 asks for nothing more; a type "
                           "that would round them is refused.",
                  .default_text = "the type of the gradients",
                  .field = field<&Config::communication_data_type>()});
  rows.push_back(default_only("sparse_gradients", Type::kBoolean, false, Effect::kSpeedOrMemory,
                              "Gradients of embeddings as rows; here they are dense."));
  rows.push_back(no_effect("disable_allgather", Type::kBoolean, false,
                           "DeepSpeed broadcasts instead of gathering.",
                           "parameters are gathered, with the same result"));
}

void add_type_rows(std::vector<SchemaRow>& rows) {
  const std::vector<std::string> names = {"fp32",    "fp16",     "bf16", "float32",
                                          "float16", "bfloat16", "half"};
  rows.push_back({.path = "data_types", .about = "Types of intermediate values."});
  rows.push_back({.path = "data_types.grad_accum_dtype",
                  .type = Type::kWord,
                  .words = names,
                  .nullable = true,
                  .about = "Type of the gradient a rank keeps between micro-steps; fp32 costs "
                           "bytes and is the better choice with accumulation.",
                  .default_text = "the parameter's type",
                  .field = field<&Config::grad_accum_dtype>()});
  for (const char* name : {"param_dtype", "buffer_dtype"}) {
    SchemaRow row = default_only(std::string("data_types.") + name, Type::kWord, {},
                                 Effect::kResult, "Casts the model; here its types are its own.");
    row.words = names;
    row.nullable = true;
    row.default_text = "as registered";
    rows.push_back(row);
  }
}

}  // namespace

void add_training_rows(std::vector<SchemaRow>& rows) {
  add_batch_rows(rows);
  add_gradient_rows(rows);
  add_type_rows(rows);
}

}  // namespace zero::detail
