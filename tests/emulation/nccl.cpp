// Communicators and groups of the emulated NCCL.
#include "tests/emulation/nccl.h"

#include <atomic>
#include <cstring>
#include <map>

#include "tests/emulation/nccl_clique.hpp"

namespace zero::emulation {
namespace {

std::atomic<bool> refuse_sharing = false;
std::atomic<std::size_t> living = 0;
std::atomic<std::size_t> aborts = 0;

// The clique of an id, for ranks that come.
std::shared_ptr<Clique> find_clique(const ncclUniqueId& id, int ranks) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Clique>> cliques;
  const std::lock_guard lock(mutex);
  std::weak_ptr<Clique>& known = cliques[std::string(id.internal, sizeof id.internal)];
  std::shared_ptr<Clique> clique = known.lock();
  if (clique == nullptr) known = clique = std::make_shared<Clique>(ranks);
  return clique;
}

void join_clique(CliqueRank& self) {
  Clique& clique = *self.clique;
  std::unique_lock lock(clique.mutex);
  ++clique.joined;
  clique.wake.notify_all();
  clique.wake.wait(lock, [&] { return self.aborted || clique.joined >= clique.size; });
  if (self.aborted) return;
  if (clique.size > 1 && refuse_sharing) {
    self.state = ncclInvalidUsage;
    self.last_error = "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 40";
  } else {
    self.state = ncclSuccess;
  }
  clique.wake.notify_all();
}

// Calls of the group that the calling thread has open.
struct Pending {
  ncclComm_t comm;
  cudaStream_t stream;
  NcclOp op;
};
struct Group {
  int depth = 0;
  std::vector<Pending> calls;
};
Group& group() {
  thread_local Group instance;
  return instance;
}

void put_on_stream(const std::shared_ptr<CliqueRank>& self, cudaStream_t stream,
                   std::vector<NcclOp> ops) {
  struct Launch {
    std::shared_ptr<CliqueRank> self;
    std::vector<NcclOp> ops;
  };
  const auto run = [](void* data) {
    const std::unique_ptr<Launch> launch(static_cast<Launch*>(data));
    CliqueRank& rank = *launch->self;
    rank.run(launch->ops);
    const std::lock_guard lock(rank.clique->mutex);
    --rank.on_stream;
    rank.clique->wake.notify_all();
  };
  cudaLaunchHostFunc(stream, run, new Launch{self, std::move(ops)});
}

// Hands over what one communicator has in the group.
ncclResult_t launch(ncclComm_t comm, cudaStream_t stream, std::vector<NcclOp> ops) {
  const std::shared_ptr<CliqueRank>& self = comm->self;
  const std::lock_guard lock(self->clique->mutex);
  if (self->state == ncclInProgress) {
    self->last_error = "a call on a communicator whose last one is in progress";
    return ncclInvalidUsage;
  }
  if (self->state != ncclSuccess) return self->state;
  ++self->on_stream;
  if (self->blocking) {
    put_on_stream(self, stream, std::move(ops));
    return ncclSuccess;
  }
  self->held.push_back([self, stream, ops = std::move(ops)] { put_on_stream(self, stream, ops); });
  self->polls = 0;
  self->state = ncclInProgress;
  return ncclInProgress;
}

ncclResult_t call(ncclComm_t comm, cudaStream_t stream, const NcclOp& op) {
  if (stream == nullptr) die("a call of NCCL without a stream");
  if (op.count == 0) return ncclSuccess;
  if (group().depth == 0) return launch(comm, stream, {op});
  group().calls.push_back({comm, stream, op});
  return ncclSuccess;
}

}  // namespace

void refuse_ranks_on_one_gpu(bool refuse) { refuse_sharing = refuse; }

void set_async_error(ncclComm_t comm, ncclResult_t error) {
  const std::lock_guard lock(comm->self->clique->mutex);
  comm->self->state = error;
  comm->self->last_error = "set by a test";
}

std::size_t live_communicators() { return living; }
std::size_t aborted_communicators() { return aborts; }

}  // namespace zero::emulation

