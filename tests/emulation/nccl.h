// A stand-in for NCCL on a machine without GPU: the part of it that this project uses, with the
// names and meanings of the real one (2.28). Ranks are threads of one process, each with a
// communicator of its own; what they enqueue runs on the threads of the emulated streams.
//
// As with NCCL: a call on a non-blocking communicator may return ncclInProgress, and nothing is on
// the stream before ncclCommGetAsyncError has said ncclSuccess; the sends and receives of a group
// go on together; calls that do not match hang until ncclCommAbort, and the abort of one rank tells
// the others nothing; sums are rounded to the wire dtype at every hop. Two things differ: several
// ranks may share the one device that there is, unless told otherwise below, and the CUDA context
// knows nothing of an error.
#pragma once

#include <climits>
#include <cstddef>

#include "tests/emulation/cuda_runtime.h"

struct ncclComm;
using ncclComm_t = ncclComm*;

struct ncclUniqueId {
  char internal[128];
};

enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};

enum ncclDataType_t { ncclFloat16 = 6, ncclFloat32 = 7, ncclBfloat16 = 9 };
enum ncclRedOp_t { ncclSum = 0 };

struct ncclConfig_t {
  int blocking;
};
#define NCCL_CONFIG_INITIALIZER \
  { INT_MIN }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);
ncclResult_t ncclCommCount(ncclComm_t comm, int* count);
ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank);
ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device);
const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);

ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclAllGather(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllReduce(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);

namespace zero::emulation {

// From now on communicators of several ranks are refused as NCCL refuses ranks that share a GPU.
void refuse_ranks_on_one_gpu(bool refuse);
// What ncclCommGetAsyncError says from now on.
void set_async_error(ncclComm_t comm, ncclResult_t error);
// Communicators that were neither destroyed nor aborted.
std::size_t live_communicators();
// Communicators that were aborted so far.
std::size_t aborted_communicators();

}  // namespace zero::emulation
