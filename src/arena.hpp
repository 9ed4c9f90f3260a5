// Host memory of one rank: one stretch of addresses that grows at its end, cut first-fit and
// coalesced on release, so that what is held stays near what is counted.
//
// A page touched for the first time costs 13-18 us per 4 KiB, so growth is in huge pages, touched
// at once, and kept until the end: training in steady state takes nothing from the system. Under
// AddressSanitizer free memory and the gaps between blocks are poisoned, so that an overrun or a
// use after release is reported although the memory never leaves the arena.
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
  // Address space, of which a part at the beginning has memory.
  struct Region {
    std::byte* base = nullptr;
    std::size_t bytes = 0;
    std::size_t committed = 0;
  };
  static Region reserve(std::size_t bytes);
  bool commit(Region& region, std::size_t bytes);
  void grow(std::size_t bytes);
  void release(std::byte* data, std::size_t size);

  std::vector<Region> regions_;
  std::map<std::byte*, std::size_t> free_;  // address -> bytes; neighbours are always joined
  std::size_t reserved_bytes_ = 0;
};

}  // namespace zero::detail
