// A rank's place in the data-parallel group: rank, world size, device, communicator. Several
// optimizers of one world may be used side by side.
//
// The embedded default is ranks as threads of one process: nothing to install, nothing to start.
// Ranks may be processes too, on one machine or several, started by mpirun (or srun with PMI).
//
// Four ranks, each on a thread of its own:
//   zero::run_ranks(4, [&](zero::World& world) { ... });
// The rank that this process is, by what started it; alone where nothing did:
//   auto world = zero::World::from_environment();
//
// How a job of processes ends. When a rank fails (throws out of its world, is late, ends early),
// the waits of the others end with a CommError that names it; each of them has to end then, with
// its message and an exit code other than 0. MPI is ended when a process exits. One that exits well
// waits for the others as long as they are alive; after a failure they have 2 seconds, and then
// MPI_Abort ends the job, so that a rank that is stopped or hangs does not keep it. A process that
// has gone on after a failure exits with 1 all the same. There is nothing to call: `return 1` from
// main, std::exit and std::terminate all do. A program that called MPI_Init_thread itself calls
// MPI_Finalize as well.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "zero/communicator.hpp"
#include "zero/device.hpp"
#include "zero/ledger.hpp"

namespace zero {

namespace detail {
class CommStream;
}

// What gave a process its place.
enum class Launcher : std::uint8_t {
  kExplicit,  // the program itself: World::cuda(), make_nccl_world(), ...
  kThreads,   // run_ranks()
  kSingle,    // nothing in the environment
  kMpi,       // mpirun or mpiexec, or srun with PMI
  kSlurm,     // srun, a single process
  kTorchrun,  // torchrun, a single process
};
std::string_view launcher_name(Launcher launcher);  // "explicit", "threads", "single process", ...

// A place among the processes of a job, as the environment tells it.
struct Launch {
  Launcher launcher = Launcher::kSingle;
  int rank = 0;
  int world_size = 1;
};
using Environment =
    std::function<const char*(const char* name)>;  // null: there is no such variable
// Looks for OMPI_COMM_WORLD_RANK and _SIZE, MV2_COMM_WORLD_RANK and _SIZE, PMI_RANK and PMI_SIZE,
// PMIX_RANK under SLURM; SLURM_PROCID with SLURM_STEP_NUM_TASKS or SLURM_NTASKS; RANK and
// WORLD_SIZE. Starts nothing. Throws ConfigError, naming the variables: where they contradict each
// other, one of a pair is missing, or a value is no number; where several processes were started by
// SLURM without PMI or by torchrun, which cannot connect them here; and where MPI started several
// and the library is built without MPI.
Launch find_launch(const Environment& environment);
Launch find_launch();  // of this process

struct EnvironmentOptions {
  // Deadline of every wait of a rank for another, as in RunOptions.
  std::chrono::duration<double> timeout = std::chrono::seconds(300);
  // Deadline of the ranks' finding each other, with several processes. Above 0 as well.
  std::chrono::duration<double> start_timeout = std::chrono::seconds(300);
  // Where the rank holds its memory. kCuda: CUDA device 0, or with several processes the one of the
  // process's number on its machine, modulo their number there; those communicate by NCCL, and MPI
  // brings them together. kMeta: UsageError.
  DeviceKind device = DeviceKind::kHost;
  // kCuda with several processes only: see NcclOptions.
  bool nccl_reduction = false;
};

class World {
 public:
  World(std::unique_ptr<Device> device, std::unique_ptr<Communicator> communicator,
        Launcher launcher = Launcher::kExplicit);
  ~World();
  World(World&&) noexcept;
  World& operator=(World&&) = delete;

  // The rank that find_launch() says. Of several processes all make theirs, and block until all
  // have come; one such world at a time lives in a process. Throws what find_launch() throws;
  // ConfigError where MPI itself says another place; CommError where MPI fails, does not offer
  // MPI_THREAD_MULTIPLE, or the ranks do not come by the deadline; for kCuda what World::cuda() and
  // make_nccl_world() throw.
  static World from_environment(const EnvironmentOptions& options = {});

  // A single process: rank 0 of 1 on a CUDA device. Throws CudaError where there is no such device.
  static World cuda(int index = 0);

  // One rank of a world of any size on the meta device, for dry runs: collectives return at once.
  // Throws UsageError unless 0 <= rank < world_size.
  // `stages_slices`: as a world of processes, see Communicator::stages_slices().
  static World meta(int rank, int world_size, bool stages_slices = false);

  int rank() const { return communicator_->rank(); }
  int world_size() const { return communicator_->world_size(); }
  Launcher launcher() const { return launcher_; }
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
  Launcher launcher_;
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
