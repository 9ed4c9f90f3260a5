// Rows of "zero_optimization".
#include "src/config_access.hpp"
#include "src/config_rows.hpp"

namespace zero::detail {
namespace {

using Type = ValueType;

constexpr std::int64_t kHalfBillion = 500'000'000;

std::int64_t square(std::int64_t h) { return h * h; }
std::int64_t ten_times(std::int64_t h) { return 10 * h; }
// int(0.9 h h), as DeepSpeed's users know it.
std::int64_t nine_tenths(std::int64_t h) {
  return static_cast<std::int64_t>(0.9 * static_cast<double>(h) * static_cast<double>(h));
}

template <std::int64_t (*size)(std::int64_t)>
Auto from_hidden_size() {
  return {.fact = "hidden_size",
          .from_facts =
              [](const Facts& facts) {
                return facts.hidden_size ? Value(size(*facts.hidden_size)) : Value();
              },
          .only_auto = true};
}

void add_zero_rows(std::vector<SchemaRow>& rows) {
  rows.push_back({.path = "zero_optimization", .about = "What is sharded, and how it moves."});
  rows.push_back({.path = "zero_optimization.stage",
                  .type = Type::kInteger,
                  .default_value = std::int64_t{0},
                  .range = {.low = 0, .high = 3},
                  .effect = Effect::kSpeedOrMemory,
                  .about = "0: nothing is sharded; 1: optimizer state; 2: gradients too; 3: "
                           "parameters too: less memory, more traffic at 3. The same bits; with "
                           "accumulation 2 and 3 add up in another order than 0 and 1, unless "
                           "runtime.reproducible.",
                  .field = field<&Config::zero, &ZeroSettings::stage>()});
  rows.push_back(
      {.path = "zero_optimization.reduce_bucket_size",
       .type = Type::kInteger,
       .default_value = kHalfBillion,
       .range = kPositive,
       .effect = Effect::kSpeedOrMemory,
       .automatic = from_hidden_size<square>(),
       .about = "Elements reduced at once; smaller holds less memory and sends more messages.",
       .field = field<&Config::zero, &ZeroSettings::reduce_bucket_size>()});
  rows.push_back(
      {.path = "zero_optimization.allgather_bucket_size",
       .type = Type::kInteger,
       .default_value = kHalfBillion,
       .range = kPositive,
       .effect = Effect::kSpeedOrMemory,
       .about = "Elements gathered at once after an update; smaller sends more messages.",
       .field = field<&Config::zero, &ZeroSettings::allgather_bucket_size>()});
  rows.push_back(
      {.path = "zero_optimization.overlap_comm",
       .type = Type::kBoolean,
       .nullable = true,
       .follows = true,
       .effect = Effect::kSpeedOrMemory,
       .about = "Communication runs beside computation, for one more bucket of memory.",
       .default_text = "true at stage 3, false below",
       .field = {field<&Config::zero, &ZeroSettings::overlap_comm>().set, [](const Config& c) {
                   // Of a stage that is still to be chosen nobody knows.
                   const bool open = c.runtime.choose_stage && !c.zero.overlap_comm;
                   return open ? Value() : Value(c.zero.overlaps());
                 }}});
  rows.push_back(no_effect("zero_optimization.reduce_scatter", Type::kBoolean, true,
                           "DeepSpeed may use all-reduce instead.",
                           "the sum is the same, and a reduce-scatter moves less"));
  rows.push_back(no_effect("zero_optimization.contiguous_gradients", Type::kBoolean, true,
                           "Gradients lie in one buffer per bucket.",
                           "gradients always lie in one buffer per bucket"));
  rows.push_back({.path = "zero_optimization.stage3_prefetch_bucket_size",
                  .type = Type::kInteger,
                  .default_value = std::int64_t{50'000'000},
                  .range = kNotNegative,
                  .aliases = {"prefetch_bucket_size"},
                  .from_stage = 3,
                  .effect = Effect::kSpeedOrMemory,
                  .automatic = from_hidden_size<nine_tenths>(),
                  .about = "Elements gathered ahead of their use; 0: none.",
                  .field = field<&Config::zero, &ZeroSettings::prefetch_bucket_size>()});
  rows.push_back({.path = "zero_optimization.stage3_param_persistence_threshold",
                  .type = Type::kInteger,
                  .default_value = std::int64_t{100'000},
                  .range = kNotNegative,
                  .aliases = {"param_persistence_threshold"},
                  .from_stage = 3,
                  .effect = Effect::kSpeedOrMemory,
                  .automatic = from_hidden_size<ten_times>(),
                  .about = "Parameters of up to so many elements stay whole on every rank.",
                  .field = field<&Config::zero, &ZeroSettings::param_persistence_threshold>()});
  rows.push_back({.path = "zero_optimization.stage3_model_persistence_threshold",
                  .type = Type::kInteger,
                  .default_value = std::numeric_limits<std::int64_t>::max(),
                  .range = kNotNegative,
                  .aliases = {"model_persistence_threshold"},
                  .from_stage = 3,
                  .effect = Effect::kSpeedOrMemory,
                  .about = "Elements that may stay whole on every rank in all.",
                  .field = field<&Config::zero, &ZeroSettings::model_persistence_threshold>()});
}

// Keys that choose between ways of DeepSpeed with the same result.
void add_idle_rows(std::vector<SchemaRow>& rows) {
  const auto add = [&](const char* name, Type type, Value value, const char* about,
                       const char* why) {
    rows.push_back(no_effect(std::string("zero_optimization.") + name, type, std::move(value),
                             about, why, type == Type::kInteger ? kNotNegative : Range()));
  };
  const auto add_stage3 = [&](const char* name, Type type, Value value, const char* about,
                              const char* why) {
    add((std::string("stage3_") + name).c_str(), type, std::move(value), about, why);
    rows.back().aliases = {name};
  };
  constexpr std::int64_t kBillion = 1'000'000'000;
  add_stage3("max_live_parameters", Type::kInteger, kBillion,
             "Elements that DeepSpeed keeps gathered at most.",
             "a unit is released when its use ends, so only what is in use and what is prefetched "
             "is whole");
  add_stage3("max_reuse_distance", Type::kInteger, kBillion,
             "DeepSpeed keeps what is used again soon.", "a unit is released when its use ends");
  add_stage3("gather_16bit_weights_on_model_save", Type::kBoolean, false,
             "Saves whole weights besides the shards.",
             "read() gives whole parameters on every rank");
  rows.back().old_name = "stage3_gather_fp16_weights_on_model_save";
  add_stage3("module_granularity_threshold", Type::kInteger, std::int64_t{0},
             "Gathers small modules together.", "the caller's units are what is gathered");
  add_stage3("use_all_reduce_for_fetch_params", Type::kBoolean, false, "Gathers by all-reduce.",
             "parameters are gathered, with the same result");
  add_stage3("allgather_sequential", Type::kBoolean, false, "Gathers one parameter at a time.",
             "a unit's buckets are gathered one after the other");
  add_stage3("partition_stream_chunk_size", Type::kInteger, std::int64_t{0},
             "Cuts large parameters in chunks.", "start values are cut bucket by bucket");
  add("sub_group_size", Type::kInteger, kBillion, "Elements updated at a time.",
      "updates run bucket by bucket, and take no memory of their own");
  add("allgather_partitions", Type::kBoolean, true, "false: broadcasts instead of a gather.",
      "parameters are gathered, with the same result");
  add("use_multi_rank_bucket_allreduce", Type::kBoolean, true, "How DeepSpeed forms buckets.",
      "buckets are one flat range for all ranks");
  add("load_from_fp32_weights", Type::kBoolean, true, "What DeepSpeed fills master weights from.",
      "master weights are saved and loaded in fp32");
  add("elastic_checkpoint", Type::kBoolean, false, "Checkpoints for another number of ranks.",
      "DeepSpeed's checkpoints are not read here");
  add("legacy_stage1", Type::kBoolean, false, "An old stage 1 of DeepSpeed.",
      "there is one stage 1 here");
  add("round_robin_gradients", Type::kBoolean, false,
      "How DeepSpeed spreads copies of gradients over ranks, at stages 1 and 2.",
      "every rank has an equal shard of every bucket");
  add("memory_efficient_linear", Type::kBoolean, true, "A linear layer of DeepSpeed.",
      "layers are the model's own");
  add("pipeline_loading_checkpoint", Type::kBoolean, false, "How DeepSpeed loads.",
      "DeepSpeed's checkpoints are not read here");
  add("override_module_apply", Type::kBoolean, true, "A hook of PyTorch.",
      "there are no PyTorch modules here");
  add("log_trace_cache_warnings", Type::kBoolean, false, "Warnings of DeepSpeed.",
      "there is no such cache here");
  add("enable_sanity_checks", Type::kBoolean, false, "Checks of DeepSpeed.",
      "ranks always compare what they do");
  add("save_muon_momentum_buffer_in_memory", Type::kBoolean, false, "Part of Muon.",
      "there is no Muon here");
  rows.push_back(unread("zero_optimization.leaf_module", "Modules that DeepSpeed gathers whole.",
                        "units are what the caller registers"));
}

// Keys that promise memory, traffic or a result that is not built.
void add_refused_rows(std::vector<SchemaRow>& rows) {
  const auto add = [&](const char* name, Type type, Value value, Effect effect, const char* about,
                       Range range = {}) {
    rows.push_back(default_only(std::string("zero_optimization.") + name, type, std::move(value),
                                effect, about, range));
  };
  add("ignore_unused_parameters", Type::kBoolean, true, Effect::kReport,
      "A parameter without gradient is left alone; false would make it an error.");
  add("zero_hpz_partition_size", Type::kInteger, std::int64_t{1}, Effect::kSpeedOrMemory,
      "A second copy of the parameters within a node (ZeRO++).", kNotNegative);
  add("zero_quantized_weights", Type::kBoolean, false, Effect::kResult,
      "Gathers quantised weights (ZeRO++).");
  add("zero_quantized_nontrainable_weights", Type::kBoolean, false, Effect::kResult,
      "Keeps quantised frozen weights (ZeRO++).");
  add("zero_quantized_gradients", Type::kBoolean, false, Effect::kResult,
      "Reduces quantised gradients (ZeRO++).");
  add("mics_shard_size", Type::kInteger, std::int64_t{-1}, Effect::kSpeedOrMemory,
      "Shards within groups of ranks (MiCS).", {.low = -1});
  add("mics_hierarchical_params_gather", Type::kBoolean, false, Effect::kSpeedOrMemory,
      "Part of MiCS.");
  for (const auto& [name, about] :
       {std::pair{"zeropp_loco_param", "Error feedback for quantised gradients (ZeRO++)."},
        std::pair{"zenflow", "Late updates on the host (ZenFlow)."}}) {
    SchemaRow row = off_only(std::string("zero_optimization.") + name, about);
    row.nullable = true;
    row.by_presence = true;
    rows.push_back(row);
  }
}

}  // namespace

void add_sharding_rows(std::vector<SchemaRow>& rows) {
  add_zero_rows(rows);
  add_idle_rows(rows);
  add_refused_rows(rows);
}

}  // namespace zero::detail
