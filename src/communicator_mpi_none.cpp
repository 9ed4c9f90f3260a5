// In the place of MPI where the library is built without it.
#include "src/communicator_mpi.hpp"
#include "zero/error.hpp"

namespace zero::detail {

bool mpi_is_built() noexcept { return false; }

int mpi_local_rank() { return 0; }

std::unique_ptr<Communicator> make_mpi_communicator(const MpiSettings&) {
  throw CommError(
      "a world of MPI: this library is built without MPI; configure it with -DZERO_MPI=ON where "
      "CMake finds MPI (Debian: libopenmpi-dev). Ranks as threads of one process need none "
      "(zero::run_ranks)");
}

}  // namespace zero::detail
