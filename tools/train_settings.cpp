// The configuration in force, written from the values that the library is given.
#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <vector>

#include "tools/train_options.hpp"
#include "zero/dtype.hpp"
#include "zero/world.hpp"

namespace train {

namespace {

std::string text(bool value) { return value ? "true" : "false"; }
std::string text(std::int64_t value) { return std::to_string(value); }
std::string text(int value) { return std::to_string(value); }
std::string text(double value) {
  std::array<char, 32> digits;
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
}

std::string text(const std::vector<double>& values) {
  std::string list;
  for (const double value : values) list += (list.empty() ? "" : ", ") + text(value);
  return "[" + list + "]";
}

// Indented like a file; a key of an object, or an object, a line.
class Writer {
 public:
  void open(const std::string& key) {
    line(key.empty() ? "{" : '"' + key + "\": {");
    indent_ += 2;
    first_ = true;
  }
  void close() {
    indent_ -= 2;
    out_ += "\n" + std::string(indent_, ' ') + "}";
    first_ = false;
  }
  void raw(const std::string& key, const std::string& value) {
    line('"' + key + "\": " + value);
    first_ = false;
  }
  template <class T>
  void put(const std::string& key, const T& value) {
    raw(key, text(value));
  }
  template <class T>
  void put(const std::string& key, const std::optional<T>& value) {
    raw(key, value ? text(*value) : "null");
  }
  const std::string& str() const { return out_; }

 private:
  void line(const std::string& content) {
    if (!out_.empty()) out_ += (first_ ? "\n" : ",\n") + std::string(indent_, ' ');
    out_ += content;
  }

  std::string out_;
  std::size_t indent_ = 0;
  bool first_ = true;
};

void write_optimizer(const zero::OptimizerSettings& o, Writer& w) {
  const bool adam = o.kind == zero::OptimizerKind::kAdam;
  w.open("optimizer");
  w.raw("type", !adam ? "\"SGD\"" : o.decoupled_decay ? "\"AdamW\"" : "\"Adam\"");
  w.open("params");
  w.put("lr", o.lr);
  w.put("weight_decay", o.weight_decay);
  if (adam) {
    w.raw("betas", "[" + text(o.beta1) + ", " + text(o.beta2) + "]");
    w.put("eps", o.eps);
    w.put("bias_correction", o.bias_correction);
    w.put("adam_w_mode", o.decoupled_decay);
  }
  w.close();
  w.close();
}

void write_scheduler(const zero::SchedulerSettings& s, Writer& w) {
  const auto is = [&](std::initializer_list<const char*> types) {
    return std::any_of(types.begin(), types.end(), [&](const char* t) { return s.type == t; });
  };
  w.open("scheduler");
  w.raw("type", '"' + s.type + '"');
  w.open("params");
  if (is({"WarmupLR", "WarmupDecayLR"})) {
    w.put("warmup_min_lr", s.warmup_min_lr);
    w.raw("warmup_max_lr", s.warmup_max_lr.empty() ? "null" : text(s.warmup_max_lr));
  }
  if (is({"WarmupLR", "WarmupDecayLR", "WarmupCosineLR"})) {
    w.put("warmup_num_steps", s.warmup_num_steps);
    w.raw("warmup_type", '"' + s.warmup_type + '"');
  }
  if (is({"WarmupDecayLR", "WarmupCosineLR"})) {
    w.put("total_num_steps", s.total_num_steps);
  }
  if (is({"WarmupCosineLR"})) {
    w.put("warmup_min_ratio", s.warmup_min_ratio);
    w.put("cos_min_ratio", s.cos_min_ratio);
  }
  if (is({"OneCycle"})) {
    w.put("cycle_min_lr", s.cycle_min_lr);
    w.put("cycle_max_lr", s.cycle_max_lr);
    w.put("cycle_first_step_size", s.cycle_first_step_size);
    w.put("cycle_second_step_size", s.cycle_second_step_size);
    w.put("cycle_first_stair_count", s.cycle_first_stair_count);
    w.put("cycle_second_stair_count", s.cycle_second_stair_count);
    w.put("decay_step_size", s.decay_step_size);
    w.put("decay_lr_rate", s.decay_lr_rate);
    w.put("cycle_momentum", s.cycle_momentum);
    w.put("cycle_min_mom", s.cycle_min_mom);
    w.put("cycle_max_mom", s.cycle_max_mom);
    w.put("decay_mom_rate", s.decay_mom_rate);
  }
  if (is({"LRRangeTest"})) {
    w.put("lr_range_test_min_lr", s.lr_range_test_min_lr);
    w.put("lr_range_test_step_size", s.lr_range_test_step_size);
    w.put("lr_range_test_step_rate", s.lr_range_test_step_rate);
    w.put("lr_range_test_staircase", s.lr_range_test_staircase);
  }
  w.close();
  w.close();
}

void write_precision(const zero::Config& config, Writer& w) {
  const bool fp16 = config.fp16_enabled.value_or(false);
  w.open("fp16");
  w.put("enabled", fp16);
  if (fp16) {
    const zero::LossScaleSettings& s = config.loss_scale;
    w.put("loss_scale", s.loss_scale);
    w.put("initial_scale_power", s.initial_scale_power);
    w.put("loss_scale_window", s.loss_scale_window);
    w.put("hysteresis", s.hysteresis);
    w.put("consecutive_hysteresis", s.consecutive_hysteresis);
    w.put("min_loss_scale", s.min_loss_scale);
  }
  w.close();
  w.open("bf16");
  w.put("enabled", config.bf16_enabled.value_or(false));
  w.close();
  w.open("data_types");
  const auto dtype = config.grad_accum_dtype;
  w.raw("grad_accum_dtype",
        dtype ? '"' + std::string(zero::dtype_name(*dtype)) + '"' : std::string("null"));
  w.close();
}

void write_zero(const zero::Config& config, Writer& w) {
  const zero::ZeroSettings& z = config.zero;
  w.open("zero_optimization");
  w.put("stage", z.stage);
  w.put("reduce_bucket_size", z.reduce_bucket_size);
  w.put("allgather_bucket_size", z.allgather_bucket_size);
  w.put("overlap_comm", z.overlaps());
  if (z.stage == 3 || config.runtime.choose_stage) {
    w.put("stage3_prefetch_bucket_size", z.prefetch_bucket_size);
    w.put("stage3_param_persistence_threshold", z.param_persistence_threshold);
    w.put("stage3_model_persistence_threshold", z.model_persistence_threshold);
  }
  w.close();
}

void write_runtime(const zero::RuntimeSettings& r, Writer& w) {
  w.open("runtime");
  w.put("reproducible", r.reproducible);
  w.put("timeout_s", r.timeout_s.value_or(zero::RunOptions{}.timeout.count()));
  w.put("memory_budget", r.memory_budget);
  w.put("reserved", r.reserved);
  w.put("choose_stage", r.choose_stage);
  w.close();
}

}  // namespace

std::string settings_in_force(const zero::Config& config) {
  Writer w;
  w.open("");
  w.put("train_batch_size", config.train_batch_size);
  w.put("train_micro_batch_size_per_gpu", config.micro_batch_size);
  w.put("gradient_accumulation_steps", config.accumulation_steps);
  w.put("gradient_clipping", config.gradient_clipping);
  write_optimizer(config.optimizer, w);
  if (config.scheduler) write_scheduler(*config.scheduler, w);
  write_precision(config, w);
  write_zero(config, w);
  write_runtime(config.runtime, w);
  w.close();
  return w.str();
}

}  // namespace train
