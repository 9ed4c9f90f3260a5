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
constexpr std::size_t kSmallSlab = std::size_t{64} << 10;
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
  for (const Slab& slab : slabs_) {
    ASAN_UNPOISON_MEMORY_REGION(slab.base, slab.bytes);
    munmap(slab.base, slab.bytes);
  }
}

std::map<std::byte*, std::size_t>::iterator Arena::grow(std::size_t bytes) {
  const bool huge = bytes >= kHugePage;
  const std::size_t size = round_up(bytes, huge ? kHugePage : kSmallSlab);
  // Over-allocate to align, then give the ends back: huge pages need aligned addresses.
  const std::size_t alignment = huge ? kHugePage : 4096;
  void* mapped =
      mmap(nullptr, size + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    throw OutOfMemory(concat("the system refused ", size, " bytes (", std::strerror(errno),
                             "); held so far: ", reserved_bytes_, " bytes"));
  }
  auto* const start = static_cast<std::byte*>(mapped);
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  const std::size_t head = round_up(address, alignment) - address;
  if (head > 0) munmap(start, head);
  std::byte* const base = start + head;
  if (alignment > head) munmap(base + size, alignment - head);
  if (huge) madvise(base, size, MADV_HUGEPAGE);
  std::memset(base, 0, size);  // touch every page now, not in the middle of a step
  slabs_.push_back({base, size});
  reserved_bytes_ += size;
  ASAN_POISON_MEMORY_REGION(base, size);

  // Slabs may happen to be neighbours; blocks are not joined across them, since each is unmapped
  // alone.
  return free_.emplace(base, size).first;
}

void* Arena::allocate(std::size_t bytes) {
  // Rounding up must not wrap: a negative size, cast, would end as a tiny block.
  if (bytes > static_cast<std::size_t>(PTRDIFF_MAX)) {
    throw OutOfMemory(concat(bytes, " bytes are more than any address space has"));
  }
  const std::size_t need = block_bytes(bytes);
  // First fit in address order keeps the low end dense, so the arena stays near its true peak.
  auto place = std::find_if(free_.begin(), free_.end(),
                            [&](const auto& block) { return block.second >= need; });
  if (place == free_.end()) place = grow(need);
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
  std::size_t size = block_bytes(bytes);
  ASAN_POISON_MEMORY_REGION(data, size);
  const auto same_slab = [&](std::byte* a, std::byte* b) {
    return std::any_of(slabs_.begin(), slabs_.end(), [&](const Slab& slab) {
      return a >= slab.base && a < slab.base + slab.bytes && b >= slab.base &&
             b < slab.base + slab.bytes;
    });
  };
  auto next = free_.lower_bound(data);
  if (next != free_.end() && data + size == next->first && same_slab(data, next->first)) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == data && same_slab(previous->first, data)) {
      previous->second += size;
      return;
    }
  }
  free_.emplace_hint(next, data, size);
}

}  // namespace zero::detail
