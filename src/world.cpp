#include "zero/world.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <latch>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "kernels/cuda_kernels.hpp"
#include "src/communicator_meta.hpp"
#include "src/communicator_stream.hpp"
#include "src/local_group.hpp"
#include "zero/error.hpp"

namespace zero {

World::World(std::unique_ptr<Device> device, std::unique_ptr<Communicator> communicator,
             Launcher launcher)
    : device_(std::move(device)),
      communicator_(std::move(communicator)),
      ledger_(std::make_unique<Ledger>()),
      launcher_(launcher),
      comm_stream_(std::make_unique<detail::CommStream>(*device_, communicator_->rank())) {}
World::~World() = default;
World::World(World&&) noexcept = default;

World World::cuda(int index) {
  auto group = std::make_shared<detail::LocalGroup>(1, RunOptions{}.timeout);
  return {make_cuda_device(index), detail::make_local_communicator(std::move(group), 0)};
}

World World::meta(int rank, int world_size, bool stages_slices) {
  if (rank < 0 || rank >= world_size) {
    throw UsageError(detail::concat("World::meta: rank ", rank, " of ", world_size,
                                    "; ranks are 0 to world_size - 1"));
  }
  return {make_meta_device(), detail::make_meta_communicator(rank, world_size, stages_slices)};
}

void World::drain() noexcept { comm_stream_->drain(); }

namespace {

// How many CUDA devices the ranks are to use; 0 on the host.
int devices_for(DeviceKind kind, int world_size) {
  if (kind == DeviceKind::kHost) return 0;
  if (kind == DeviceKind::kMeta) {
    throw UsageError("run_ranks: the meta device has no ranks that meet; see World::meta");
  }
  if (world_size > kernels::kMostSources) {
    throw UsageError(detail::concat("run_ranks: ", world_size, " ranks on CUDA devices; at most ",
                                    kernels::kMostSources, " are valid"));
  }
  const int count = std::min(cuda_device_count(), world_size);
  if (count == 0) make_cuda_device();  // says why
  connect_cuda_devices(count);
  return count;
}

}  // namespace

void run_ranks(int world_size, const std::function<void(World&)>& body, const RunOptions& options) {
  if (world_size < 1) {
    throw UsageError(
        detail::concat("run_ranks: world_size is ", world_size, ", must be 1 or more"));
  }
  auto group = std::make_shared<detail::LocalGroup>(world_size, options.timeout);
  const int cuda_devices = devices_for(options.device, world_size);
  std::latch ended(world_size);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(world_size));
  std::mutex mutex;
  int first = -1;

  const auto run = [&](int rank) {
    std::optional<World> world;  // outlives the abort below, which ends what its streams wait for
    const auto failed = [&](const std::string& what) {
      {
        const std::lock_guard lock(mutex);
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
        if (first < 0) first = rank;
      }
      group->abort(rank, detail::concat("rank ", rank, " ended with an error: ", what));
    };
    try {
      world.emplace(cuda_devices > 0 ? make_cuda_device(rank % cuda_devices) : make_host_device(),
                    detail::make_local_communicator(group, rank), Launcher::kThreads);
      body(*world);
    } catch (const std::exception& error) {
      failed(error.what());
    } catch (...) {
      failed("an exception that is no std::exception");
    }
    if (cuda_devices > 0) {
      // What was issued runs on; others may still read this rank's memory, so no one frees any
      // before all are through.
      if (world) world->drain();
      group->leave(rank);
      ended.arrive_and_wait();
      world.reset();
    } else {
      world.reset();  // finishes what was enqueued
      group->leave(rank);
    }
  };

  // Either every rank gets a thread, or none begins.
  enum class Start { kUnknown, kGo, kStay };
  std::atomic<Start> start{Start::kUnknown};
  std::vector<std::thread> threads;
  const auto give = [&](Start verdict) {
    start = verdict;
    start.notify_all();
  };
  const auto join = [&] {
    for (std::thread& thread : threads) thread.join();
  };
  try {
    for (int rank = 1; rank < world_size; ++rank) {
      threads.emplace_back([&, rank] {
        start.wait(Start::kUnknown);
        if (start == Start::kGo) run(rank);
      });
    }
  } catch (const std::exception& error) {
    give(Start::kStay);
    join();
    throw Error(detail::concat(
        "run_ranks: only ", threads.size() + 1, " of ", world_size,
        " ranks could be given a thread (", error.what(),
        "), so none has begun. Use fewer ranks, or raise the limits on threads and address space",
        " (ulimit -u, ulimit -v; pids.max and memory.max of the container)"));
  }
  give(Start::kGo);
  run(0);
  join();

  // The rank whose failure ended the group tells the cause; the others only report the consequence.
  if (const int cause = group->first_failed_rank();
      cause >= 0 && errors[static_cast<std::size_t>(cause)] != nullptr) {
    first = cause;
  }
  if (first >= 0) std::rethrow_exception(errors[static_cast<std::size_t>(first)]);
}

}  // namespace zero
