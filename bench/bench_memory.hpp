// Memory and a stream for benchmarks.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "zero/device.hpp"

namespace zero::bench {

// Huge pages, touched before any timing: a first touch costs more than most kernels.
class HugePages {
 public:
  HugePages() = default;
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;
  ~HugePages() {
    for (const Mapping& m : mappings_) munmap(m.address, m.bytes);
  }

  // `elems` elements, zeroed, at a multiple of 2 MiB.
  template <class T>
  T* get(std::int64_t elems) {
    constexpr std::size_t kPage = std::size_t{2} << 20;
    const std::size_t size = static_cast<std::size_t>(elems) * sizeof(T);
    const std::size_t bytes = (size + kPage - 1) / kPage * kPage + kPage;
    void* const address =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) throw std::bad_alloc();
    mappings_.push_back({address, bytes});
    madvise(address, bytes, MADV_HUGEPAGE);
    const auto start = (reinterpret_cast<std::uintptr_t>(address) + kPage - 1) / kPage * kPage;
    std::memset(reinterpret_cast<void*>(start), 0, size);
    return reinterpret_cast<T*>(start);
  }

 private:
  struct Mapping {
    void* address;
    std::size_t bytes;
  };
  std::vector<Mapping> mappings_;
};

// Runs host work at once.
class ImmediateStream final : public Stream {
 public:
  ImmediateStream() : Stream(DeviceKind::kHost) {}
  void enqueue(Task task) override { task(); }
  Event record() override { return {}; }
  void wait(const Event&) override {}
  void synchronize() override {}
};

}  // namespace zero::bench
