// The emulation ends the process where a GPU would give wrong numbers or none at all.
#include <gtest/gtest.h>

#include "kernels/cuda_device.cuh"

namespace zero {
namespace {

using kernels::global_load;
using kernels::global_store;

class Emulation : public testing::Test {
 protected:
  Emulation() {
    // Streams are threads: a death test must not fork in the middle of them.
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0);
    cudaMalloc(&memory, kBytes);
  }
  ~Emulation() override {
    cudaStreamDestroy(stream);
    cudaFree(memory);
  }
  template <class Body>
  void run(int threads, Body body) {
    ASSERT_EQ(emulation::launch(1, dim3(static_cast<unsigned>(threads)), 0, stream, body),
              cudaSuccess);
    cudaStreamSynchronize(stream);
  }
  float* floats() const { return static_cast<float*>(memory); }

  static constexpr std::size_t kBytes = 40;  // no multiple of anything that is rounded to
  cudaStream_t stream = nullptr;
  void* memory = nullptr;
};
using EmulationDeathTest = Emulation;

TEST_F(Emulation, RunsWhatIsRight) {
  run(10, [this] { global_store(floats() + threadIdx.x, static_cast<float>(threadIdx.x)); });
  float values[10] = {};
  cudaMemcpyAsync(values, memory, kBytes, cudaMemcpyDefault, stream);
  cudaStreamSynchronize(stream);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(values[i], static_cast<float>(i));
}

TEST_F(EmulationDeathTest, AHostPointerInAKernel) {
  float on_host = 1;
  EXPECT_DEATH(run(1, [&] { global_load(&on_host); }), "kernel: 0x[0-9a-f]+ is no device memory");
  EXPECT_DEATH(run(1, [] { global_load(static_cast<float*>(nullptr)); }), "is no device memory");
}

TEST_F(EmulationDeathTest, ADevicePointerOnTheHost) {
  volatile float* const place = floats();
  EXPECT_EXIT(
          *place = 1.0f, [](int status) { return status != 0; }, "");
}

TEST_F(EmulationDeathTest, OneByteOutside) {
  char* const bytes = static_cast<char*>(memory);
  EXPECT_DEATH(run(1, [&] { global_load(bytes + kBytes); }),
               "kernel: 1 bytes at 0x[0-9a-f]+ reach beyond an allocation of 40 bytes");
  EXPECT_DEATH(run(1, [&] { global_store(bytes + kBytes, 'x'); }), "reach beyond an allocation");
  EXPECT_DEATH(run(1, [&] { kernels::pack_load<4>(floats() + 8); }),
               "16 bytes at 0x[0-9a-f]+ reach beyond an allocation of 40 bytes");
  EXPECT_DEATH(run(1, [&] { global_load(bytes - 1); }),
               "is in no allocation|reach beyond an allocation");
}

TEST_F(EmulationDeathTest, AVectorThatIsNotAligned) {
  EXPECT_DEATH(run(1, [&] { kernels::pack_load<4>(floats() + 1); }),
               "kernel: 0x[0-9a-f]+ is not aligned to 16");
  EXPECT_DEATH(run(1, [&] { kernels::pack_store<2>(floats() + 1, {}); }), "not aligned to 8");
}

TEST_F(EmulationDeathTest, MemoryThatWasFreed) {
  void* gone = nullptr;
  ASSERT_EQ(cudaMalloc(&gone, 64), cudaSuccess);
  ASSERT_EQ(cudaFree(gone), cudaSuccess);
  EXPECT_DEATH(run(1, [&] { global_load(static_cast<float*>(gone)); }),
               "is in no allocation|reach beyond an allocation");
  EXPECT_EQ(cudaFree(gone), cudaErrorInvalidValue);
  int on_host = 0;
  EXPECT_EQ(cudaFree(&on_host), cudaErrorInvalidValue);
}

// Given while the memory was there, and followed when it is gone.
TEST_F(EmulationDeathTest, MemoryThatIsFreedUnderACopy) {
  const auto copy_from_freed = [this] {
    void* source = nullptr;
    cudaMalloc(&source, kBytes);
    std::atomic<bool> freed{false};
    cudaLaunchHostFunc(
        stream,
        [](void* flag) {
          while (!*static_cast<std::atomic<bool>*>(flag)) {
          }
        },
        &freed);
    cudaMemcpyAsync(memory, source, kBytes, cudaMemcpyDefault, stream);
    cudaFree(source);
    freed = true;
    cudaStreamSynchronize(stream);
  };
  EXPECT_DEATH(copy_from_freed(), "cudaMemcpyAsync from: ");
}

TEST_F(EmulationDeathTest, CopiesAndFillsOutside) {
  char host[64] = {};
  EXPECT_DEATH(cudaMemcpyAsync(memory, host, kBytes + 1, cudaMemcpyDefault, stream),
               "cudaMemcpyAsync to: 41 bytes at .* reach beyond");
  EXPECT_DEATH(cudaMemcpyAsync(host, memory, kBytes + 1, cudaMemcpyDefault, stream),
               "cudaMemcpyAsync from: 41 bytes at .* reach beyond");
  EXPECT_DEATH(cudaMemsetAsync(memory, 0, kBytes + 1, stream),
               "cudaMemsetAsync: 41 bytes at .* reach beyond");
  EXPECT_DEATH(cudaMemsetAsync(host, 0, 1, stream), "cudaMemsetAsync: .* is no device memory");
}

TEST_F(EmulationDeathTest, ABarrierThatNotAllReach) {
  EXPECT_DEATH(run(33,
                   [] {
                     if (threadIdx.x != 7) __syncthreads();
                   }),
               "__syncthreads is not reached by all threads of block .0, 0, 0.: 32 wait, 1 have");
}

TEST_F(Emulation, ABlockThatNoGpuTakesIsRefused) {
  const auto nothing = [] {};
  EXPECT_EQ(emulation::launch(1, 1025, 0, stream, nothing), cudaErrorInvalidConfiguration);
  EXPECT_EQ(emulation::launch(1, 0, 0, stream, nothing), cudaErrorInvalidConfiguration);
  EXPECT_EQ(emulation::launch(0, 1, 0, stream, nothing), cudaErrorInvalidConfiguration);
  EXPECT_EQ(emulation::launch(1, 1, 0, nullptr, nothing), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(Emulation, CountsWhatLivesAndWhatIsWaitedFor) {
  const std::size_t live = emulation::live_allocations();
  const std::uint64_t made = emulation::allocations();
  const std::uint64_t waits = emulation::synchronizations();
  void* more = nullptr;
  cudaMalloc(&more, 1);
  EXPECT_EQ(emulation::live_allocations(), live + 1);
  EXPECT_EQ(emulation::allocations(), made + 1);
  cudaFree(more);
  EXPECT_EQ(emulation::live_allocations(), live);
  cudaStreamSynchronize(stream);
  EXPECT_EQ(emulation::synchronizations(), waits + 1);
}

TEST_F(Emulation, PinnedMemoryCanBeRefused) {
  void* pinned = &pinned;
  emulation::refuse_pinned_memory(true);
  EXPECT_EQ(cudaMallocHost(&pinned, 8), cudaErrorMemoryAllocation);
  EXPECT_EQ(pinned, nullptr);
  emulation::refuse_pinned_memory(false);
  EXPECT_EQ(cudaMallocHost(&pinned, 8), cudaSuccess);
  cudaFreeHost(pinned);
}

}  // namespace
}  // namespace zero
