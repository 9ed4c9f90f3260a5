#include "src/communicator_nccl_link.hpp"

#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "zero/error.hpp"

namespace zero::detail {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Flushing and freeing is bounded by NCCL or by the watchdog; this is for what never returns.
constexpr double kLeaveS = 20;
constexpr int kYields = 100;
constexpr double kShortestPeriodS = 0.001;

bool is_over(ncclResult_t result) { return result != ncclSuccess && result != ncclInProgress; }

}  // namespace

NcclLink::NcclLink(ncclComm_t comm, bool owned, int rank, int world_size, int device_index,
                   double timeout_s)
    : state_(std::make_shared<State>()) {
  state_->rank = rank;
  state_->world_size = world_size;
  state_->device_index = device_index;
  state_->owned = owned;
  state_->timeout_s = timeout_s;
  state_->comm = comm;
  watchdog_ = std::thread([state = state_] { state->watch(); });
}

NcclLink::~NcclLink() {
  {
    std::unique_lock lock(state_->mutex);
    const bool hurry = state_->owned && std::uncaught_exceptions() > 0;
    state_->end = hurry ? End::kHurry : End::kGentle;
    state_->wake.notify_all();
    state_->wake.wait(lock, [&] { return state_->leaving; });
    if (!state_->wake.wait_for(lock, Seconds(kLeaveS), [&] { return state_->left; })) {
      watchdog_.detach();
      return;
    }
  }
  watchdog_.join();
}

void NcclLink::connect() {
  settle(ncclInProgress, {}, [] { return std::string("connecting the ranks"); });
}

void NcclLink::issue(const OpFingerprint& op, cudaStream_t stream, const Calls& calls) {
  check();
  check_cuda(cudaSetDevice(state_->device_index), "device");
  Watched watched{op, nullptr, nullptr, {}};
  {
    const std::lock_guard lock(state_->mutex);
    watched.begin = state_->take_event();
    watched.end = state_->take_event();
  }
  check_cuda(cudaEventRecord(watched.begin.get(), stream), "event");
  std::string reason;
  const ncclResult_t result = state_->ask(calls, reason);
  settle(result, std::move(reason), [&] { return to_string(op); });
  check_cuda(cudaEventRecord(watched.end.get(), stream), "event");
  const std::lock_guard lock(state_->mutex);
  state_->watched.push_back(std::move(watched));
  if (state_->watched.size() == 1) state_->wake.notify_all();
}

void NcclLink::settle(ncclResult_t result, std::string reason,
                      const std::function<std::string()>& what) {
  const Clock::time_point start = Clock::now();
  for (int round = 0; result == ncclInProgress; ++round) {
    check();
    const auto query = [&](ncclComm_t comm) {
      const ncclResult_t error = ncclCommGetAsyncError(comm, &result);
      return is_over(error) ? error : result;
    };
    result = state_->ask(query, reason);
    if (result != ncclInProgress) break;
    if (round < kYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(Seconds(kShortestPeriodS));
    }
    const std::lock_guard lock(state_->mutex);
    if (Seconds(Clock::now() - start).count() > state_->timeout_s) state_->fail_late(what());
  }
  if (result == ncclSuccess) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->fail(concat(state_->place(), "NCCL failed in ", what(), ": ", reason));
  }
  check();
}

void NcclLink::check() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->failed) throw CommError(state_->failure);
}

void NcclLink::fail(const std::string& reason) const noexcept {
  const std::lock_guard lock(state_->mutex);
  try {
    state_->fail(concat(state_->place(), reason));
  } catch (...) {  // no memory for the text
    state_->failed = true;
    state_->wake.notify_all();
  }
}

void NcclLink::set_timeout(double timeout_s) {
  const std::lock_guard lock(state_->mutex);
  state_->timeout_s = timeout_s;
  state_->wake.notify_all();
}

}  // namespace zero::detail
