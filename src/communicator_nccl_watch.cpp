// The watchdog of an NcclLink.
#include <algorithm>
#include <chrono>
#include <utility>

#include "src/communicator_nccl_link.hpp"
#include "zero/error.hpp"

namespace zero::detail {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// How often it looks: a good deal more often than a short deadline.
double period_s(double timeout_s) { return std::clamp(timeout_s / 50, 0.001, 0.02); }

}  // namespace

void NcclLink::State::watch() {
  cudaSetDevice(device_index);
  // What is asked here must not disturb a capture that goes on in another thread.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  std::unique_lock lock(mutex);
  while (!failed && end != End::kHurry) {
    look_at_events();
    if (failed) break;
    if (watched.empty()) {
      if (end == End::kGentle) break;
      wake.wait(lock);
      continue;
    }
    look_at_nccl();
    if (!failed) wake.wait_for(lock, Seconds(period_s(timeout_s)));
  }
  leaving = true;
  wake.notify_all();
  const bool gently = !failed && end == End::kGentle;
  lock.unlock();
  ncclComm_t last = nullptr;
  {
    const std::lock_guard nccl_lock(nccl_mutex);
    last = std::exchange(comm, nullptr);
  }
  leave(last, gently);
  lock.lock();
  left = true;
  wake.notify_all();
}

void NcclLink::State::look_at_events() {
  while (!failed && !watched.empty() && look_at(watched.front())) {
    spare.push_back(std::move(watched.front().begin));
    spare.push_back(std::move(watched.front().end));
    watched.pop_front();
  }
}

bool NcclLink::State::look_at(Watched& oldest) {
  const auto reached = [&](const OwnedEvent& event) {
    const cudaError_t error = cudaEventQuery(event.get());
    if (error != cudaSuccess && error != cudaErrorNotReady) {
      fail(concat(place(), "CUDA failed at or before ", to_string(oldest.op), ": ",
                  cudaGetErrorName(error), ": ", cudaGetErrorString(error)));
    }
    return error == cudaSuccess;
  };
  // Its turn on the stream has come: only from then on it waits for other ranks.
  if (!oldest.begun) {
    if (!reached(oldest.begin)) return false;
    oldest.begun = Clock::now();
  }
  if (reached(oldest.end)) return true;
  if (Seconds(Clock::now() - *oldest.begun).count() > timeout_s) fail_late(to_string(oldest.op));
  return false;
}

void NcclLink::State::look_at_nccl() {
  const std::unique_lock nccl_lock(nccl_mutex, std::try_to_lock);
  if (!nccl_lock.owns_lock() || comm == nullptr) return;  // busy: the next look will do
  ncclResult_t result = ncclSuccess;
  const ncclResult_t query = ncclCommGetAsyncError(comm, &result);
  if (query != ncclSuccess) result = query;
  if (result == ncclSuccess || result == ncclInProgress) return;
  fail(concat(place(), "NCCL failed in ", to_string(watched.front().op), ": ",
              ncclGetErrorString(result), ": ", ncclGetLastError(comm)));
}

ncclResult_t NcclLink::State::ask(const Calls& calls, std::string& reason) {
  const std::lock_guard lock(nccl_mutex);
  if (comm == nullptr) return ncclInProgress;
  const ncclResult_t result = calls(comm);
  if (result != ncclSuccess && result != ncclInProgress) {
    reason = concat(ncclGetErrorString(result), ": ", ncclGetLastError(comm));
    if (reason.find("Duplicate GPU") != std::string::npos) {
      reason +=
          ". NCCL takes one rank per GPU: give each rank a device_index of its own, or make the "
          "ranks threads of one process (zero::run_ranks), which may share a GPU";
    }
  }
  return result;
}

void NcclLink::State::fail(std::string text) {
  if (!failed) {
    failed = true;
    failure = std::move(text);
  }
  wake.notify_all();
}

void NcclLink::State::fail_late(const std::string& what) {
  fail(concat(place(), what, " was not done after ", timeout_s,
              " s; which ranks are late is not known to NCCL"));
}

NcclLink::OwnedEvent NcclLink::State::take_event() {
  if (!spare.empty()) {
    OwnedEvent event = std::move(spare.back());
    spare.pop_back();
    return event;
  }
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event");
  return OwnedEvent(event);
}

std::string NcclLink::State::place() const {
  return concat("rank ", rank, " of ", world_size, ": ");
}

void NcclLink::State::leave(ncclComm_t last, bool gently) const {
  if (last == nullptr || (gently && !owned)) return;
  // Flushing needs the other ranks to do the same; this rank's work is done, so it waits so long
  // only.
  constexpr double kFlushS = 10;
  if (gently) {
    const Clock::time_point start = Clock::now();
    ncclResult_t result = ncclCommFinalize(last);
    while (result == ncclInProgress && Seconds(Clock::now() - start).count() < kFlushS) {
      std::this_thread::sleep_for(Seconds(0.0005));
      const ncclResult_t query = ncclCommGetAsyncError(last, &result);
      if (query != ncclSuccess) result = query;
    }
    if (result == ncclSuccess) {
      ncclCommDestroy(last);
      return;
    }
  }
  ncclCommAbort(last);
}

}  // namespace zero::detail