using namespace zero::emulation;

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<unsigned> next = 0;
  const unsigned number = ++next;
  std::memset(id->internal, 0, sizeof id->internal);
  std::memcpy(id->internal, &number, sizeof number);
  id->internal[sizeof id->internal - 1] = '\xff';
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (ranks < 1 || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  auto self = std::make_shared<CliqueRank>();
  self->clique = find_clique(id, ranks);
  self->rank = rank;
  self->blocking = config == nullptr || config->blocking != 0;
  *comm = new ncclComm{self};
  ++living;
  if (self->blocking) {
    join_clique(*self);
    return self->state;
  }
  self->background = std::thread([self = self.get()] { join_clique(*self); });
  return ncclInProgress;
}

// Until the work of this rank is done and all ranks have come here.
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  CliqueRank& self = *comm->self;
  if (self.background.joinable()) self.background.join();
  {
    const std::lock_guard lock(self.clique->mutex);
    if (self.state != ncclSuccess) return ncclInvalidUsage;
    self.state = ncclInProgress;
    self.polls = 0;
  }
  self.background = std::thread([&self] {
    Clique& clique = *self.clique;
    std::unique_lock lock(clique.mutex);
    clique.wake.wait(lock, [&] { return self.aborted || self.on_stream == 0; });
    ++clique.finalized;
    clique.wake.notify_all();
    clique.wake.wait(lock, [&] { return self.aborted || clique.finalized >= clique.size; });
    if (!self.aborted) self.state = ncclSuccess;
  });
  if (!self.blocking) return ncclInProgress;
  self.background.join();
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  CliqueRank& self = *comm->self;
  if (self.background.joinable()) self.background.join();
  {
    const std::lock_guard lock(self.clique->mutex);
    if (self.on_stream != 0)
      die("a communicator is destroyed with %d launches left", self.on_stream);
  }
  delete comm;
  --living;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  ++aborts;
  CliqueRank& self = *comm->self;
  std::vector<std::function<void()>> never;
  {
    std::unique_lock lock(self.clique->mutex);
    self.aborted = true;
    ++self.clique->finalized;  // the others need not wait for it
    self.on_stream -= static_cast<int>(self.held.size());
    self.held.swap(never);
    self.clique->wake.notify_all();
  }
  if (self.background.joinable()) self.background.join();
  delete comm;  // what is on a stream holds on to the rest
  --living;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  CliqueRank& self = *comm->self;
  std::vector<std::function<void()>> now;
  {
    const std::lock_guard lock(self.clique->mutex);
    // The second poll finds it done.
    if (!self.held.empty() && ++self.polls >= 2) {
      self.held.swap(now);
      self.state = ncclSuccess;
    }
    for (const auto& put : now) put();
    *error = self.state;
  }
  return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  *count = comm->self->clique->size;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  *rank = comm->self->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(ncclComm_t, int* device) {
  *device = 0;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t comm) {
  if (comm == nullptr) return "";
  const std::lock_guard lock(comm->self->clique->mutex);
  return comm->self->last_error.c_str();
}

ncclResult_t ncclGroupStart() {
  ++group().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (--group().depth > 0) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  std::vector<Pending> calls = std::move(group().calls);
  group().calls.clear();
  while (!calls.empty()) {
    const Pending first = calls.front();
    std::vector<NcclOp> ops;
    std::erase_if(calls, [&](const Pending& pending) {
      const bool of_first = pending.comm == first.comm && pending.stream == first.stream;
      if (of_first) ops.push_back(pending.op);
      return of_first;
    });
    if (const ncclResult_t one = launch(first.comm, first.stream, ops); one != ncclSuccess) {
      result = one;
    }
  }
  return result;
}

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, {OpKind::kSend, data, nullptr, count, type, peer});
}

ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call(comm, stream, {OpKind::kRecv, nullptr, data, count, type, peer});
}

ncclResult_t ncclAllGather(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, {OpKind::kAllGather, send, recv, count, type, 0});
}

ncclResult_t ncclBroadcast(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, {OpKind::kBroadcast, send, recv, count, type, root});
}

ncclResult_t ncclReduceScatter(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, {OpKind::kReduceScatter, send, recv, count, type, 0});
}

ncclResult_t ncclAllReduce(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, {OpKind::kAllReduce, send, recv, count, type, 0});
}
