#include "src/config_rules.hpp"

#include <algorithm>
#include <cmath>

#include "src/config_wire.hpp"
#include "zero/error.hpp"

namespace zero::detail {
namespace {

void check_precision(Reading& reading, const Config& config) {
  if (!config.fp16_enabled.value_or(false) || !config.bf16_enabled.value_or(false)) return;
  const Setting& bf16 = *reading.find("bf16.enabled");
  const Setting& fp16 = *reading.find("fp16.enabled");
  reading.problems.add(bf16.place, bf16.path,
                       concat("is true, and so is ", fp16.path, " at ", to_string(fp16.place),
                              "; parameters have one type: enable one"));
}

// "optimizer.params" and "scheduler.params" hold what the type in their section takes.
void check_params_of_type(Reading& reading, const Config& config, std::string_view section) {
  const auto& rows = config_schema();
  const Setting* type = reading.find(concat(section, ".type"));
  if (type == nullptr) return;
  std::string takes;
  for (const SchemaRow& row : rows) {
    if (row_section(row) != concat(section, ".params") || row.policy != Policy::kActs) continue;
    if (is_of_type(row, config)) takes += concat(takes.empty() ? "" : ", ", row_name(row));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::optional<Setting>& setting = reading.settings[i];
    if (row_section(rows[i]) != concat(section, ".params") || is_of_type(rows[i], config)) continue;
    if (!setting || setting->state != Setting::State::kGiven) continue;
    reading.problems.add(
        setting->place, setting->path,
        concat(std::get<std::string>(type->value), " has no such parameter; it takes ", takes));
  }
}

void check_optimizer(Reading& reading, Config& config) {
  const OptimizerSettings& optimizer = config.optimizer;
  if (!reading.settings[row_index("optimizer")].has_value()) {
    const bool told = reading.find("optimizer.params.lr") != nullptr;  // by a fact
    reading.warnings.push_back(
        {"optimizer",
         concat("no such section: AdamW with lr ", optimizer.lr, ", betas [", optimizer.beta1, ", ",
                optimizer.beta2, "], eps ", optimizer.eps, ", weight_decay ",
                optimizer.weight_decay,
                told ? std::string()
                     : concat("; a learning rate of ", optimizer.lr, " is rarely meant"))});
    return;
  }
  const Setting* type = reading.find("optimizer.type");
  if (type == nullptr) return;  // a problem already
  check_params_of_type(reading, config, "optimizer");
  const std::string& name = std::get<std::string>(type->value);
  if (optimizer.kind == OptimizerKind::kAdam && optimizer.eps == 0) {
    reading.warnings.push_back({"optimizer.params.eps",
                                "0: an element whose gradients were all 0 becomes 0 / 0, not a "
                                "number"});
  }
  if (const Setting* mode = reading.find("optimizer.params.adam_w_mode");
      name == "AdamW" && mode != nullptr && !std::get<bool>(mode->value)) {
    reading.problems.add(mode->place, mode->path,
                         "false contradicts optimizer.type AdamW; write type Adam for decay that "
                         "is added to the gradient");
  }
}

void check_loss_scale(Reading& reading, const Config& config) {
  const LossScaleSettings& fp16 = config.loss_scale;
  if (fp16.loss_scale > 0 || !config.fp16_enabled.value_or(true)) return;
  const double start = std::ldexp(1.0, fp16.initial_scale_power);
  if (fp16.min_loss_scale <= start) return;
  const Setting* culprit = reading.find("fp16.min_loss_scale");
  if (culprit == nullptr) culprit = reading.find("fp16.initial_scale_power");
  if (culprit == nullptr) return;
  reading.problems.add(
      culprit->place, culprit->path,
      concat("the smallest scale, ", fp16.min_loss_scale, ", is above the one to start with, ",
             start, " (2^initial_scale_power): an overflow would raise it"));
}

void check_scheduler(Reading& reading, Config& config) {
  const auto& section = reading.settings[row_index("scheduler")];
  if (!section.has_value() || section->state != Setting::State::kGiven) return;
  if (!config.scheduler) {
    const auto& type = reading.settings[row_index("scheduler.type")];
    const bool null = type && type->state == Setting::State::kNull;
    if (!type || (null && reading.find("scheduler.params") != nullptr)) {
      reading.warnings.push_back({"scheduler", "has no type, so rates stay as they are set"});
    }
    return;
  }
  check_params_of_type(reading, config, "scheduler");
  const std::string& type = config.scheduler->type;
  const auto is_of = [&](const SchemaRow& row) { return is_of_type(row, config); };
  const auto& rows = config_schema();
  for (const char* path : {"scheduler.params.total_num_steps", "scheduler.params.cycle_min_lr",
                           "scheduler.params.cycle_max_lr"}) {
    const std::size_t index = row_index(path);
    const std::optional<Setting>& setting = reading.settings[index];
    if (!is_of(rows[index])) continue;
    if (setting.has_value() && setting->state != Setting::State::kNull) continue;
    reading.problems.add(
        section->place, path,
        concat("is missing, and ", type, " needs it; valid: ", valid_values(rows[index])));
  }
  if (type == "OneCycle" && config.scheduler->cycle_momentum) {
    if (config.optimizer.kind == OptimizerKind::kSgd) {
      config.scheduler->cycle_momentum = false;
      reading.settings[row_index("scheduler.params.cycle_momentum")] =
          Setting{false, section->place, "scheduler.params.cycle_momentum", Setting::State::kGiven,
                  "optimizer.type SGD"};
      reading.notes.push_back(
          {"scheduler.params.cycle_momentum", "no effect: SGD has no momentum here"});
    } else {
      reading.warnings.push_back(
          {"scheduler.params.cycle_momentum",
           "optimizer.params.betas are replaced: beta1 by the cycle, beta2 by 0.99, as DeepSpeed "
           "does; write false to keep them"});
    }
  }
  const SchedulerSettings& s = *config.scheduler;
  if (is_of(rows[row_index("scheduler.params.total_num_steps")]) && s.total_num_steps &&
      *s.total_num_steps < std::max<std::int64_t>(2, s.warmup_num_steps)) {
    reading.warnings.push_back(
        {"scheduler.params.total_num_steps",
         concat(*s.total_num_steps, " is less than warmup_num_steps, ", s.warmup_num_steps,
                ": the warm-up is longer than the training")});
  }
  for (const char* rate : {"scheduler.params.decay_lr_rate", "scheduler.params.decay_mom_rate"}) {
    const Setting* given = reading.find(rate);
    if (s.decay_step_size == 0 && given != nullptr && given->value != Value(0.0)) {
      reading.notes.push_back({given->path, "no effect: decay_step_size is 0"});
    }
  }
}

// One line for all of them: they are one mistake.
void note_unused_fp16(Reading& reading, const Config& config) {
  if (config.fp16_enabled.value_or(true)) return;
  std::string keys;
  for (std::size_t i = 0; i < reading.settings.size(); ++i) {
    const std::optional<Setting>& setting = reading.settings[i];
    const SchemaRow& row = config_schema()[i];
    if (row_section(row) != "fp16" || row.policy != Policy::kActs) continue;
    if (row_name(row) == "enabled" || !setting || setting->state != Setting::State::kGiven) {
      continue;
    }
    keys += concat(keys.empty() ? "" : ", ", row_name(row));
  }
  if (keys.empty()) return;
  reading.notes.push_back({"fp16", concat(keys, ": no effect: fp16 is not enabled")});
}

// Notes on keys that are given and do nothing.
void note_idle_keys(Reading& reading, const Config& config) {
  const auto& rows = config_schema();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SchemaRow& row = rows[i];
    const std::optional<Setting>& setting = reading.settings[i];
    if (!setting.has_value() || setting->state != Setting::State::kGiven) continue;
    if (row.from_stage > config.zero.stage && !config.runtime.choose_stage) {
      reading.notes.push_back({setting->path,
                               concat("no effect at stage ", config.zero.stage,
                                      ": it belongs to stage ", row.from_stage),
                               true});
    }
    const bool asks = row.policy == Policy::kNoEffect && setting->value != row.default_value;
    if (asks && is_value(row)) {
      reading.notes.push_back(
          {setting->path, concat(value_text(row, setting->value), ": no effect: ", row.why)});
    }
  }
}

// On the host device everything is in host memory anyway; elsewhere offloading is real work.
void check_offload(const Facts& facts, Reading& reading) {
  if (facts.device == DeviceKind::kHost) return;
  for (const char* path :
       {"zero_optimization.offload_optimizer.device", "zero_optimization.offload_param.device"}) {
    const Setting* device = reading.find(path);
    if (device == nullptr || device->value == Value(std::string("none"))) continue;
    reading.problems.add(device->place, device->path,
                         concat(value_text(config_schema()[row_index(path)], device->value),
                                ": offloading is not built here; valid on this device: "
                                "\"none\""));
  }
}

void check_communication_type(const Facts& facts, Reading& reading, const Config& config) {
  const Setting* type = reading.find("communication_data_type");
  if (type == nullptr) return;
  const DType wire = *config.communication_data_type;
  if (wire == DType::kFloat32) {
    reading.notes.push_back({type->path, "sums are in fp32 whatever gradients travel in"});
    return;
  }
  std::optional<DType> params = facts.dtype;
  if (config.bf16_enabled.value_or(false)) params = DType::kBFloat16;
  if (config.fp16_enabled.value_or(false)) params = DType::kFloat16;
  if (config.grad_accum_dtype) params = params.value_or(*config.grad_accum_dtype);
  if (!params) return;  // the registered parameters will tell
  const std::string refusal = wire_refusal(config, *params);
  if (!refusal.empty()) reading.problems.add(type->place, type->path, refusal);
}

void check_budget(Reading& reading, const Config& config) {
  const RuntimeSettings& runtime = config.runtime;
  if (const Setting* reserved = reading.find("runtime.reserved")) {
    if (!runtime.memory_budget) {
      reading.notes.push_back({reserved->path, "no effect without runtime.memory_budget"});
    } else if (runtime.reserved >= *runtime.memory_budget) {
      reading.problems.add(reserved->place, reserved->path,
                           concat(runtime.reserved, " bytes leave nothing of the budget of ",
                                  *runtime.memory_budget));
    }
  }
  if (!config.runtime.choose_stage) return;
  if (!config.runtime.memory_budget) {
    const Setting& choose = *reading.find("runtime.choose_stage");
    reading.problems.add(choose.place, choose.path,
                         "needs a budget to choose by: give runtime.memory_budget, e.g. \"24GiB\"");
  }
  if (const Setting* stage = reading.find("zero_optimization.stage")) {
    reading.notes.push_back({stage->path, "no effect: runtime.choose_stage chooses the stage"});
  }
}

void check_reduction(Reading& reading, const Config& config) {
  if (!config.runtime.nccl_reduction) return;
  // Of no effect where sums are in fp32; sums of NCCL's own would have to follow them.
  const Setting* const prescale = reading.find("prescale_gradients");
  if (prescale != nullptr && std::get<bool>(prescale->value)) {
    reading.problems.add(prescale->place, prescale->path,
                         "is not built for runtime.nccl_reduction, whose sums would need it: use "
                         "one of the two (sums of the runtime's own are in fp32)");
  }
  if (!config.runtime.reproducible) return;
  const Setting& by_nccl = *reading.find("runtime.nccl_reduction");
  reading.problems.add(by_nccl.place, by_nccl.path,
                       "is true, and so is runtime.reproducible, whose sums have an order; NCCL's "
                       "own have none: enable one");
}

void check_required(Reading& reading) {
  const auto& rows = config_schema();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SchemaRow& row = rows[i];
    // A required key that was refused is no missing one.
    if (!row.required || reading.settings[i].has_value()) continue;
    const auto& section = reading.settings[row_index(row_section(row))];
    if (!section.has_value() || section->state != Setting::State::kGiven) continue;
    reading.problems.add(section->place, row.path,
                         "is missing in its section; valid: " + valid_values(row));
  }
}

}  // namespace

void check_rules(const Facts& facts, Reading& reading, Config& config) {
  // A value that was refused is no missing one.
  if (const auto& clipping = reading.settings[row_index("gradient_clipping")]; !clipping) {
    reading.warnings.push_back(
        {"gradient_clipping", concat("not given: gradients are clipped to a norm of ",
                                     config.gradient_clipping, "; write 0 for none")});
  }
  check_required(reading);
  check_precision(reading, config);
  check_optimizer(reading, config);
  check_scheduler(reading, config);
  check_loss_scale(reading, config);
  check_budget(reading, config);
  check_reduction(reading, config);
  check_communication_type(facts, reading, config);
  check_offload(facts, reading);
  note_unused_fp16(reading, config);
  note_idle_keys(reading, config);
}

}  // namespace zero::detail
