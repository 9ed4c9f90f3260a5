#include "tests/config_probes.hpp"

#include <limits>
#include <optional>

namespace zero::config_test {
namespace {

constexpr double kNone = -7;  // an optional that is empty
template <class T>
double given(const std::optional<T>& value) {
  return value.has_value() ? static_cast<double>(*value) : kNone;
}

double listed(const std::vector<double>& values) {
  return values.size() == 2 ? values[0] + 1000 * values[1] : -1;
}
// A value of the schedule, where there is one.
double scheduled(const Config& c, double (*get)(const SchedulerSettings&)) {
  return c.scheduler ? get(*c.scheduler) : kNone;
}

}  // namespace

const std::vector<Probe>& probes() {
  static const std::string kTiny = "-1e-9";
  static const std::vector<Probe> kProbes = {
      {"train_batch_size",
       kNone,
       "24",
       24,
       {"0", "-1"},
       [](const Config& c) { return given(c.train_batch_size); }},
      {"train_micro_batch_size_per_gpu",
       kNone,
       "3",
       3,
       {"0", "-3"},
       [](const Config& c) { return given(c.micro_batch_size); }},
      {"gradient_accumulation_steps",
       kNone,
       "2147483647",
       2147483647,
       {"0", "2147483648"},
       [](const Config& c) { return given(c.accumulation_steps); }},
      {"gradient_clipping",
       1,
       "0",
       0,
       {kTiny, "1e39"},
       [](const Config& c) { return c.gradient_clipping; }},
      {"managed_gradient_accumulation",
       1,
       "false",
       0,
       {},
       [](const Config& c) { return c.managed_accumulation; }},
      {"communication_data_type",
       kNone,
       "\"bf16\"",
       2,
       {"\"int8\""},
       [](const Config& c) { return given(c.communication_data_type); }},
      {"data_types.grad_accum_dtype",
       kNone,
       "\"bf16\"",
       2,
       {"\"fp8\""},
       [](const Config& c) { return given(c.grad_accum_dtype); }},
      {"optimizer.type",
       0,
       "\"SGD\"",
       1,
       {"\"Lamb\"", "\"Nonsense\""},
       [](const Config& c) { return c.optimizer.kind == OptimizerKind::kSgd ? 1 : 0; }},
      {"optimizer.params.lr",
       1e-3,
       "0.25",
       0.25,
       {kTiny, "1e39"},
       [](const Config& c) { return c.optimizer.lr; }},
      {"optimizer.params.betas",
       0.9 + 999,
       "[0.5, 0.25]",
       250.5,
       {"[0.9, 1]", "[-0.1, 0.9]"},
       [](const Config& c) { return c.optimizer.beta1 + 1000 * c.optimizer.beta2; }},
      {"optimizer.params.eps",
       1e-8,
       "1e-3",
       1e-3,
       {kTiny},
       [](const Config& c) { return c.optimizer.eps; }},
      {"optimizer.params.weight_decay",
       0,
       "0.5",
       0.5,
       {kTiny},
       [](const Config& c) { return c.optimizer.weight_decay; }},
      {"optimizer.params.bias_correction",
       1,
       "false",
       0,
       {},
       [](const Config& c) { return c.optimizer.bias_correction; }},
      {"optimizer.params.adam_w_mode",
       1,
       "false",
       0,
       {},
       [](const Config& c) { return c.optimizer.decoupled_decay; }},
      {"scheduler.type",
       0,
       "\"WarmupLR\"",
       1,
       {"\"StepLR\"", "\"Nonsense\""},
       [](const Config& c) { return c.scheduler && c.scheduler->type == "WarmupLR" ? 1 : 0; }},
      {"scheduler.params.warmup_min_lr",
       kNone,
       "[0.5, 0.25]",
       250.5,
       {"-1", "[]", "[0.5, -1]", "1e39"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return listed(s.warmup_min_lr); });
       },
       R"({"scheduler": {"type": "WarmupLR", "params": {}}})"},
      {"scheduler.params.warmup_max_lr",
       kNone,
       "[0.5, 0.25]",
       250.5,
       {"-1", "[]", "[0.5, -1]", "1e39"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return listed(s.warmup_max_lr); });
       },
       R"({"scheduler": {"type": "WarmupLR", "params": {}}})"},
      {"scheduler.params.warmup_num_steps",
       kNone,
       "3",
       3,
       {"-1"},
       [](const Config& c) {
         return scheduled(
             c, [](const SchedulerSettings& s) { return static_cast<double>(s.warmup_num_steps); });
       },
       R"({"scheduler": {"type": "WarmupLR", "params": {}}})"},
      {"scheduler.params.warmup_type",
       kNone,
       "\"linear\"",
       1,
       {"\"cosine\""},
       [](const Config& c) {
         return scheduled(
             c, [](const SchedulerSettings& s) { return s.warmup_type == "linear" ? 1.0 : 0.0; });
       },
       R"({"scheduler": {"type": "WarmupLR", "params": {}}})"},
      {"scheduler.params.total_num_steps",
       kNone,
       "3",
       3,
       {"-1", "0"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return given(s.total_num_steps); });
       },
       R"({"scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 7}}})"},
      {"scheduler.params.warmup_min_ratio",
       kNone,
       "[0.5, 0.25]",
       250.5,
       {"-1", "[]", "[0.5, -1]", "1e39"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return listed(s.warmup_min_ratio); });
       },
       R"({"scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 7}}})"},
      {"scheduler.params.cos_min_ratio",
       kNone,
       "0.5",
       0.5,
       {"1e39", "-1"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return s.cos_min_ratio; });
       },
       R"({"scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 7}}})"},
      {"scheduler.params.cycle_min_lr",
       kNone,
       "[0.5, 0.25]",
       250.5,
       {"-1", "[]", "[0.5, -1]", "1e39"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return listed(s.cycle_min_lr); });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.cycle_max_lr",
       kNone,
       "[0.5, 0.25]",
       250.5,
       {"-1", "[]", "[0.5, -1]", "1e39"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return listed(s.cycle_max_lr); });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.cycle_first_step_size",
       kNone,
       "3",
       3,
       {"-1", "0"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) {
           return static_cast<double>(s.cycle_first_step_size);
         });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.cycle_second_step_size",
       kNone,
       "3",
       3,
       {"-1"},
       [](const Config& c) {
         return scheduled(
             c, [](const SchedulerSettings& s) { return given(s.cycle_second_step_size); });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.cycle_first_stair_count",
       kNone,
       "3",
       3,
       {"-1"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) {
           return static_cast<double>(s.cycle_first_stair_count);
         });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.cycle_second_stair_count",
       kNone,
       "3",
       3,
       {"-1"},
       [](const Config& c) {
         return scheduled(
             c, [](const SchedulerSettings& s) { return given(s.cycle_second_stair_count); });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.decay_step_size",
       kNone,
       "3",
       3,
       {"-1"},
       [](const Config& c) {
         return scheduled(
             c, [](const SchedulerSettings& s) { return static_cast<double>(s.decay_step_size); });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.decay_lr_rate",
       kNone,
       "0.5",
       0.5,
       {"1e39", "-1"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return s.decay_lr_rate; });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.cycle_momentum",
       kNone,
       "false",
       0,
       {},
       [](const Config& c) {
         return scheduled(c,
                          [](const SchedulerSettings& s) { return s.cycle_momentum ? 1.0 : 0.0; });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.cycle_min_mom",
       kNone,
       "[0.5, 0.25]",
       250.5,
       {"-1", "[]", "[0.5, -1]", "1"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return listed(s.cycle_min_mom); });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.cycle_max_mom",
       kNone,
       "[0.5, 0.25]",
       250.5,
       {"-1", "[]", "[0.5, -1]", "1"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return listed(s.cycle_max_mom); });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.decay_mom_rate",
       kNone,
       "0.5",
       0.5,
       {"1e39"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return s.decay_mom_rate; });
       },
       R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.125, "cycle_max_lr": 0.25}}})"},
      {"scheduler.params.lr_range_test_min_lr",
       kNone,
       "[0.5, 0.25]",
       250.5,
       {"-1", "[]", "[0.5, -1]", "1e39"},
       [](const Config& c) {
         return scheduled(
             c, [](const SchedulerSettings& s) { return listed(s.lr_range_test_min_lr); });
       },
       R"({"scheduler": {"type": "LRRangeTest", "params": {}}})"},
      {"scheduler.params.lr_range_test_step_size",
       kNone,
       "3",
       3,
       {"-1", "0"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) {
           return static_cast<double>(s.lr_range_test_step_size);
         });
       },
       R"({"scheduler": {"type": "LRRangeTest", "params": {}}})"},
      {"scheduler.params.lr_range_test_step_rate",
       kNone,
       "0.5",
       0.5,
       {"1e39", "-1"},
       [](const Config& c) {
         return scheduled(c, [](const SchedulerSettings& s) { return s.lr_range_test_step_rate; });
       },
       R"({"scheduler": {"type": "LRRangeTest", "params": {}}})"},
      {"scheduler.params.lr_range_test_staircase",
       kNone,
       "true",
       1,
       {},
       [](const Config& c) {
         return scheduled(
             c, [](const SchedulerSettings& s) { return s.lr_range_test_staircase ? 1.0 : 0.0; });
       },
       R"({"scheduler": {"type": "LRRangeTest", "params": {}}})"},
      {"fp16.enabled", 0, "true", 1, {}, [](const Config& c) { return given(c.fp16_enabled); }},
      {"fp16.loss_scale",
       0,
       "128",
       128,
       {"-1", "1e39"},
       [](const Config& c) { return c.loss_scale.loss_scale; }},
      {"fp16.initial_scale_power",
       16,
       "32",
       32,
       {"-1", "128"},
       [](const Config& c) { return c.loss_scale.initial_scale_power; }},
      {"fp16.loss_scale_window",
       1000,
       "5000000000",
       5e9,
       {"0"},
       [](const Config& c) { return static_cast<double>(c.loss_scale.loss_scale_window); }},
      {"fp16.hysteresis",
       2,
       "1",
       1,
       {"0", "2147483648"},
       [](const Config& c) { return c.loss_scale.hysteresis; }},
      {"fp16.consecutive_hysteresis",
       0,
       "true",
       1,
       {},
       [](const Config& c) { return c.loss_scale.consecutive_hysteresis; }},
      {"fp16.min_loss_scale",
       1,
       "0.125",
       0.125,
       {"0", "-1"},
       [](const Config& c) { return c.loss_scale.min_loss_scale; }},
      {"bf16.enabled", 0, "true", 1, {}, [](const Config& c) { return given(c.bf16_enabled); }},
      {"zero_optimization.stage",
       0,
       "3",
       3,
       {"-1", "4"},
       [](const Config& c) { return c.zero.stage; }},
      {"zero_optimization.reduce_bucket_size",
       5e8,
       "1",
       1,
       {"0", "-1"},
       [](const Config& c) { return static_cast<double>(c.zero.reduce_bucket_size); }},
      {"zero_optimization.allgather_bucket_size",
       5e8,
       "7",
       7,
       {"0", "-1"},
       [](const Config& c) { return static_cast<double>(c.zero.allgather_bucket_size); }},
      {"zero_optimization.overlap_comm",
       0,
       "true",
       1,
       {},
       [](const Config& c) { return c.zero.overlaps(); }},
      {"zero_optimization.stage3_prefetch_bucket_size",
       5e7,
       "0",
       0,
       {"-1"},
       [](const Config& c) { return static_cast<double>(c.zero.prefetch_bucket_size); }},
      {"zero_optimization.stage3_param_persistence_threshold",
       1e5,
       "0",
       0,
       {"-1"},
       [](const Config& c) { return static_cast<double>(c.zero.param_persistence_threshold); }},
      {"zero_optimization.stage3_model_persistence_threshold",
       9223372036854775807.0,
       "0",
       0,
       {"-1"},
       [](const Config& c) { return static_cast<double>(c.zero.model_persistence_threshold); }},
      {"runtime.reproducible",
       0,
       "true",
       1,
       {},
       [](const Config& c) { return c.runtime.reproducible; }},
      {"runtime.timeout_s",
       kNone,
       "0.5",
       0.5,
       {"0", "-1", "1e9"},
       [](const Config& c) { return given(c.runtime.timeout_s); }},
      {"runtime.memory_budget",
       kNone,
       "\"24GiB\"",
       24.0 * 1024 * 1024 * 1024,
       {"0", "\"0 MB\""},
       [](const Config& c) { return given(c.runtime.memory_budget); }},
      {"runtime.reserved",
       0,
       "\"1.5 GB\"",
       1.5e9,
       {"-1", "\"-1 kB\""},
       [](const Config& c) { return static_cast<double>(c.runtime.reserved); }},
      {"runtime.choose_stage",
       0,
       "true",
       1,
       {},
       [](const Config& c) { return c.runtime.choose_stage; },
       R"({"runtime": {"memory_budget": 1}})"},
  };
  return kProbes;
}

}  // namespace zero::config_test
