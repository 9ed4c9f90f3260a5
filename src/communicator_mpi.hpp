// The communicator of MPI: ranks are the processes of the job. Built without MPI, what makes one
// throws CommError.
//
// MPI is begun when a process first asks for a communicator, once and for good, and ended when the
// process exits: by MPI_Finalize when all ranks have come to their end, else by MPI_Abort, so that
// no process waits for one that will not come. A process that has begun MPI itself ends it itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "zero/communicator.hpp"

namespace zero::detail {

struct MpiSettings {
  double timeout_s = 300;  // of every wait for other ranks
  double start_timeout_s = 300;
  std::string who = "a process";  // for messages before MPI knows
  // MPI counts in int; what is longer goes in several messages.
  std::int64_t most_bytes_at_once = std::int64_t{1} << 30;
};

bool mpi_is_built() noexcept;

// This process's place among those of its machine. REQUIRES: a communicator was made before.
int mpi_local_rank();

// Host buffers, host streams. All ranks make it, and at most one at a time lives in a process.
// Throws UsageError where there is one already; CommError where MPI fails, has not come with
// MPI_THREAD_MULTIPLE, or the ranks have not come by the deadline.
std::unique_ptr<Communicator> make_mpi_communicator(const MpiSettings& settings);

}  // namespace zero::detail
