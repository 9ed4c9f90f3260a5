// The communicator of NCCL. Built without NCCL these throw CommError.
#pragma once

#include <memory>

#include "zero/communicator.hpp"
#include "zero/nccl_id.hpp"

struct ncclComm;

namespace zero::detail {

struct NcclSettings {
  int device_index = 0;
  double timeout_s = 300;
  bool nccl_reduction = false;
};

// `device` is CUDA device settings.device_index, and outlives the communicator.
std::unique_ptr<Communicator> make_nccl_communicator(Device& device, const NcclId& id, int rank,
                                                     int world_size, const NcclSettings& settings);
std::unique_ptr<Communicator> make_nccl_communicator(Device& device, ncclComm* existing,
                                                     const NcclSettings& settings);

}  // namespace zero::detail
