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
                  .set = [](Config& c, const Value& v) { c.train_batch_size = integer(v); }});
  rows.push_back({.path = "train_micro_batch_size_per_gpu",
                  .type = Type::kInteger,
                  .range = kPositive,
                  .nullable = true,
                  .about = "Samples per rank in one forward and backward pass.",
                  .default_text = "follows from the other two, or is given by the caller",
                  .set = [](Config& c, const Value& v) { c.micro_batch_size = integer(v); }});
  rows.push_back({.path = "gradient_accumulation_steps",
                  .type = Type::kInteger,
                  .range = {.low = 1, .high = kIntMax},
                  .nullable = true,
                  .about = "Micro-steps per optimizer step.",
                  .default_text = "follows from the other two, else 1",
                  .set = [](Config& c, const Value& v) { c.accumulation_steps = integer(v); }});
}

void add_gradient_rows(std::vector<SchemaRow>& rows) {
  rows.push_back({.path = "gradient_clipping",
                  .type = Type::kNumber,
                  .default_value = 1.0,
                  .range = kFiniteFloat,
                  .about = "Largest global norm of the mean gradient; larger ones are scaled down "
                           "to it; 0 is off.",
                  .set = [](Config& c, const Value& v) { c.gradient_clipping = number(v); }});
  rows.push_back(
      {.path = "prescale_gradients",
       .type = Type::kBoolean,
       .default_value = false,
       .effect = Effect::kReport,
       .about = "DeepSpeed divides before it sums; sums here are in fp32 and need not.",
       .note = "no effect: gradients are summed in fp32, so nothing can overflow early"});
  rows.push_back(
      {.path = "gradient_predivide_factor",
       .type = Type::kNumber,
       .default_value = 1.0,
       .range = {.low = 0, .high = kFloatMax, .above_low = true},
       .effect = Effect::kReport,
       .about = "Part of prescale_gradients; no effect here.",
       .note = "no effect: gradients are summed in fp32, so nothing can overflow early"});
  rows.push_back({.path = "data_types", .about = "Types of intermediate values."});
  rows.push_back(
      {.path = "data_types.grad_accum_dtype",
       .type = Type::kWord,
       .words = {"fp32", "fp16", "bf16", "float32", "float16", "bfloat16", "half"},
       .nullable = true,
       .about = "Type of the gradient a rank keeps between micro-steps; fp32 costs bytes and is "
                "the better choice with accumulation.",
       .default_text = "the parameter's type",
       .set = [](Config& c, const Value& v) { c.grad_accum_dtype = dtype_from_name(word(v)); }});
}

void add_report_rows(std::vector<SchemaRow>& rows) {
  rows.push_back({.path = "steps_per_print",
                  .type = Type::kInteger,
                  .default_value = std::int64_t{10},
                  .range = kPositive,
                  .nullable = true,
                  .effect = Effect::kReport,
                  .about = "How often DeepSpeed prints; no effect here.",
                  .note = "no effect: the library prints nothing, the caller decides"});
  rows.push_back({.path = "wall_clock_breakdown",
                  .type = Type::kBoolean,
                  .default_value = false,
                  .effect = Effect::kReport,
                  .about = "Timers of DeepSpeed; no effect here.",
                  .note = "no effect: the library prints no timings"});
}

