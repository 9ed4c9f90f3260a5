// Where a kernel runs, by the kind of its stream.
#pragma once

#include <utility>

#include "zero/device.hpp"
#include "zero/error.hpp"

namespace zero::kernels {

// Runs `body` in the stream's order; on the meta device there is nothing to compute.
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
                             ": the stream is a CUDA stream, and this build has no CUDA kernels; "
                             "host and meta streams are valid"));
}

}  // namespace zero::kernels
