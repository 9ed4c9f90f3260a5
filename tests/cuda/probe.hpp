// What tests ask of the CUDA runtime beyond the library's interface. Three implementations, of
// which CMake takes one: of the toolkit, of the emulation, and of a build without CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "zero/device.hpp"

namespace zero::test {

// Counts of the emulation; nothing elsewhere.
struct RuntimeCounts {
  std::uint64_t host_waits = 0;      // of the host for a stream or an event
  std::uint64_t allocations = 0;     // calls of cudaMalloc()
  std::size_t live_allocations = 0;  // of device memory
};
std::optional<RuntimeCounts> runtime_counts();

// Makes pinned memory fail, or work again. False where that cannot be done.
bool refuse_pinned_memory(bool refuse);

// Work that was captured once, to be run any number of times.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
  virtual void replay() = 0;  // on the stream it was captured from; does not block
};
// Captures what `issue` enqueues to the stream. Null where there are no CUDA graphs.
std::unique_ptr<CapturedWork> capture(Stream& stream, const std::function<void()>& issue);

}  // namespace zero::test
