// Kernel source on the CPU: every CUDA thread of a block is a fiber, or part of one; barriers are
// rendezvous of fibers. A block whose threads do not all reach a barrier ends the process with a
// message. Under ThreadSanitizer neighbours are on fibers of their own that only barriers order,
// and all threads are from the first barrier on, so a race within a block is reported.
//
// It cannot show: speed, code generation, races between blocks (they run one after the other).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "tests/emulation/cuda_runtime.h"

namespace zero::emulation {

// Where the calling CUDA thread stands. REQUIRES: inside a kernel.
const uint3& thread_index();
const uint3& block_index();
const dim3& block_size();
const dim3& grid_size();

void block_barrier();

// Enqueues a launch. `thread` is what one CUDA thread does.
cudaError_t launch(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
                   std::function<void()> thread);
// Runs it on the calling thread.
void run_grid(dim3 grid, dim3 block, const std::function<void()>& thread);

// The host address behind a device address. Ends the process with a message unless all `bytes` lie
// in one live allocation at a multiple of `alignment`: `what` and the address are named.
void* resolve(const void* device_address, std::size_t bytes, std::size_t alignment,
              const char* what);
// The same for a copy, where either side may be host memory.
void* resolve_any(const void* address, std::size_t bytes, const char* what);

// Host memory that cudaMallocHost did not give: the host waits for copies of it.
bool is_pageable(const void* address);

// Counts of what the host waited for, for tests that must find none.
std::uint64_t synchronizations();

// Device memory that was not freed.
std::size_t live_allocations();
// Calls of cudaMalloc() so far.
std::uint64_t allocations();
// Whether cudaMallocHost() fails from now on, as where pages may not be locked.
void refuse_pinned_memory(bool refuse);

[[noreturn]] void die(const char* format, ...);

}  // namespace zero::emulation

#define threadIdx (::zero::emulation::thread_index())
#define blockIdx (::zero::emulation::block_index())
#define blockDim (::zero::emulation::block_size())
#define gridDim (::zero::emulation::grid_size())

inline void __syncthreads() { zero::emulation::block_barrier(); }
