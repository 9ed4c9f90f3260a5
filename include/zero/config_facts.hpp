// What the caller knows about a run and a configuration file may leave open with "auto".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "zero/device_kind.hpp"
#include "zero/dtype.hpp"

namespace zero {

// Answers to "auto". What the file fixes, wins over a fact, with a warning if they differ. Those of
// the batch count where a key is missing as well, and so do those of the optimizer where its whole
// section is.
struct Facts {
  std::optional<std::int64_t> micro_batch;         // train_micro_batch_size_per_gpu
  std::optional<std::int64_t> accumulation;        // gradient_accumulation_steps
  std::optional<double> lr;                        // optimizer.params.lr
  std::optional<double> weight_decay;              // optimizer.params.weight_decay
  std::optional<std::pair<double, double>> betas;  // optimizer.params.betas
  std::optional<double> eps;                       // optimizer.params.eps
  std::optional<double> clipping;                  // gradient_clipping
  std::optional<std::int64_t> total_steps;         // scheduler.params.total_num_steps
  std::optional<std::int64_t> warmup_steps;        // scheduler.params.warmup_num_steps
  std::vector<double> warmup_min_lr;               // of all groups, or one each; empty: not known
  std::vector<double> warmup_max_lr;
  std::optional<std::int64_t> hidden_size;  // of the model: bucket sizes follow from it
  std::optional<DType> dtype;               // of the parameters: fp16.enabled, bf16.enabled

  // Not answers to "auto". With a world size the batch triple is settled on reading, so that what
  // is wrong with it is told along with everything else.
  std::optional<int> world_size;
  DeviceKind device = DeviceKind::kHost;  // some keys mean something on the host only

  // What stays "auto" takes its default with a note, also where it changes the result: for plans,
  // which do not depend on it.
  bool defaults_for_auto = false;

  // Sets one of the answers by its name above, for command lines: set("lr", "2e-5"), set("betas",
  // "[0.9, 0.95]"), set("dtype", "bf16"). `value` is JSON, or a bare word. Throws ConfigError that
  // names the key, the value and what would be valid.
  void set(std::string_view key, std::string_view value);
};

}  // namespace zero
