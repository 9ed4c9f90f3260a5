// Bytes from host to device, back, or within either.
//
// Thread-safety: as the stream, driven by one issuing thread.
#pragma once

#include <cstddef>

#include "zero/device.hpp"

namespace zero {

// Copies `bytes` bytes in the order of the stream. On a stream of a CUDA device either side may be
// host memory or memory of any device that it reaches; on a stream of the host both are host
// memory; on the meta device nothing is done. Does not block, except on the host's caller stream,
// and on CUDA where host memory is not pinned: host memory must stay as it is until the stream has
// passed the copy, device memory as the stream's other work demands. The two ranges must be equal
// or apart. Throws CudaError if the copy cannot be issued.
void copy(void* to, const void* from, std::size_t bytes, Stream& stream);

}  // namespace zero
