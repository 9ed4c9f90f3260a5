// Worlds of processes with a CUDA device each, through NCCL. World and optimizer are used as with
// any other communicator; nccl.h is not needed to compile against this.
//
// One rank of a job whose ranks share a folder:
//   auto world = zero::make_nccl_world_by_file("/shared/nccl_id", job_token, rank, size, gpu);
// or, started by mpirun (zero/world.hpp), which needs no folder:
//   auto world = zero::World::from_environment({.device = zero::DeviceKind::kCuda});
//
// Sums. By default NCCL only copies: slices of the other ranks are received into a workspace
// (Communicator::use_workspace, (N-1) shards of the dtype that is sent) and summed here, in fp32
// and in rank order, so results are bit for bit those of every other communicator. With
// NcclOptions::nccl_reduction, NCCL sums as well, in the dtype that is sent, rounded at every hop
// in an order of its own that may change with the world size, the size of the message and the
// machine; of the workspace one shard is used then. Reproducible sums are refused with it.
//
// Streams: every call takes a CUDA stream of the world's device and is ordered on it. A call
// returns before its work is done; the first calls of a kind may block until the other ranks have
// made them too, as NCCL connects the ranks then.
//
// Deadlines: a call whose turn on its stream has come, and that is not done by the deadline, ends
// the communicator with a CommError that names rank and call. So does an error that NCCL reports.
// It is thrown by Communicator::check(), which is to be called after waiting for the stream, and by
// every later call. NCCL checks no fingerprints and does not know which ranks are late: ranks that
// make different calls, or of which one is gone or has aborted, each end by their own deadline.
//
// Memory: 4 bytes of the world's device, and what NCCL takes by itself from the driver; neither is
// in the ledger.
#pragma once

#include <chrono>
#include <string>

#include "zero/nccl_id.hpp"
#include "zero/world.hpp"

struct ncclComm;  // nccl.h: ncclComm_t is a pointer to it

namespace zero {

struct NcclOptions {
  // Deadline of connecting, and of every wait for other ranks (Communicator::set_timeout). Above 0;
  // beyond 1e9 s it is 1e9 s.
  std::chrono::duration<double> timeout = std::chrono::seconds(300);
  // NCCL sums, for speed; see above. Say runtime.nccl_reduction in the configuration as well.
  bool nccl_reduction = false;
};

// Rank `rank` of `world_size` on CUDA device `device_index`. Blocks until all ranks have come.
// Throws UsageError for a rank that is not in the world, or for more than 256 ranks without
// nccl_reduction; CudaError where there is no such device; CommError where NCCL fails, some ranks
// do not come by the deadline, several ranks are on one GPU (NCCL refuses that; ranks that share a
// GPU are threads: run_ranks), or the library is built without NCCL.
World make_nccl_world(const NcclId& id, int rank, int world_size, int device_index,
                      const NcclOptions& options = {});

// With the id from a file, see exchange_nccl_id. Rank 0 removes the file when all have connected.
World make_nccl_world_by_file(const std::string& path, const std::string& job_token, int rank,
                              int world_size, int device_index, const NcclOptions& options = {});

// With a communicator of the caller's (an ncclComm_t on `device_index`), which must outlive the
// world and stays the caller's. No other calls may be made on it meanwhile. It should be
// non-blocking: a deadline does not end a call that blocks inside of NCCL. When the world has
// failed (check() throws), the communicator has been aborted, which frees it: it must not be
// destroyed again.
World make_nccl_world(ncclComm* existing, int device_index, const NcclOptions& options = {});

}  // namespace zero
