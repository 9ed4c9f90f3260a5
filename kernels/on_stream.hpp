// Where a kernel runs, by the kind of its stream.
#pragma once

#include <utility>

#include "kernels/cuda_kernels.hpp"
#include "zero/device.hpp"
#include "zero/error.hpp"

namespace zero::kernels {

// Runs `body` in the order of a host stream; on the meta device there is nothing to compute.
// REQUIRES: no CUDA stream.
template <class Body>
void on_stream(const char* kernel, Stream& stream, Body&& body) {
  switch (stream.kind()) {
    case DeviceKind::kHost:
      return stream.enqueue(std::forward<Body>(body));
    case DeviceKind::kMeta:
      return;
    case DeviceKind::kCuda:
      break;
  }
  throw Error(detail::concat("kernel ", kernel,
                             ": the stream is a CUDA stream; host and meta streams are valid"));
}

// The kernels for CUDA streams. Throws CudaError where the library is built without.
inline const CudaKernels& on_cuda(const char* kernel) {
  const CudaKernels* const kernels = cuda_kernels();
  if (kernels == nullptr) {
    throw CudaError(detail::concat("kernel ", kernel,
                                   ": the stream is a CUDA stream, and this build has no CUDA "
                                   "kernels; host and meta streams are valid"));
  }
  return *kernels;
}

}  // namespace zero::kernels
