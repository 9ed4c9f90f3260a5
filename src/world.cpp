#include "zero/world.hpp"

#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "src/communicator_meta.hpp"
#include "src/communicator_stream.hpp"
#include "src/local_group.hpp"
#include "zero/error.hpp"

namespace zero {

World::World(std::unique_ptr<Device> device, std::unique_ptr<Communicator> communicator)
    : device_(std::move(device)),
      communicator_(std::move(communicator)),
      ledger_(std::make_unique<Ledger>()),
      comm_stream_(std::make_unique<detail::CommStream>(*device_, communicator_->rank())) {}
World::~World() = default;
World::World(World&&) noexcept = default;

World World::from_environment() {
  auto group = std::make_shared<detail::LocalGroup>(1, RunOptions{}.timeout);
  return {make_host_device(), detail::make_local_communicator(std::move(group), 0)};
}

World World::meta(int rank, int world_size) {
  if (rank < 0 || rank >= world_size) {
    throw UsageError(detail::concat("World::meta: rank ", rank, " of ", world_size,
                                    "; ranks are 0 to world_size - 1"));
  }
  return {make_meta_device(), detail::make_meta_communicator(rank, world_size)};
}

void run_ranks(int world_size, const std::function<void(World&)>& body, const RunOptions& options) {
  if (world_size < 1) {
    throw UsageError(
        detail::concat("run_ranks: world_size is ", world_size, ", must be 1 or more"));
  }
  auto group = std::make_shared<detail::LocalGroup>(world_size, options.timeout);
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
      world.emplace(make_host_device(), detail::make_local_communicator(group, rank));
      body(*world);
    } catch (const std::exception& error) {
      failed(error.what());
    } catch (...) {
      failed("an exception that is no std::exception");
    }
    world.reset();  // finishes what was enqueued
    group->leave(rank);
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
