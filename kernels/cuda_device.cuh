// What every kernel is made of: how it is launched, and how it reads and writes device memory.
//
// Kernels touch global memory through these functions alone. Built by nvcc they are plain 16-byte
// accesses; built for the emulation they check address, bounds and alignment first.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <tuple>

#include "kernels/number.hpp"
#include "src/cuda_check.hpp"

namespace zero::kernels {

// Before a loop: its body is there once. For loops that are long or rarely run.
#if defined(ZERO_CUDA_EMULATED)
#define ZERO_ROLLED
#else
#define ZERO_ROLLED _Pragma("unroll 1")
#endif

using detail::check_cuda;

// Runs `kernel` with one-dimensional blocks.
template <class... P, class... A>
void launch(const char* name, void (*kernel)(P...), std::int64_t blocks, int threads,
            cudaStream_t stream, const A&... arguments) {
  const dim3 grid(static_cast<unsigned>(blocks));
#if defined(ZERO_CUDA_EMULATED)
  check_cuda(emulation::launch(grid, dim3(static_cast<unsigned>(threads)), 0, stream,
                               [=] { kernel(static_cast<P>(arguments)...); }),
             name);
#else
  // Not by <<<>>>, whose errors are those of any call before it.
  std::tuple<P...> values(static_cast<P>(arguments)...);
  const auto addresses =
      std::apply([](auto&... value) { return std::array<void*, sizeof...(P)>{&value...}; }, values);
  check_cuda(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid,
                              dim3(static_cast<unsigned>(threads)),
                              const_cast<void**>(addresses.data()), 0, stream),
             name);
#endif
}

// Elements side by side, in as few accesses as their bytes allow.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) Pack {
  T at[kCount];
};

template <class To, class From>
__device__ inline To* global(From* address) {
#if defined(ZERO_CUDA_EMULATED)
  return static_cast<To*>(emulation::resolve(address, sizeof(To), alignof(To), "kernel"));
#else
  return reinterpret_cast<To*>(address);
#endif
}

template <class T>
__device__ inline T global_load(const T* from) {
  return *global<const T>(from);
}
template <class T>
__device__ inline void global_store(T* to, T value) {
  *global<T>(to) = value;
}
template <int kCount, class T>
__device__ inline Pack<T, kCount> pack_load(const T* from) {
  return *global<const Pack<T, kCount>>(from);
}
template <int kCount, class T>
__device__ inline void pack_store(T* to, const Pack<T, kCount>& values) {
  *global<Pack<T, kCount>>(to) = values;
}

#if !defined(ZERO_CUDA_EMULATED)
// CUDA spells 64 bits as unsigned long long.
__device__ inline void hardware_add(std::uint32_t* to, std::uint32_t value) {
  atomicAdd(to, value);
}
__device__ inline void hardware_min(std::uint64_t* to, std::uint64_t value) {
  atomicMin(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}
__device__ inline void hardware_add(std::uint64_t* to, std::uint64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}
#endif

// Blocks may come in any order, so only what is free of order is added like this.
template <class T>
__device__ inline void global_atomic_add(T* to, T value) {
#if defined(ZERO_CUDA_EMULATED)
  std::atomic_ref<T>(*global<T>(to)).fetch_add(value);
#else
  hardware_add(to, value);
#endif
}
template <class T>
__device__ inline void global_atomic_max(T* to, T value) {
#if defined(ZERO_CUDA_EMULATED)
  std::atomic_ref<T> place(*global<T>(to));
  T seen = place.load();
  while (seen < value && !place.compare_exchange_weak(seen, value)) {
  }
#else
  atomicMax(to, value);
#endif
}
template <class T>
__device__ inline void global_atomic_min(T* to, T value) {
#if defined(ZERO_CUDA_EMULATED)
  std::atomic_ref<T> place(*global<T>(to));
  T seen = place.load();
  while (value < seen && !place.compare_exchange_weak(seen, value)) {
  }
#else
  hardware_min(to, value);
#endif
}
// The same in shared memory.
template <class T>
__device__ inline void shared_atomic_add(T* to, T value) {
#if defined(ZERO_CUDA_EMULATED)
  std::atomic_ref<T>(*to).fetch_add(value);
#else
  hardware_add(to, value);
#endif
}
template <class T>
__device__ inline void shared_atomic_max(T* to, T value) {
#if defined(ZERO_CUDA_EMULATED)
  std::atomic_ref<T> place(*to);
  T seen = place.load();
  while (seen < value && !place.compare_exchange_weak(seen, value)) {
  }
#else
  atomicMax(to, value);
#endif
}

}  // namespace zero::kernels
