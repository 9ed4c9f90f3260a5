#include "bench/cuda_graph.hpp"

#include <cuda_runtime.h>

#include "zero/error.hpp"

namespace zero::bench {
namespace {

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw CudaError(detail::concat("CUDA: ", what, ": ", cudaGetErrorName(error), ": ",
                                 cudaGetErrorString(error)));
}

cudaStream_t native(Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

class Graph final : public CudaGraph {
 public:
  explicit Graph(cudaGraph_t graph) : graph_(graph) {
    const cudaError_t error = cudaGraphInstantiate(&executable_, graph_, 0);
    if (error != cudaSuccess) cudaGraphDestroy(graph_);
    check(error, "cudaGraphInstantiate");
  }
  ~Graph() override {
    cudaGraphExecDestroy(executable_);
    cudaGraphDestroy(graph_);
  }

  std::size_t nodes() const override {
    std::size_t count = 0;
    check(cudaGraphGetNodes(graph_, nullptr, &count), "cudaGraphGetNodes");
    return count;
  }
  void launch(Stream& stream) override {
    check(cudaGraphLaunch(executable_, native(stream)), "cudaGraphLaunch");
  }

 private:
  cudaGraph_t graph_;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

std::string why_no_graphs() { return {}; }

std::unique_ptr<CudaGraph> CudaGraph::capture(Stream& stream, const std::function<void()>& work) {
  // Of this thread: a call that cannot be captured is an error, not something left out.
  check(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(native(stream), &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  check(cudaStreamEndCapture(native(stream), &graph), "cudaStreamEndCapture");
  return std::make_unique<Graph>(graph);
}

}  // namespace zero::bench
