#include "src/arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "zero/device.hpp"
#include "zero/error.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define ZERO_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ZERO_ASAN 1
#endif
#endif

#if defined(ZERO_ASAN)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) (static_cast<void>(address))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) (static_cast<void>(address))
#endif

namespace zero::detail {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kSmallStep = std::size_t{64} << 10;
constexpr std::size_t kRegion = std::size_t{16} << 30;  // of address space, which costs nothing
#if defined(ZERO_ASAN)
constexpr std::size_t kGap = Device::kAlignment;  // poisoned: overruns by one element are reported
#else
constexpr std::size_t kGap = 0;
#endif

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

// The space a block takes: at least one unit, so that empty blocks have distinct addresses.
std::size_t block_bytes(std::size_t bytes) {
  return round_up(std::max<std::size_t>(bytes, 1), Device::kAlignment) + kGap;
}

}  // namespace

Arena::~Arena() {
  for (const Region& region : regions_) {
    ASAN_UNPOISON_MEMORY_REGION(region.base, region.committed);
    munmap(region.base, region.bytes);
  }
}

// Address space without memory behind it, aligned for huge pages.
Arena::Region Arena::reserve(std::size_t bytes) {
  // Over-allocate to align, then give the ends back.
  void* const mapped =
      mmap(nullptr, bytes + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return {};
  auto* const start = static_cast<std::byte*>(mapped);
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  const std::size_t head = round_up(address, kHugePage) - address;
  if (head > 0) munmap(start, head);
  std::byte* const base = start + head;
  munmap(base + bytes, kHugePage - head);
  madvise(base, bytes, MADV_HUGEPAGE);
  return {base, bytes, 0};
}

bool Arena::commit(Region& region, std::size_t bytes) {
  // Small arenas take small pages; from the first huge one on whole ones.
  const std::size_t end = region.committed + bytes;
  const std::size_t wanted = round_up(end, end < kHugePage ? kSmallStep : kHugePage);
  if (wanted > region.bytes) return false;
  std::byte* const from = region.base + region.committed;
  const std::size_t size = wanted - region.committed;
  if (mprotect(from, size, PROT_READ | PROT_WRITE) != 0) return false;
  std::memset(from, 0, size);  // touch every page now, not in the middle of a step
  ASAN_POISON_MEMORY_REGION(from, size);
  region.committed = wanted;
  reserved_bytes_ += size;
  release(from, size);
  return true;
}

// Afterwards the last free block of the last region has at least `bytes`.
void Arena::grow(std::size_t bytes) {
  if (!regions_.empty()) {
    Region& region = regions_.back();
    std::size_t free_at_end = 0;
    if (!free_.empty()) {
      const auto& [place, size] = *std::prev(free_.end());
      if (place + size == region.base + region.committed) free_at_end = size;
    }
    if (commit(region, bytes - free_at_end)) return;
  }
  // As much as a rank may ever want, so that blocks have neighbours to be joined with; less where
  // the process may not have that much.
  const std::size_t least = round_up(bytes, kHugePage);
  Region region;
  for (std::size_t size = std::max(least, kRegion); region.base == nullptr; size /= 2) {
    region = reserve(std::max(size, least));
    if (size <= least) break;
  }
  if (region.base != nullptr) regions_.push_back(region);
  if (region.base == nullptr || !commit(regions_.back(), bytes)) {
    const int error = errno;
    if (region.base != nullptr) {
      munmap(region.base, region.bytes);
      regions_.pop_back();
    }
    throw OutOfMemory(concat("the system refused ", bytes, " bytes (", std::strerror(error),
                             "); held so far: ", reserved_bytes_, " bytes"));
  }
}

void* Arena::allocate(std::size_t bytes) {
  // Rounding up must not wrap: a negative size, cast, would end as a tiny block.
  if (bytes > static_cast<std::size_t>(PTRDIFF_MAX)) {
    throw OutOfMemory(concat(bytes, " bytes are more than any address space has"));
  }
  const std::size_t need = block_bytes(bytes);
  // First fit in address order keeps the low end dense, so the arena stays near its true peak.
  const auto find = [&] {
    return std::find_if(free_.begin(), free_.end(),
                        [&](const auto& block) { return block.second >= need; });
  };
  auto place = find();
  if (place == free_.end()) {
    grow(need);
    place = find();
  }
  std::byte* const data = place->first;
  const std::size_t rest = place->second - need;
  if (rest == 0) {
    free_.erase(place);
  } else {
    // Re-key the node instead of making a new one: no allocation inside a step.
    auto node = free_.extract(place);
    node.key() = data + need;
    node.mapped() = rest;
    free_.insert(std::move(node));
  }
  ASAN_UNPOISON_MEMORY_REGION(data, bytes);
  return data;
}

void Arena::deallocate(void* pointer, std::size_t bytes) noexcept {
  auto* data = static_cast<std::byte*>(pointer);
  const std::size_t size = block_bytes(bytes);
  ASAN_POISON_MEMORY_REGION(data, size);
  release(data, size);
}

void Arena::release(std::byte* data, std::size_t size) {
  // Blocks are not joined across regions, which may happen to be neighbours: each is unmapped
  // alone.
  const auto begins_region = [&](const std::byte* at) {
    return std::any_of(regions_.begin(), regions_.end(),
                       [&](const Region& region) { return at == region.base; });
  };
  auto next = free_.lower_bound(data);
  if (next != free_.end() && data + size == next->first && !begins_region(next->first)) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin() && !begins_region(data)) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == data) {
      previous->second += size;
      return;
    }
  }
  free_.emplace_hint(next, data, size);
}

}  // namespace zero::detail
