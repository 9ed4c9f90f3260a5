// Rows of "optimizer", "fp16" and "bf16".
#include "src/config_access.hpp"
#include "src/config_rows.hpp"

namespace zero::detail {
namespace {

using Type = ValueType;
using O = OptimizerSettings;
using S = LossScaleSettings;

std::string type_of(const O& optimizer) {
  if (optimizer.kind == OptimizerKind::kSgd) return "SGD";
  return optimizer.decoupled_decay ? "AdamW" : "Adam";
}

Value pair_of(double first, double second) { return std::vector<double>{first, second}; }

// "auto" is an empty optional.
template <auto member>
Access precision_switch() {
  return {[](Config& config, const Value& value) {
            const bool* const given = std::get_if<bool>(&value);
            config.*member = given == nullptr ? std::nullopt : std::optional<bool>(*given);
          },
          [](const Config& config) {
            const std::optional<bool>& given = config.*member;
            return given ? Value(*given) : Value(std::string("auto"));
          }};
}

template <DType dtype>
Auto follows_dtype() {
  return {
      .fact = "dtype",
      .from_facts =
          [](const Facts& facts) { return facts.dtype ? Value(*facts.dtype == dtype) : Value(); },
      .otherwise = [](const Config&) { return Value(std::string("auto")); },
      .only_auto = true};
}

void add_adam_rows(std::vector<SchemaRow>& rows) {
  const std::vector<std::string> adam = {"AdamW", "Adam"};
  rows.push_back(
      {.path = "optimizer.params.betas",
       .type = Type::kPair,
       .default_value = pair_of(0.9, 0.999),
       .range = {.low = 0, .high = 1, .below_high = true},
       .of_types = adam,
       .automatic = {.fact = "betas",
                     .from_facts =
                         [](const Facts& facts) {
                           return facts.betas ? pair_of(facts.betas->first, facts.betas->second)
                                              : Value();
                         }},
       .about = "Decay of the running mean of gradients and of their squares.",
       .field = {[](Config& c, const Value& v) {
                   const auto& betas = std::get<std::vector<double>>(v);
                   c.optimizer.beta1 = betas[0];
                   c.optimizer.beta2 = betas[1];
                 },
                 [](const Config& c) { return pair_of(c.optimizer.beta1, c.optimizer.beta2); }}});
  rows.push_back({.path = "optimizer.params.eps",
                  .type = Type::kNumber,
                  .default_value = 1e-8,
                  .range = kFiniteFloat,
                  .of_types = adam,
                  .automatic = {.fact = "eps", .from_facts = known<&Facts::eps>},
                  .about = "Added to the root of the second moment.",
                  .field = field<&Config::optimizer, &O::eps>()});
  rows.push_back({.path = "optimizer.params.bias_correction",
                  .type = Type::kBoolean,
                  .default_value = true,
                  .of_types = adam,
                  .about = "Corrects the moments for their start at zero.",
                  .field = field<&Config::optimizer, &O::bias_correction>()});
  rows.push_back({.path = "optimizer.params.adam_w_mode",
                  .type = Type::kBoolean,
                  .default_value = true,
                  .of_types = adam,
                  .about = "false: decay is added to the gradient (L2). Of type Adam only.",
                  .field = field<&Config::optimizer, &O::decoupled_decay>()});
  SchemaRow amsgrad = default_only("optimizer.params.amsgrad", Type::kBoolean, false,
                                   Effect::kResult, "Keeps the largest second moment.");
  amsgrad.of_types = adam;
  rows.push_back(amsgrad);
}

void add_sgd_rows(std::vector<SchemaRow>& rows) {
  const auto add = [&](const char* name, Type type, Value value, const char* about) {
    SchemaRow row = default_only(std::string("optimizer.params.") + name, type, std::move(value),
                                 Effect::kResult, about);
    row.of_types = {"SGD"};
    rows.push_back(row);
  };
  add("momentum", Type::kNumber, 0.0, "Momentum of SGD, which is plain here.");
  add("dampening", Type::kNumber, 0.0, "Part of momentum.");
  add("nesterov", Type::kBoolean, false, "Part of momentum.");
}

void add_loss_scale_rows(std::vector<SchemaRow>& rows) {
  rows.push_back({.path = "fp16.loss_scale",
                  .type = Type::kNumber,
                  .default_value = 0.0,
                  .range = {.low = kFloatMin, .high = kFloatMax, .or_zero = true},
                  .about = "Above 0: a fixed scale; 0: a dynamic one.",
                  .field = field<&Config::loss_scale, &S::loss_scale>()});
  rows.push_back({.path = "fp16.initial_scale_power",
                  .type = Type::kInteger,
                  .default_value = std::int64_t{16},
                  .range = {.low = 0, .high = 127},
                  .about = "The dynamic scale starts at 2 to this power.",
                  .field = field<&Config::loss_scale, &S::initial_scale_power>()});
  rows.push_back({.path = "fp16.loss_scale_window",
                  .type = Type::kInteger,
                  .default_value = std::int64_t{1000},
                  .range = kPositive,
                  .about = "Steps without overflow after which the scale doubles.",
                  .field = field<&Config::loss_scale, &S::loss_scale_window>()});
  rows.push_back({.path = "fp16.hysteresis",
                  .type = Type::kInteger,
                  .default_value = std::int64_t{2},
                  .range = {.low = 1, .high = kIntMax},
                  .about = "Overflows before the scale is halved.",
                  .field = field<&Config::loss_scale, &S::hysteresis>()});
  rows.push_back({.path = "fp16.consecutive_hysteresis",
                  .type = Type::kBoolean,
                  .default_value = false,
                  .about = "Every clean step refills the hysteresis.",
                  .field = field<&Config::loss_scale, &S::consecutive_hysteresis>()});
  rows.push_back({.path = "fp16.min_loss_scale",
                  .type = Type::kNumber,
                  .default_value = 1.0,
                  .range = {.low = kFloatMin, .high = kFloatMax},
                  .about = "The dynamic scale never falls below; an overflow there ends the run.",
                  .field = field<&Config::loss_scale, &S::min_loss_scale>()});
}

}  // namespace

void add_optimizer_rows(std::vector<SchemaRow>& rows) {
  rows.push_back({.path = "optimizer", .about = "The optimizer and its start values."});
  rows.push_back(
      {.path = "optimizer.type",
       .type = Type::kWord,
       .words = {"AdamW", "Adam", "SGD"},
       .not_built = {"Adagrad", "CPUAdam", "FusedAdam", "Lamb", "Lion", "MuAdam", "MuAdamW",
                     "MuSGD", "Muon", "OneBitAdam", "OneBitLamb", "ZeroOneAdam"},
       .required = true,
       .about = "Adam means AdamW unless adam_w_mode is false; SGD is plain.",
       .default_text = "AdamW",
       .field = {[](Config& c, const Value& v) {
                   c.optimizer.kind = std::get<std::string>(v) == "SGD" ? OptimizerKind::kSgd
                                                                        : OptimizerKind::kAdam;
                 },
                 [](const Config& c) { return Value(type_of(c.optimizer)); }}});
  rows.push_back(no_effect("optimizer.legacy_fusion", Type::kBoolean, false,
                           "Chooses between implementations in DeepSpeed.",
                           "there is one implementation here"));
  rows.push_back({.path = "optimizer.params",
                  .nullable = true,
                  .about = "Start values of every param group."});
  rows.push_back({.path = "optimizer.params.lr",
                  .type = Type::kNumber,
                  .default_value = 1e-3,
                  .range = kFiniteFloat,
                  .automatic = {.fact = "lr", .from_facts = known<&Facts::lr>},
                  .about = "Learning rate.",
                  .field = field<&Config::optimizer, &O::lr>()});
  rows.push_back({.path = "optimizer.params.weight_decay",
                  .type = Type::kNumber,
                  .default_value = 0.0,
                  .range = kFiniteFloat,
                  .automatic = {.fact = "weight_decay", .from_facts = known<&Facts::weight_decay>},
                  .about = "AdamW: p -= lr x decay x p; otherwise decay x p is added to the "
                           "gradient.",
                  .field = field<&Config::optimizer, &O::weight_decay>()});
  add_adam_rows(rows);
  add_sgd_rows(rows);
  rows.push_back(no_effect("optimizer.params.torch_adam", Type::kBoolean, false,
                           "Chooses between implementations in DeepSpeed.",
                           "there is one Adam here"));
}

void add_precision_rows(std::vector<SchemaRow>& rows) {
  rows.push_back({.path = "fp16", .about = "16-bit parameters with loss scaling."});
  rows.push_back({.path = "fp16.enabled",
                  .type = Type::kSwitch,
                  .default_value = false,
                  .follows = true,
                  .automatic = follows_dtype<DType::kFloat16>(),
                  .about = "Parameters are fp16, and the loss is scaled.",
                  .field = precision_switch<&Config::fp16_enabled>()});
  add_loss_scale_rows(rows);
  rows.push_back(no_effect("fp16.auto_cast", Type::kBoolean, false,
                           "DeepSpeed casts the inputs of the model.",
                           "inputs are the model's own business"));
  rows.push_back(no_effect("fp16.fused_mode", Type::kBoolean, true,
                           "Chooses between implementations in DeepSpeed.",
                           "the kernels are always fused"));
  rows.push_back(default_only("fp16.fp16_master_weights_and_grads", Type::kBoolean, false,
                              Effect::kResult, "Master weights here are fp32."));
  rows.push_back({.path = "bf16",
                  .old_name = "bfloat16",
                  .nullable = true,
                  .about = "16-bit parameters with the range of fp32."});
  rows.push_back({.path = "bf16.enabled",
                  .type = Type::kSwitch,
                  .default_value = false,
                  .follows = true,
                  .automatic = follows_dtype<DType::kBFloat16>(),
                  .about = "Parameters are bf16.",
                  .field = precision_switch<&Config::bf16_enabled>()});
  rows.push_back(no_effect("bf16.immediate_grad_update", Type::kBoolean, false,
                           "When DeepSpeed adds gradients up.",
                           "gradients are added up when a bucket is complete"));
  rows.push_back(no_effect("bf16.check_grad_overflow", Type::kBoolean, false,
                           "Tests gradients for infinities; here every step does, in every type.",
                           "every step tests its gradients, in every type"));
  rows.push_back(default_only("bf16.bf16_master_weights_and_grads", Type::kBoolean, false,
                              Effect::kResult, "Master weights here are fp32."));
  rows.push_back(default_only("bf16.bf16_optimizer_states", Type::kBoolean, false, Effect::kResult,
                              "Moments here are fp32."));
}

}  // namespace zero::detail
