// The decision on a CUDA device: one block gathers and concludes, then a thread per parameter forms
// its constants.
#include "kernels/cuda_device.cuh"
#include "kernels/cuda_kernels_impl.hpp"
#include "kernels/decision_math.hpp"

namespace zero::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kLanes = 64;  // of the block that concludes: there is little to do

struct GlobalMemory {
  template <class T>
  __device__ static T load(const T* from) {
    return global_load(from);
  }
  template <class T>
  __device__ static void store(T* to, const T& value) {
    global_store(to, value);
  }
};

__global__ void __launch_bounds__(kThreads) begin_kernel(StepRules rules, StepMemory memory) {
  const int word = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (word < rules.layout.touched()) clear_message_word<GlobalMemory>(rules, memory, word);
}

__global__ void __launch_bounds__(kLanes) conclude_kernel(StepRules rules, StepMemory memory) {
  __shared__ Gathered gathered;
  __shared__ std::uint64_t differences[kLanes];
  const int lane = static_cast<int>(threadIdx.x);
  if (lane < kGatherParts) gather_part<GlobalMemory>(rules, memory, lane, gathered);
  differences[lane] = first_difference<GlobalMemory>(rules, memory, lane, kLanes);
  __syncthreads();
  for (int half = kLanes / 2; half > 0; half /= 2) {
    if (lane < half && differences[lane + half] < differences[lane]) {
      differences[lane] = differences[lane + half];
    }
    __syncthreads();
  }
  if (lane == 0) conclude<GlobalMemory>(rules, memory, gathered, differences[0]);
}

__global__ void __launch_bounds__(kThreads) constants_kernel(StepRules rules, StepMemory memory) {
  const int param = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (param < rules.layout.params) form_constants<GlobalMemory>(rules, memory, param);
}

std::int64_t blocks_for(int items) { return (items + kThreads - 1) / kThreads; }

}  // namespace

void cuda_begin_vote(const StepRules& rules, const StepMemory& memory, void* stream) {
  launch("begin_vote", begin_kernel, blocks_for(rules.layout.touched()), kThreads,
         static_cast<cudaStream_t>(stream), rules, memory);
}

void cuda_decide(const StepRules& rules, const StepMemory& memory, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  launch("decide", conclude_kernel, 1, kLanes, on, rules, memory);
  if (rules.layout.params == 0) return;
  launch("decide", constants_kernel, blocks_for(rules.layout.params), kThreads, on, rules, memory);
}

}  // namespace zero::kernels
