#include <algorithm>
#include <cmath>

#include "src/config_reader.hpp"
#include "zero/error.hpp"

namespace zero::detail {
namespace {

void check_precision(Reading& reading, const Config& config) {
  if (!config.fp16_enabled.value_or(false) || !config.bf16_enabled.value_or(false)) return;
  const Setting& bf16 = *reading.find("bf16.enabled");
  reading.problems.add(bf16.place, bf16.path,
                       "bf16 and fp16 are both enabled; parameters have one type: enable one");
}

void check_optimizer(Reading& reading, Config& config) {
  const OptimizerSettings& optimizer = config.optimizer;
  if (!reading.settings[row_index("optimizer")].has_value()) {
    reading.warnings.push_back(
        concat("optimizer: no such section: AdamW with lr ", optimizer.lr, ", betas [",
               optimizer.beta1, ", ", optimizer.beta2, "], eps ", optimizer.eps, ", weight_decay ",
               optimizer.weight_decay, "; a learning rate of ", optimizer.lr, " is rarely meant"));
    return;
  }
  const Setting* type = reading.find("optimizer.type");
  if (type == nullptr) return;  // a problem already
  const std::string& name = std::get<std::string>(type->value);
  if (optimizer.kind == OptimizerKind::kSgd) {
    for (const char* path : {"optimizer.params.betas", "optimizer.params.eps",
                             "optimizer.params.bias_correction", "optimizer.params.adam_w_mode"}) {
      if (const Setting* setting = reading.find(path)) {
        reading.problems.add(setting->place, setting->path,
                             "SGD has no such parameter; it takes lr and weight_decay. Remove it, "
                             "or choose optimizer.type Adam or AdamW");
      }
    }
  } else if (const Setting* mode = reading.find("optimizer.params.adam_w_mode");
             name == "AdamW" && mode != nullptr && !std::get<bool>(mode->value)) {
    reading.problems.add(mode->place, mode->path,
                         "false contradicts optimizer.type AdamW; write type Adam for decay that "
                         "is added to the gradient");
  }
}

void check_loss_scale(Reading& reading, const Config& config) {
  const LossScaleSettings& fp16 = config.loss_scale;
  if (fp16.loss_scale > 0) return;
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
    if (!reading.settings[row_index("scheduler.type")].has_value()) {
      reading.warnings.push_back("scheduler: has no type, so rates stay as they are set");
    }
    return;
  }
  const std::string& type = config.scheduler->type;
  const auto is_of = [&](const SchemaRow& row) {
    return std::find(row.of_types.begin(), row.of_types.end(), type) != row.of_types.end();
  };
  const auto& rows = config_schema();
  std::string takes;
  for (const SchemaRow& row : rows) {
    if (is_of(row)) takes += concat(takes.empty() ? "" : ", ", row_name(row));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::optional<Setting>& setting = reading.settings[i];
    if (rows[i].of_types.empty() || is_of(rows[i]) || !setting.has_value()) continue;
    if (setting->state != Setting::State::kGiven) continue;
    reading.problems.add(setting->place, setting->path,
                         concat(type, " has no such parameter; it takes ", takes));
  }
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
      reading.warnings.push_back(
          "scheduler.params.cycle_momentum: no effect: SGD has no momentum here");
    } else {
      reading.warnings.push_back(
          "scheduler.params.cycle_momentum: optimizer.params.betas are replaced: beta1 by the "
          "cycle, beta2 by 0.99, as DeepSpeed does; write false to keep them");
    }
  }
  const SchedulerSettings& s = *config.scheduler;
  if (is_of(rows[row_index("scheduler.params.total_num_steps")]) && s.total_num_steps &&
      *s.total_num_steps < std::max<std::int64_t>(2, s.warmup_num_steps)) {
    reading.warnings.push_back(concat("scheduler.params.total_num_steps: ", *s.total_num_steps,
                                      " is less than warmup_num_steps, ", s.warmup_num_steps,
                                      ": the warm-up is longer than the training"));
  }
  if (s.decay_step_size == 0 && (s.decay_lr_rate != 0 || s.decay_mom_rate != 0)) {
    reading.warnings.push_back(
        "scheduler.params.decay_lr_rate, decay_mom_rate: no effect: decay_step_size is 0");
  }
}

// One line for all of them: they are one mistake.
void note_unused_fp16(Reading& reading, const Config& config) {
  if (config.fp16_enabled.value_or(false)) return;
  std::string keys;
  for (std::size_t i = 0; i < reading.settings.size(); ++i) {
    const std::optional<Setting>& setting = reading.settings[i];
    const SchemaRow& row = config_schema()[i];
    if (row_section(row) != "fp16" || row_name(row) == "enabled") continue;
    if (!setting.has_value() || setting->state != Setting::State::kGiven) continue;
    keys += (keys.empty() ? "" : ", ") + setting->path;
  }
  if (keys.empty()) return;
  reading.warnings.push_back(keys + ": no effect: fp16.enabled is " +
                             (config.fp16_enabled.has_value() ? "false" : "not given"));
}

// Notes on keys that are given and do nothing.
void note_idle_keys(Reading& reading, const Config& config) {
  const auto& rows = config_schema();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SchemaRow& row = rows[i];
    const std::optional<Setting>& setting = reading.settings[i];
    if (!setting.has_value() || setting->state != Setting::State::kGiven) continue;
    if (row.from_stage > config.zero.stage && !config.runtime.choose_stage) {
      reading.warnings.push_back(concat(setting->path, ": no effect at stage ", config.zero.stage,
                                        ": it belongs to stage ", row.from_stage));
    }
    if (!row.note.empty() && setting->value != row.default_value) {
      reading.warnings.push_back(
          concat(setting->path, " ", value_text(setting->value), ": ", row.note));
    }
  }
}

void check_budget(Reading& reading, const Config& config) {
  const RuntimeSettings& runtime = config.runtime;
  if (const Setting* reserved = reading.find("runtime.reserved")) {
    if (!runtime.memory_budget) {
      reading.warnings.push_back(reserved->path + ": no effect without runtime.memory_budget");
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
    reading.warnings.push_back(
        concat(stage->path, ": no effect: runtime.choose_stage chooses the stage"));
  }
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

void check_rules(Reading& reading, Config& config) {
  if (const Setting* clipping = reading.find("gradient_clipping"); clipping == nullptr) {
    reading.warnings.push_back(
        concat("gradient_clipping: not given: gradients are clipped to a norm of ",
               config.gradient_clipping, "; write 0 for none"));
  }
  check_required(reading);
  check_precision(reading, config);
  check_optimizer(reading, config);
  check_scheduler(reading, config);
  check_loss_scale(reading, config);
  check_budget(reading, config);
  note_unused_fp16(reading, config);
  note_idle_keys(reading, config);
}

}  // namespace zero::detail
