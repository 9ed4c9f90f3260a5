// A CUDA graph of the work that a function hands to a stream. Where the build has no graphs (no
// toolkit, or its emulation), cuda_graph_none.cpp stands in.
//
// Thread-safety: one thread, the one that issues the work.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "zero/device.hpp"

namespace zero::bench {

// Why this build has no graphs; empty: it has.
std::string why_no_graphs();

class CudaGraph {
 public:
  // Captures what `work` enqueues on the stream, and on others that it makes wait for it; nothing
  // of that is run. Throws what `work` throws, and CudaError where something in it cannot be
  // captured, or there are no graphs.
  static std::unique_ptr<CudaGraph> capture(Stream& stream, const std::function<void()>& work);

  virtual ~CudaGraph() = default;
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  virtual std::size_t nodes() const = 0;
  // Enqueues the whole of it. Does not block.
  virtual void launch(Stream& stream) = 0;

 protected:
  CudaGraph() = default;
};

}  // namespace zero::bench
