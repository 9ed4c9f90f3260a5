// Device memory with addresses that only resolve() understands.
#include <array>
#include <cstdlib>
#include <map>
#include <new>
#include <shared_mutex>

#include "tests/emulation/emulation.hpp"

namespace zero::emulation {
namespace {

// No address of a process has this bit: following one ends it with SIGSEGV.
constexpr std::uintptr_t kDeviceBit = std::uintptr_t{1} << 62;
constexpr std::size_t kAlignment = 256;  // of cudaMalloc
constexpr std::size_t kTotalBytes = std::size_t{8} << 30;

struct Memory {
  std::shared_mutex mutex;
  std::map<std::uintptr_t, std::size_t> pinned;  // host address -> bytes
  std::map<std::uintptr_t, std::size_t> blocks;  // device address -> bytes
  std::size_t bytes = 0;
  std::atomic<std::uint64_t> allocations = 0;
  std::atomic<bool> pinned_refused = false;
};

Memory& memory() {
  static Memory instance;
  return instance;
}

// Grows when memory is freed: what a thread remembers of before is no longer sure.
std::atomic<std::uint64_t> frees = 0;

struct Recent {
  std::uintptr_t begin;
  std::size_t bytes;
  std::uint64_t frees;
};
// The allocations that the thread looked up last: a kernel comes back to the same few again and
// again. ThreadSanitizer would see fibers that share a thread race for them.
struct RecentlyFound {
  std::array<Recent, 8> entries;
  std::size_t next;
};
constinit thread_local RecentlyFound recently_found = {};

[[gnu::no_sanitize_thread, gnu::noinline]] bool was_found(std::uintptr_t address,
                                                          std::size_t bytes) {
  const std::uint64_t now = frees.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < recently_found.entries.size(); ++i) {
    const Recent& r = recently_found.entries.data()[i];
    if (r.frees == now && address >= r.begin && address + bytes <= r.begin + r.bytes) return true;
  }
  return false;
}

[[gnu::no_sanitize_thread, gnu::noinline]] void remember(std::uintptr_t begin, std::size_t bytes) {
  RecentlyFound& r = recently_found;
  r.entries.data()[r.next] = {begin, bytes, frees.load(std::memory_order_acquire)};
  r.next = (r.next + 1) % r.entries.size();
}

bool is_device(const void* address) {
  return (reinterpret_cast<std::uintptr_t>(address) & kDeviceBit) != 0;
}

}  // namespace

void* resolve(const void* device_address, std::size_t bytes, std::size_t alignment,
              const char* what) {
  const auto address = reinterpret_cast<std::uintptr_t>(device_address);
  if (!is_device(device_address)) die("%s: %p is no device memory", what, device_address);
  if (address % alignment != 0)
    die("%s: %p is not aligned to %zu", what, device_address, alignment);
  if (was_found(address, bytes)) return reinterpret_cast<void*>(address & ~kDeviceBit);
  Memory& m = memory();
  const std::shared_lock lock(m.mutex);
  auto block = m.blocks.upper_bound(address);
  if (block == m.blocks.begin()) die("%s: %p is in no allocation", what, device_address);
  --block;
  if (address + bytes > block->first + block->second) {
    die("%s: %zu bytes at %p reach beyond an allocation of %zu bytes", what, bytes, device_address,
        block->second);
  }
  remember(block->first, block->second);
  return reinterpret_cast<void*>(address & ~kDeviceBit);
}

void* resolve_any(const void* address, std::size_t bytes, const char* what) {
  return is_device(address) ? resolve(address, bytes, 1, what) : const_cast<void*>(address);
}

std::size_t live_allocations() {
  Memory& m = memory();
  const std::shared_lock lock(m.mutex);
  return m.blocks.size();
}

std::uint64_t allocations() { return memory().allocations.load(); }

bool is_pageable(const void* address) {
  if (is_device(address)) return false;
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::shared_lock lock(memory().mutex);
  const auto next = memory().pinned.upper_bound(at);
  if (next == memory().pinned.begin()) return true;
  const auto& [begin, bytes] = *std::prev(next);
  return at >= begin + bytes;
}

void refuse_pinned_memory(bool refuse) { memory().pinned_refused = refuse; }

}  // namespace zero::emulation

using namespace zero::emulation;

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  *pointer = nullptr;
  Memory& m = memory();
  ++m.allocations;
  const std::lock_guard lock(m.mutex);
  if (bytes == 0 || m.bytes + bytes > kTotalBytes) return cudaErrorMemoryAllocation;
  // To the byte, so that AddressSanitizer sees an access beyond it.
  void* const host =
      std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (host == nullptr) return cudaErrorMemoryAllocation;
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(host) | kDeviceBit;
  m.blocks[address] = bytes;
  m.bytes += bytes;
  *pointer = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  const auto found = m.blocks.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == m.blocks.end()) return cudaErrorInvalidValue;
  ++frees;
  std::free(reinterpret_cast<void*>(found->first & ~kDeviceBit));
  m.bytes -= found->second;
  m.blocks.erase(found);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  Memory& m = memory();
  const std::shared_lock lock(m.mutex);
  *total = kTotalBytes;
  *free = kTotalBytes - m.bytes;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  attributes->devicePointer = is_pageable(pointer) ? nullptr : const_cast<void*>(pointer);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  *pointer = nullptr;
  if (memory().pinned_refused) return cudaErrorMemoryAllocation;
  *pointer = std::malloc(bytes == 0 ? 1 : bytes);
  if (*pointer == nullptr) return cudaErrorMemoryAllocation;
  const std::lock_guard lock(memory().mutex);
  memory().pinned[reinterpret_cast<std::uintptr_t>(*pointer)] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* pointer) {
  {
    const std::lock_guard lock(memory().mutex);
    if (memory().pinned.erase(reinterpret_cast<std::uintptr_t>(pointer)) == 0) {
      return cudaErrorInvalidValue;
    }
  }
  std::free(pointer);
  return cudaSuccess;
}