void add_optimizer_rows(std::vector<SchemaRow>& rows) {
  rows.push_back({.path = "optimizer", .about = "The optimizer and its start values."});
  rows.push_back({.path = "optimizer.type",
                  .type = Type::kWord,
                  .words = {"AdamW", "Adam", "SGD"},
                  .not_built = {"Adagrad", "CPUAdam", "FusedAdam", "Lamb", "Lion", "Muon",
                                "OneBitAdam", "OneBitLamb", "ZeroOneAdam"},
                  .required = true,
                  .about = "Adam means AdamW unless adam_w_mode is false; SGD is plain.",
                  .default_text = "AdamW",
                  .set = [](Config& c, const Value& v) {
                    c.optimizer.kind =
                        word(v) == "SGD" ? OptimizerKind::kSgd : OptimizerKind::kAdam;
                  }});
  rows.push_back({.path = "optimizer.params", .about = "Start values of every param group."});
  rows.push_back({.path = "optimizer.params.lr",
                  .type = Type::kNumber,
                  .default_value = 1e-3,
                  .range = kFiniteFloat,
                  .about = "Learning rate.",
                  .set = [](Config& c, const Value& v) { c.optimizer.lr = number(v); }});
  rows.push_back({.path = "optimizer.params.betas",
                  .type = Type::kPair,
                  .default_value = std::vector<double>{0.9, 0.999},
                  .range = {.low = 0, .high = 1, .below_high = true},
                  .about = "Decay of the running mean of gradients and of their squares.",
                  .set = [](Config& c, const Value& v) {
                    c.optimizer.beta1 = pair(v)[0];
                    c.optimizer.beta2 = pair(v)[1];
                  }});
  rows.push_back({.path = "optimizer.params.eps",
                  .type = Type::kNumber,
                  .default_value = 1e-8,
                  .range = kFiniteFloat,
                  .about = "Added to the root of the second moment.",
                  .set = [](Config& c, const Value& v) { c.optimizer.eps = number(v); }});
  rows.push_back({.path = "optimizer.params.weight_decay",
                  .type = Type::kNumber,
                  .default_value = 0.0,
                  .range = kFiniteFloat,
                  .about = "AdamW: p -= lr x decay x p; otherwise decay x p is added to the "
                           "gradient.",
                  .set = [](Config& c, const Value& v) { c.optimizer.weight_decay = number(v); }});
  rows.push_back(
      {.path = "optimizer.params.bias_correction",
       .type = Type::kBoolean,
       .default_value = true,
       .about = "Corrects the moments for their start at zero.",
       .set = [](Config& c, const Value& v) { c.optimizer.bias_correction = boolean(v); }});
  rows.push_back(
      {.path = "optimizer.params.adam_w_mode",
       .type = Type::kBoolean,
       .default_value = true,
       .about = "false: decay is added to the gradient (L2). Of type Adam only.",
       .set = [](Config& c, const Value& v) { c.optimizer.decoupled_decay = boolean(v); }});
  rows.push_back({.path = "optimizer.params.torch_adam",
                  .type = Type::kBoolean,
                  .default_value = false,
                  .effect = Effect::kReport,
                  .about = "Chooses between implementations in DeepSpeed; no effect here.",
                  .note = "no effect: there is one Adam here"});
}

void add_precision_rows(std::vector<SchemaRow>& rows) {
  rows.push_back({.path = "fp16", .about = "16-bit parameters with loss scaling."});
  rows.push_back({.path = "fp16.enabled",
                  .type = Type::kBoolean,
                  .about = "Parameters are fp16.",
                  .default_text = "follows the parameters",
                  .set = [](Config& c, const Value& v) { c.fp16_enabled = boolean(v); }});
  rows.push_back({.path = "fp16.loss_scale",
                  .type = Type::kNumber,
                  .default_value = 0.0,
                  .range = {.low = kFloatMin, .high = kFloatMax, .or_zero = true},
                  .about = "Above 0: a fixed scale; 0: a dynamic one.",
                  .set = [](Config& c, const Value& v) { c.loss_scale.loss_scale = number(v); }});
  rows.push_back(
      {.path = "fp16.initial_scale_power",
       .type = Type::kInteger,
       .default_value = std::int64_t{16},
       .range = {.low = 0, .high = 127},
       .about = "The dynamic scale starts at 2 to this power.",
       .set = [](Config& c, const Value& v) { c.loss_scale.initial_scale_power = small(v); }});
  rows.push_back(
      {.path = "fp16.loss_scale_window",
       .type = Type::kInteger,
       .default_value = std::int64_t{1000},
       .range = kPositive,
       .about = "Steps without overflow after which the scale doubles.",
       .set = [](Config& c, const Value& v) { c.loss_scale.loss_scale_window = integer(v); }});
  rows.push_back({.path = "fp16.hysteresis",
                  .type = Type::kInteger,
                  .default_value = std::int64_t{2},
                  .range = {.low = 1, .high = kIntMax},
                  .about = "Overflows before the scale is halved.",
                  .set = [](Config& c, const Value& v) { c.loss_scale.hysteresis = small(v); }});
  rows.push_back(
      {.path = "fp16.consecutive_hysteresis",
       .type = Type::kBoolean,
       .default_value = false,
       .about = "Every clean step refills the hysteresis.",
       .set = [](Config& c, const Value& v) { c.loss_scale.consecutive_hysteresis = boolean(v); }});
  rows.push_back(
      {.path = "fp16.min_loss_scale",
       .type = Type::kNumber,
       .default_value = 1.0,
       .range = {.low = kFloatMin, .high = kFloatMax},
       .about = "The dynamic scale never falls below; an overflow there ends the run.",
       .set = [](Config& c, const Value& v) { c.loss_scale.min_loss_scale = number(v); }});
  rows.push_back({.path = "bf16",
                  .old_name = "bfloat16",
                  .about = "16-bit parameters with the range of fp32."});
  rows.push_back({.path = "bf16.enabled",
                  .type = Type::kBoolean,
                  .about = "Parameters are bf16.",
                  .default_text = "follows the parameters",
                  .set = [](Config& c, const Value& v) { c.bf16_enabled = boolean(v); }});
}

}  // namespace

void add_training_rows(std::vector<SchemaRow>& rows) {
  add_batch_rows(rows);
  add_gradient_rows(rows);
  add_report_rows(rows);
  add_optimizer_rows(rows);
  add_precision_rows(rows);
}

}  // namespace zero::detail
