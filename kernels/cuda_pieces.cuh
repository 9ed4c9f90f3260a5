// Which piece of a flat range an element belongs to, on the device.
#pragma once

#include "kernels/cuda_device.cuh"
#include "kernels/kernels.hpp"

namespace zero::kernels {

// The first piece that ends beyond element `at`, or their number. The first `low` ones do not.
__device__ inline int first_piece_beyond(PieceTable table, std::int64_t at, int low) {
  int high = static_cast<int>(table.count);
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (global_load(&table.pieces[middle].end) <= at) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace zero::kernels
