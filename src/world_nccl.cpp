#include <cstdio>

#include "src/communicator_deadline.hpp"
#include "src/communicator_nccl.hpp"
#include "zero/error.hpp"
#include "zero/nccl.hpp"

namespace zero {
namespace {

detail::NcclSettings settings(int device_index, const NcclOptions& options) {
  return {device_index, detail::checked_seconds(options.timeout), options.nccl_reduction};
}

}  // namespace

World make_nccl_world(const NcclId& id, int rank, int world_size, int device_index,
                      const NcclOptions& options) {
  if (rank < 0 || rank >= world_size) {
    throw UsageError(detail::concat("make_nccl_world: rank ", rank, " of ", world_size,
                                    "; ranks are 0 to world_size - 1"));
  }
  const detail::NcclSettings checked = settings(device_index, options);
  auto device = make_cuda_device(device_index);
  auto communicator = detail::make_nccl_communicator(*device, id, rank, world_size, checked);
  return {std::move(device), std::move(communicator)};
}

World make_nccl_world_by_file(const std::string& path, const std::string& job_token, int rank,
                              int world_size, int device_index, const NcclOptions& options) {
  const NcclId id = exchange_nccl_id(path, job_token, rank, world_size, options.timeout);
  // All have read it when they are connected; where that fails it is of no use to anyone.
  struct Removal {
    const char* path;
    ~Removal() {
      if (path != nullptr) std::remove(path);
    }
  } const removal{rank == 0 ? path.c_str() : nullptr};
  return make_nccl_world(id, rank, world_size, device_index, options);
}

World make_nccl_world(ncclComm* existing, int device_index, const NcclOptions& options) {
  if (existing == nullptr) throw UsageError("make_nccl_world: the communicator is null");
  const detail::NcclSettings checked = settings(device_index, options);
  auto device = make_cuda_device(device_index);
  auto communicator = detail::make_nccl_communicator(*device, existing, checked);
  return {std::move(device), std::move(communicator)};
}

}  // namespace zero
