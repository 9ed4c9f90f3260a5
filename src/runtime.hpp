// What the mechanisms and the stages share: the registered model, its layout, the memory of each
// bucket, and where work runs. Data only; owned by ZeroOptimizer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/kernels.hpp"
#include "src/communicator_stream.hpp"
#include "zero/buffer.hpp"
#include "zero/config.hpp"
#include "zero/layout.hpp"
#include "zero/param_spec.hpp"
#include "zero/traffic.hpp"

namespace zero {

struct ParamState {
  ParamSpec spec;
  std::int64_t numel = 0;
  DType dtype = DType::kFloat32;
  std::vector<int> units;     // that use it, ascending
  bool has_state = true;      // registered trainable: has gradients and optimizer state
  bool requires_grad = true;  // now; false while frozen
  Place place;
  bool touched = false;  // got a gradient on this rank in this step
};

struct UnitState {
  std::string name;
  std::vector<int> params;  // own first, then shared ones of earlier units
  int open_forward = 0;
  int open_backward = 0;
  std::vector<std::uint64_t> ranges = {};  // for profilers, of the passes that are open
};

// The memory of one bucket on this rank. Which buffers exist is the stage's business.
struct BucketMemory {
  Buffer params_full;   // all parameters, resident (stages 0 to 2; persistent ones at stage 3)
  Buffer params_shard;  // this rank's shard (stage 3)
  Buffer gathered;      // all parameters, while in use (stage 3)
  Buffer grads_full;    // gradients of the whole bucket, resident (stages 0 and 1)
  Buffer grads_shard;   // this rank's shard of the sum (stages 2 and 3)
  Buffer master_weights, exp_avg, exp_avg_sq;  // fp32, over the owned range
};

// A range of a bucket's elements.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t elems() const { return end - begin; }
};

struct Runtime {
  Runtime(Config configuration, Device& the_device, Communicator& communicator, Ledger& the_ledger,
          detail::CommStream& shared_stream);

  Config config;
  Device& device;
  Ledger& ledger;
  CountingCommunicator comm;
  Stream& compute;                // where the model runs
  detail::CommStream& beside_it;  // where communication runs with overlap

  std::vector<ParamState> params;
  std::vector<UnitState> units;
  std::vector<ParamGroup> groups;
  Layout layout;
  std::vector<BucketMemory> memory;  // per bucket
  int micro_step = 0;                // of the current step
  bool stepping = false;             // inside step()

  // Whether this micro-step is the last of its step. Unmanaged, only step() knows.
  bool is_boundary() const {
    return config.managed_accumulation ? micro_step + 1 == accumulation_steps() : stepping;
  }

  int rank() const { return comm.rank(); }
  int world_size() const { return comm.world_size(); }
  int accumulation_steps() const { return static_cast<int>(*config.accumulation_steps); }
  double timeout_s() const { return config.runtime.timeout_s.value_or(300.0); }
  bool reproducible() const { return config.runtime.reproducible; }
  float slots() const {
    return static_cast<float>(static_cast<std::int64_t>(accumulation_steps()) * world_size());
  }

  // This rank's shard of a bucket.
  Range shard(const Bucket& bucket) const {
    return {rank() * bucket.shard_elems, (rank() + 1) * bucket.shard_elems};
  }
  // The dtype in which sums of gradients are kept.
  DType grad_dtype(const Bucket& bucket) const {
    return config.grad_accum_dtype.value_or(bucket.dtype);
  }
  Buffer allocate(Category category, std::int64_t elems, DType dtype, const std::string& owner) {
    return Buffer(device, ledger, category, elems, dtype, owner);
  }
  // Where this optimizer's collectives run.
  Stream& comm_stream() const { return config.zero.overlaps() ? beside_it.get() : compute; }
  // Work on the communication stream from now on comes after the model's work so far, and the
  // reverse. Before any collective: it also comes after those of the world's other optimizers.
  void comm_after_compute() {
    if (config.zero.overlaps()) {
      comm_stream().wait(compute.record());
    } else {
      compute.wait(beside_it.done());
    }
  }
  void compute_after_comm() { compute.wait(comm_stream().record()); }
  // Blocks until nothing that was handed to the streams is running any more, failed or not.
  void drain() noexcept { beside_it.drain(); }
};

// Memory of the caller that streams work on is his again when a call ends, also by an exception.
class DrainAtEnd {
 public:
  explicit DrainAtEnd(Runtime& runtime) : rt_(runtime) {}
  ~DrainAtEnd() { rt_.drain(); }
  DrainAtEnd(const DrainAtEnd&) = delete;
  DrainAtEnd& operator=(const DrainAtEnd&) = delete;

 private:
  Runtime& rt_;
};

}  // namespace zero
