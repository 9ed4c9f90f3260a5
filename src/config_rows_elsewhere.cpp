// Rows of what is not this library's business: reports, the model's own affairs, other kinds of
// parallelism. A file may have them; what would change the training is refused while it is enabled.
#include "src/config_rows.hpp"

namespace zero::detail {
namespace {

using Type = ValueType;

void add_report_rows(std::vector<SchemaRow>& rows) {
  const char* const silent = "the library prints nothing, the caller decides";
  rows.push_back(no_effect("steps_per_print", Type::kInteger, {}, "How often DeepSpeed prints.",
                           silent, kPositive));
  rows.back().nullable = true;
  rows.back().default_text = "never";
  for (const char* name : {"wall_clock_breakdown", "memory_breakdown", "dump_state"}) {
    rows.push_back(no_effect(name, Type::kBoolean, false, "A report of DeepSpeed.", silent));
  }
  rows.push_back(no_effect("log_level", Type::kText, {}, "How much DeepSpeed logs.", silent));
  rows.back().nullable = true;
  rows.back().default_text = "none";
  for (const char* name : {"tensorboard", "wandb", "csv_monitor", "comet", "flops_profiler",
                           "comms_logger", "timers", "autotuning"}) {
    rows.push_back(unread(name, "Reports of DeepSpeed.", "nothing is done with it here"));
  }
}

void add_model_rows(std::vector<SchemaRow>& rows) {
  const auto add = [&](const char* name, const char* about, const char* why) {
    rows.push_back(unread(name, about, why));
  };
  const char* const own = "that is the model's own business";
  const char* const caller = "that is the caller's own business";
  add("activation_checkpointing", "Recomputes activations.", own);
  add("compile", "Compiles the model.", own);
  add("hybrid_engine", "Generates text while training.", own);
  add("checkpoint", "How DeepSpeed writes its checkpoints.", "they are not read or written here");
  add("nebula", "A store for checkpoints.", "DeepSpeed's checkpoints are not written here");
  add("datastates", "A writer of checkpoints.", "DeepSpeed's checkpoints are not written here");
  add("aio", "How DeepSpeed reads and writes disks.", "nothing is offloaded to disks");
  rows.push_back(no_effect("dataloader_drop_last", Type::kBoolean, false,
                           "Drops the last, smaller batch.", caller));
  rows.push_back(no_effect("graph_harvesting", Type::kBoolean, false, "Captures graphs.", own));
  rows.push_back(no_effect("disable_python_gc", Type::kBoolean, false,
                           "Keeps Python from collecting garbage.", "there is no Python here"));
  rows.push_back(no_effect("vocabulary_size", Type::kInteger, {}, "Of the model.", own, kPositive));
  rows.back().nullable = true;
  rows.back().default_text = "none";
  rows.push_back(no_effect("zero_allow_untested_optimizer", Type::kBoolean, false,
                           "Allows other optimizers under ZeRO.",
                           "the optimizers offered here all run at every stage"));
  rows.push_back(no_effect("zero_force_ds_cpu_optimizer", Type::kBoolean, true,
                           "Which Adam runs where state is offloaded.", "there is one Adam here"));
}

void add_parallel_rows(std::vector<SchemaRow>& rows) {
  const char* const why =
      "only data parallelism is this library's business; world sizes count data-parallel ranks";
  rows.push_back(unread("tensor_parallel", "Splits layers over ranks.", why));
  rows.back().sizes = {"tp_size", "autotp_size"};
  rows.push_back(unread("pipeline", "Runs layers on different ranks.", why));
  rows.back().sizes = {"stages"};
  rows.push_back(default_only("sequence_parallel_size", Type::kInteger, std::int64_t{1},
                              Effect::kResult, "Splits sequences over ranks.", kPositive));
  rows.push_back(no_effect("seq_parallel_comm_data_type", Type::kWord, std::string("fp32"),
                           "Type of gradients between parts of a sequence.", why));
  rows.back().words = {"fp32", "fp16", "bf16"};
  rows.back().aliases = {"seq_parallel_communication_data_type"};
  rows.push_back(no_effect("use_data_before_expert_parallelism", Type::kBoolean, false,
                           "Order of ranks with experts.", why));
  rows.push_back(off_only("expert_parallel", "Spreads experts over ranks."));
}

void add_training_change_rows(std::vector<SchemaRow>& rows) {
  for (const auto& [name, about] : std::initializer_list<std::pair<const char*, const char*>>{
           {"amp", "Mixed precision of Apex."},
           {"torch_autocast", "Mixed precision of PyTorch."},
           {"curriculum_learning", "Orders the data by difficulty."},
           {"data_efficiency", "Samples and routes the data."},
           {"compression_training", "Quantises or prunes while training."},
           {"quantize_training", "Quantises while training."},
           {"weight_quantization", "Quantises weights."},
           {"progressive_layer_drop", "Leaves layers out."},
           {"eigenvalue", "Steers quantisation."},
           {"elasticity", "Chooses batch sizes by the number of ranks."}}) {
    rows.push_back(off_only(name, about));
  }
  rows.push_back(off_only("sparse_attention", "Replaces attention layers."));
  rows.back().nullable = true;
  rows.back().by_presence = true;
}

}  // namespace

void add_elsewhere_rows(std::vector<SchemaRow>& rows) {
  add_report_rows(rows);
  add_model_rows(rows);
  add_parallel_rows(rows);
  add_training_change_rows(rows);
  rows.push_back({.path = "allgather_size",
                  .type = Type::kInteger,
                  .range = kPositive,
                  .stands_for = "zero_optimization.allgather_bucket_size",
                  .stands_as = [](const Value& value) { return value; },
                  .effect = Effect::kSpeedOrMemory,
                  .about = "Old form of zero_optimization.allgather_bucket_size.",
                  .default_text = "not given"});
}

}  // namespace zero::detail
