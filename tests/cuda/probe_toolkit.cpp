// Of the CUDA toolkit: graphs.
#include <cuda_runtime.h>

#include "tests/cuda/probe.hpp"
#include "zero/error.hpp"

namespace zero::test {
namespace {

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    throw CudaError(detail::concat(what, ": ", cudaGetErrorString(error)));
  }
}

class Graph final : public CapturedWork {
 public:
  Graph(cudaStream_t stream, cudaGraph_t graph) : stream_(stream), graph_(graph) {
    check(cudaGraphInstantiate(&executable_, graph_, 0), "cudaGraphInstantiate");
  }
  ~Graph() override {
    cudaGraphExecDestroy(executable_);
    cudaGraphDestroy(graph_);
  }
  void replay() override { check(cudaGraphLaunch(executable_, stream_), "cudaGraphLaunch"); }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

std::optional<RuntimeCounts> runtime_counts() { return std::nullopt; }

bool refuse_pinned_memory(bool) { return false; }

std::unique_ptr<CapturedWork> capture(Stream& stream, const std::function<void()>& issue) {
  const auto native = static_cast<cudaStream_t>(stream.native());
  check(cudaStreamBeginCapture(native, cudaStreamCaptureModeThreadLocal), "begin of the capture");
  issue();
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(native, &graph), "end of the capture");
  return std::make_unique<Graph>(native, graph);
}

}  // namespace zero::test
