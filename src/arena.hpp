// Host memory of one rank: slabs from the system, cut first-fit and coalesced on release.
//
// A page touched for the first time costs 13-18 us per 4 KiB, so slabs use huge pages, are touched
// when they are made, and are kept until the end: training in steady state takes nothing from the
// system. Under AddressSanitizer free memory and the gaps between blocks are poisoned, so that an
// overrun or a use after release is reported although the memory never leaves the arena.
//
// Not thread-safe: one issuing thread.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

namespace zero::detail {

class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Throws OutOfMemory. 0 bytes give an address of their own as well.
  void* allocate(std::size_t bytes);
  void deallocate(void* pointer, std::size_t bytes) noexcept;
  std::size_t reserved_bytes() const { return reserved_bytes_; }

 private:
  struct Slab {
    std::byte* base;
    std::size_t bytes;
  };
  // Makes a slab of at least `bytes` and returns its free block.
  std::map<std::byte*, std::size_t>::iterator grow(std::size_t bytes);

  std::vector<Slab> slabs_;
  std::map<std::byte*, std::size_t> free_;  // address -> bytes; neighbours are always joined
  std::size_t reserved_bytes_ = 0;
};

}  // namespace zero::detail
