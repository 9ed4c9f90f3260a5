// A rank's place in the data-parallel group: rank, world size, device, communicator. Several
// optimizers of one world may be used side by side.
//
// The embedded default is ranks as threads of one process: nothing to install, nothing to start.
//
// Four ranks, each on a thread of its own:
//   zero::run_ranks(4, [&](zero::World& world) { ... });
// One rank, where nothing else is said:
//   auto world = zero::World::from_environment();
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "zero/communicator.hpp"
#include "zero/device.hpp"
#include "zero/ledger.hpp"

namespace zero {

namespace detail {
class CommStream;
}

class World {
 public:
  World(std::unique_ptr<Device> device, std::unique_ptr<Communicator> communicator);
  ~World();
  World(World&&) noexcept;
  World& operator=(World&&) = delete;

  // A single process: rank 0 of 1 on the host.
  static World from_environment();

  // A single process: rank 0 of 1 on a CUDA device. Throws CudaError where there is no such device.
  static World cuda(int index = 0);

  // One rank of a world of any size on the meta device, for dry runs: collectives return at once.
  // Throws UsageError unless 0 <= rank < world_size.
  // `stages_slices`: as a world of processes, see Communicator::stages_slices().
  static World meta(int rank, int world_size, bool stages_slices = false);

  int rank() const { return communicator_->rank(); }
  int world_size() const { return communicator_->world_size(); }
  Device& device() const { return *device_; }
  Communicator& communicator() const { return *communicator_; }
  // Every byte that this rank's optimizers hold on the device. In `workspace` it also has the few
  // that a CUDA device copies from and to on the host.
  Ledger& ledger() const { return *ledger_; }
  // Blocks until nothing that was handed to this rank's streams is running any more, failed or not.
  void drain() noexcept;

 private:
  friend class ZeroOptimizer;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<detail::CommStream> comm_stream_;  // its work is done before the others go
};

struct RunOptions {
  // Deadline of every wait of a rank for another. What a rank's own device takes, e.g. for a kernel
  // of the model that never ends, has none. Above 0; beyond 1e9 s (31 years) it is 1e9 s.
  std::chrono::duration<double> timeout = std::chrono::seconds(300);
  // Where the ranks hold their memory. kCuda: rank r uses CUDA device r modulo their number, so
  // that one device may carry several ranks. Devices must reach each other's memory. kMeta:
  // UsageError.
  DeviceKind device = DeviceKind::kHost;
};

// Runs `body` once per rank, each on a thread of its own (rank 0 on the calling one), and returns
// when all have ended. When a rank throws, the waits of the others end with a CommError that names
// it, and the error that came first is rethrown here. Throws UsageError unless world_size >= 1 and
// options.timeout > 0, CudaError if options.device is not to be had, and Error if the system has no
// threads for so many ranks; no rank has begun then.
void run_ranks(int world_size, const std::function<void(World&)>& body,
               const RunOptions& options = {});

}  // namespace zero
