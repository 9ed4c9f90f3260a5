// A job of processes that comes to a bad end, written as a user would write main().
// cli/mpi_faults.sh looks at how it ends.
//   mpi_fault WHAT RANK TIMEOUT_S: the rank, or -1: each, does it in the middle of a few
//   collectives; loop: they have no end, and something is done to a process from outside.
#include <mpi.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "zero/error.hpp"
#include "zero/world.hpp"

namespace {

void sleep_s(int seconds) { std::this_thread::sleep_for(std::chrono::seconds(seconds)); }

// From now on such calls of MPI do not return, as when another process is stopped while it has a
// lock of a queue.
std::atomic<bool> collectives_hang{false};
std::atomic<bool> messages_beside_hang{false};
void hang_if(const std::atomic<bool>& hang) {
  while (hang) sleep_s(1);
}

// In the middle of the collectives.
const std::map<std::string, std::function<void(zero::World&)>> kDeeds = {
    {"nothing", [](zero::World&) {}},
    {"throw", [](zero::World&) { throw std::runtime_error("the tokenizer is gone"); }},
    {"swallow", [](zero::World&) { throw 0; }},
    {"sleep", [](zero::World&) { sleep_s(100); }},
    {"stop", [](zero::World&) { raise(SIGSTOP); }},
    {"kill", [](zero::World&) { raise(SIGKILL); }},
    {"exit0", [](zero::World&) { std::exit(0); }},
    {"exit3", [](zero::World&) { std::exit(3); }},
    {"crash", [](zero::World&) { std::abort(); }},
    {"abort", [](zero::World& world) { world.communicator().abort("the disk is full"); }},
    {"hang", [](zero::World&) { collectives_hang = true; }},
    {"hang_beside",
     [](zero::World&) {
       messages_beside_hang = true;
       sleep_s(1);  // until the service thread is there
     }},
    {"mismatch",
     [](zero::World& world) {
       std::vector<float> all(static_cast<std::size_t>(world.world_size()));
       world.communicator().all_gather(
           &all[static_cast<std::size_t>(world.rank())], all.data(), 1, zero::DType::kFloat32,
           {zero::Purpose::kParams, "something else"}, world.device().caller_stream());
     }},
};

constexpr int kAll = -1;

int run(const std::string& what, int rank, double timeout_s) {
  if (what == "absent" && zero::find_launch().rank == rank) sleep_s(100);
  const std::chrono::duration<double> timeout(timeout_s);
  zero::World world = zero::World::from_environment(
      what == "absent" ? zero::EnvironmentOptions{.start_timeout = timeout}
                       : zero::EnvironmentOptions{.timeout = timeout});
  std::vector<float> whole(std::size_t{100'000} * static_cast<std::size_t>(world.world_size()));
  const auto gather = [&](int index) {
    world.communicator().all_gather(whole.data() + 100'000 * world.rank(), whole.data(), 100'000,
                                    zero::DType::kFloat32,
                                    {zero::Purpose::kParams, "bucket " + std::to_string(index)},
                                    world.device().caller_stream());
  };
  for (int index = 0; index < 5 || what == "loop"; ++index) gather(index);
  const bool mine = rank == kAll || world.rank() == rank;
  if (const auto deed = kDeeds.find(what); deed != kDeeds.end() && mine) {
    deed->second(world);
  }
  gather(5);
  if (what == "late_end" && world.rank() == rank) raise(SIGSTOP);
  if (what == "bad_end" && world.rank() == rank) return 4;
  return 0;
}

}  // namespace

// In place of the library's, as its profiling interface offers.
extern "C" int MPI_Testsome(int count, MPI_Request* requests, int* done, int* indices,
                            MPI_Status* statuses) {
  hang_if(collectives_hang);
  return PMPI_Testsome(count, requests, done, indices, statuses);
}
extern "C" int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  hang_if(messages_beside_hang);
  return PMPI_Test(request, done, status);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string what = argv[1];
  try {
    return run(what, std::atoi(argv[2]), std::atof(argv[3]));
  } catch (const std::exception& error) {
    std::cerr << "mpi_fault: " + std::string(error.what()) + "\n";
    return 1;
  } catch (...) {
    return 0;  // as if nothing had been
  }
}
