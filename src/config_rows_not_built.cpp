#include "src/config_rows.hpp"

namespace zero::detail {
namespace {

struct KnownKeys {
  std::string section;
  std::vector<std::string> names;
};

// Keys of DeepSpeed 0.19 that this version refuses by name, rather than as typing errors.
const std::vector<KnownKeys>& known_keys() {
  static const std::vector<KnownKeys> kKeys = {
      {"",
       {"amp",
        "torch_autocast",
        "communication_data_type",
        "seq_parallel_communication_data_type",
        "sparse_gradients",
        "disable_allgather",
        "dump_state",
        "memory_breakdown",
        "zero_allow_untested_optimizer",
        "zero_force_ds_cpu_optimizer",
        "tensorboard",
        "wandb",
        "csv_monitor",
        "comet",
        "flops_profiler",
        "comms_logger",
        "timers",
        "autotuning",
        "activation_checkpointing",
        "pipeline",
        "tensor_parallel",
        "sequence_parallel_size",
        "checkpoint",
        "data_efficiency",
        "curriculum_learning",
        "compression_training",
        "quantize_training",
        "weight_quantization",
        "progressive_layer_drop",
        "sparse_attention",
        "eigenvalue",
        "elasticity",
        "aio",
        "nebula",
        "hybrid_engine",
        "dataloader_drop_last",
        "use_data_before_expert_parallelism",
        "graph_harvesting",
        "compile",
        "zenflow"}},
      {"optimizer", {"legacy_fusion"}},
      {"optimizer.params", {"amsgrad", "momentum", "nesterov", "dampening"}},
      {"fp16", {"auto_cast", "fp16_master_weights_and_grads"}},
      {"bf16",
       {"immediate_grad_update", "check_grad_overflow", "bf16_master_weights_and_grads",
        "bf16_optimizer_states"}},
      {"zero_optimization",
       {"allgather_partitions",
        "use_multi_rank_bucket_allreduce",
        "load_from_fp32_weights",
        "elastic_checkpoint",
        "sub_group_size",
        "cpu_offload",
        "cpu_offload_param",
        "cpu_offload_use_pin_memory",
        "stage3_max_live_parameters",
        "stage3_max_reuse_distance",
        "max_live_parameters",
        "max_reuse_distance",
        "stage3_gather_16bit_weights_on_model_save",
        "gather_16bit_weights_on_model_save",
        "stage3_gather_fp16_weights_on_model_save",
        "stage3_module_granularity_threshold",
        "module_granularity_threshold",
        "use_all_reduce_for_fetch_params",
        "ignore_unused_parameters",
        "legacy_stage1",
        "round_robin_gradients",
        "zero_hpz_partition_size",
        "zero_quantized_weights",
        "zero_quantized_nontrainable_weights",
        "zero_quantized_gradients",
        "zeropp_loco_param",
        "mics_shard_size",
        "mics_hierarchical_params_gather",
        "memory_efficient_linear",
        "pipeline_loading_checkpoint",
        "override_module_apply",
        "log_trace_cache_warnings",
        "enable_sanity_checks",
        "zenflow",
        "save_muon_momentum_buffer_in_memory"}},
      {"zero_optimization.offload_optimizer",
       {"nvme_path", "buffer_count", "pin_memory", "pipeline_read", "pipeline_write", "fast_init",
        "ratio"}},
      {"zero_optimization.offload_param",
       {"nvme_path", "buffer_count", "buffer_size", "max_in_cpu", "pin_memory"}},
  };
  return kKeys;
}

}  // namespace

void add_not_built_rows(std::vector<SchemaRow>& rows) {
  for (const KnownKeys& keys : known_keys()) {
    for (const std::string& name : keys.names) {
      rows.push_back({.path = keys.section.empty() ? name : keys.section + "." + name,
                      .type = ValueType::kNotBuilt,
                      .about = "A key of DeepSpeed that this version does not build yet."});
    }
  }
}

}  // namespace zero::detail
