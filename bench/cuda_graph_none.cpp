// In the place of CUDA graphs where there are none.
#include "bench/cuda_graph.hpp"
#include "zero/error.hpp"

namespace zero::bench {

std::string why_no_graphs() { return "CUDA graphs need a build with the CUDA toolkit"; }

std::unique_ptr<CudaGraph> CudaGraph::capture(Stream&, const std::function<void()>&) {
  throw CudaError(why_no_graphs());
}

}  // namespace zero::bench
