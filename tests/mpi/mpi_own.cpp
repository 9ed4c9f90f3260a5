// A program that begins and ends MPI itself.
//   mpi_own WHAT: ok; stop: rank 1 stops before the end; serialized: with less than the library
//   needs; swallow: a failure that no one minds.
#include <mpi.h>
#include <signal.h>

#include <cstdio>
#include <exception>
#include <string>

#include "zero/world.hpp"

namespace {

void meet(const std::string& what) {
  for (int round = 0; round < 2; ++round) {  // one world after the other
    zero::World world = zero::World::from_environment({.timeout = std::chrono::seconds(2)});
    world.communicator().barrier({zero::Purpose::kControl, "round " + std::to_string(round)},
                                 world.device().caller_stream());
    if (what == "swallow" && world.rank() == 1) throw 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  int provided = 0;
  MPI_Init_thread(&argc, &argv, what == "serialized" ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE,
                  &provided);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  try {
    meet(what);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mpi_own: %s\n", error.what());
    if (what != "swallow") return 1;
  } catch (int) {
  }
  if (what == "stop" && rank == 1) raise(SIGSTOP);
  MPI_Finalize();
  if (what == "ok") std::printf("rank %d is done\n", rank);
}
