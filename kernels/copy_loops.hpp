// The copy past the caches, for the instruction set of the including file.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/number.hpp"

namespace zero::kernels {

template <class N>
static void copy_past_caches(void* dst, const void* src, std::int64_t bytes) {
  constexpr std::int64_t kPairBytes = 2 * Lanes<N>::kWidth * 4;
  constexpr std::int64_t kAhead = 1024;
  char* to = static_cast<char*>(dst);
  const char* from = static_cast<const char*>(src);
  const auto misaligned = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % 64);
  std::int64_t i = misaligned == 0 ? 0 : 64 - misaligned;
  if (i > bytes) i = bytes;
  std::memcpy(to, from, static_cast<std::size_t>(i));
  for (; i + kPairBytes <= bytes; i += kPairBytes) {
    for (std::int64_t line = 0; line < kPairBytes; line += 64) {
      __builtin_prefetch(from + i + kAhead + line);
    }
    Lanes<N>::copy_pair(to + i, from + i);
  }
  stream_fence<N>();
  std::memcpy(to + i, from + i, static_cast<std::size_t>(bytes - i));
}

}  // namespace zero::kernels
