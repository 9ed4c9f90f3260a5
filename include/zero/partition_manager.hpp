// Foretells what every rank will hold and move, before anything is allocated.
//
// The plan is a dry run: the library's own code registers the model on the meta device, prepares,
// and trains two steps of one rank of the world; the ledger says what was held. So it contains what
// estimates leave out: buckets, double buffers, persistent and prefetched parameters, padding,
// messages. All ranks hold the same, since shards are equal; padding is part of it.
//
// Thread-safety: pure functions of their arguments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zero/config.hpp"
#include "zero/layout.hpp"
#include "zero/ledger.hpp"
#include "zero/model_shape.hpp"
#include "zero/traffic.hpp"

namespace zero {

// What training is foreseen between prepare() and the moment of comparison.
struct PlanOptions {
  std::int64_t steps = 2;  // more change nothing: the second prefetches in the order of the first
  // Ranks that are processes (NCCL) receive the slices of the others before they sum them; threads
  // read them where they are. ZeroOptimizer::plan() knows which it is, and runtime.nccl_reduction
  // says it as well.
  bool stages_slices = false;
  // What ZeroOptimizer::load(), save() and asynchronous saves hold on their way. Saved is after
  // each step, and once where there is none.
  bool loads = false;
  bool saves = false;
  bool async_saves = false;
};

// Of each rank: shards are equal, so all hold the same.
struct Plan {
  Ledger prepared;           // after prepare(), with the peaks of construction
  Ledger trained;            // after the steps: current, and peaks since before prepare()
  Traffic traffic_per_step;  // of the last step
  Layout layout;             // how parameters are cut into buckets and shards
  std::int64_t model_elems = 0;
  std::int64_t padded_elems = 0;  // what makes buckets cut evenly is part of every figure
  int stage = 0;
  int world_size = 0;  // 0: an empty plan

  // Parameters, gradients and optimizer state: what the ZeRO paper calls model states.
  std::int64_t model_state_bytes() const;
  std::int64_t peak_bytes() const { return trained.total().peak_bytes; }
};

// What a search for a configuration that fits came to.
struct Fit {
  bool fits = false;
  Config config;     // with stage and sizes set in its fields; the smallest peak if nothing fits
  std::string json;  // the same as a patch for the file: {"zero_optimization": {...}}
  Plan plan;         // of config
  std::vector<std::string> reasons;  // why not the stages below, which sizes were lowered
};

class PartitionManager {
 public:
  // Runs the model dry on rank `rank` of `world_size`; takes milliseconds for hundreds of
  // parameters, whatever their size. A budget in the configuration plays no part. Throws
  // ConfigError for what prepare() would refuse.
  static Plan plan(const ModelShape& model, const Config& config, int world_size,
                   const PlanOptions& options = {}, int rank = 0);

  // The stage that receives least (of equals the lowest) whose peak, with `reserved_bytes` for what
  // the runtime does not own, is within `budget_bytes`; then the largest buckets, then the largest
  // prefetch window that fit. Bucket sizes are tried from the configured one down to one parameter
  // a bucket: every layout there is, up to 64 parameters; with more, in steps of a fifth and then
  // between two steps. At stage 3, where nothing else fits, the persistence threshold becomes 0.
  // Throws UsageError for negative bytes.
  static Fit fit(const ModelShape& model, const Config& config, int world_size,
                 std::int64_t budget_bytes, std::int64_t reserved_bytes = 0,
                 const PlanOptions& options = {});
};

}  // namespace zero
