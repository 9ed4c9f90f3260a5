// A model that is nothing but device memory, trained at a stage, and what that takes.
//
// Its passes are kernels on the caller's stream over buffers that are there before: forward copies
// a unit's parameters, backward adds them and a buffer of the rank's own to the gradients. So a
// step is bound by what the runtime does, nothing in it waits for the device, and every bit that a
// stage gathers or reduces wrongly ends up in the weights.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernels.hpp"
#include "zero/world.hpp"
#include "zero/zero_optimizer.hpp"

namespace zero::bench {

struct StageOptions {
  std::int64_t elems = std::int64_t{48} << 20;  // of the model
  int units = 24;
  int windows = 7;  // of which the median counts
  int steps = 20;   // of a window, which ends in synchronize(); at most 64, see there
};

class DeviceModel {
 public:
  // bf16 parameters with fp32 masters, AdamW and clipping, at stage `stage`; buckets of 4 units, of
  // which the small parameters stay whole at stage 3. REQUIRES: world outlives it.
  DeviceModel(const StageOptions& options, int stage, World& world);
  ~DeviceModel() { world_.drain(); }  // before any memory goes
  DeviceModel(const DeviceModel&) = delete;
  DeviceModel& operator=(const DeviceModel&) = delete;

  // Bytes that the model holds on the device beside the optimizer's.
  static std::int64_t own_bytes(const StageOptions& options);

  ZeroOptimizer& optimizer() { return optimizer_; }
  void step();  // enqueues one
  // Enqueues `steps` by `one`, waits for the device and the other ranks. Seconds of one step.
  // Throws Error if the last one was skipped.
  double window(int steps, const std::function<void()>& one);
  double window(int steps);
  // Collective. Of masters and moments, in the order of registration.
  std::uint64_t hash();
  // Collective. Waits for the device and the other ranks; after a window, or hash().
  void meet();

 private:
  // bf16 elements on the device.
  class Memory {
   public:
    Memory(Device& device, std::int64_t elems)
        : device_(device),
          bytes_(static_cast<std::size_t>(elems) * sizeof(bf16)),
          data_(static_cast<bf16*>(device.allocate(bytes_))) {}
    ~Memory() { device_.deallocate(data_, bytes_); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    bf16* data() const { return data_; }

   private:
    Device& device_;
    const std::size_t bytes_;
    bf16* const data_;
  };
  struct Parameter {
    std::string name;
    std::int64_t elems = 0;
    bf16* data = nullptr;
    bf16* grad = nullptr;
  };
  struct Layer {
    Unit unit;
    std::vector<Parameter> params;
  };

  World& world_;
  Stream& stream_;
  const Memory source_;   // added to gradients
  const Memory scratch_;  // written by forward
  std::vector<Layer> layers_;
  ZeroOptimizer optimizer_;
};

// What a run at one stage and world size took.
struct StageRow {
  double ms_per_step = 0;
  std::int64_t traffic_bytes = 0;   // of rank 0 in a step
  std::int64_t peak_bytes = 0;      // by the ledger, of the rank with the highest
  std::int64_t peak_bytes_all = 0;  // of all ranks
  std::int64_t driver_bytes = 0;    // taken from all devices, without the model's own
  std::uint64_t hash = 0;
};

// Runs the body once per rank.
using Ranks = std::function<void(int world_size, const std::function<void(World&)>& body)>;

StageRow run_stage(const StageOptions& options, int stage, int world_size, const Ranks& ranks);

// A step issued kernel by kernel, and the same step replayed from a CUDA graph.
struct GraphRow {
  double plain_ms = 0;
  double replayed_ms = 0;
  std::size_t nodes = 0;
  bool same_bits = false;
};
GraphRow run_graph(const StageOptions& options, int stage);

}  // namespace zero::bench
