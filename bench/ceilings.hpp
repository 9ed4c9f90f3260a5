// What memory allows for the read/write mix of each kernel, in the widest instructions at hand.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "kernels/kernels.hpp"
#if defined(__x86_64__)
#include "kernels/intrinsics.hpp"
#endif

namespace zero::bench::ceilings_plain {
#if defined(__x86_64__)
#define ZERO_CEILING_STREAM(to, line)                                      \
  do {                                                                     \
    const __m128i* zero_parts = reinterpret_cast<const __m128i*>(&(line)); \
    __m128i* zero_to = reinterpret_cast<__m128i*>(to);                     \
    _mm_stream_si128(zero_to, zero_parts[0]);                              \
    _mm_stream_si128(zero_to + 1, zero_parts[1]);                          \
    _mm_stream_si128(zero_to + 2, zero_parts[2]);                          \
    _mm_stream_si128(zero_to + 3, zero_parts[3]);                          \
  } while (false)
#define ZERO_CEILING_FENCE() _mm_sfence()
#else
#define ZERO_CEILING_STREAM(to, line) (*reinterpret_cast<Line*>(to) = (line))
#define ZERO_CEILING_FENCE() static_cast<void>(0)
#endif
#include "bench/ceiling_loops.inc"
#undef ZERO_CEILING_STREAM
}  // namespace zero::bench::ceilings_plain

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl")
#endif
namespace zero::bench::ceilings_wide {
#define ZERO_CEILING_STREAM(to, line) \
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), *reinterpret_cast<const __m512i*>(&(line)))
#include "bench/ceiling_loops.inc"
#undef ZERO_CEILING_STREAM
}  // namespace zero::bench::ceilings_wide
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#else
namespace zero::bench {
namespace ceilings_wide = ceilings_plain;
}
#endif
#undef ZERO_CEILING_FENCE

namespace zero::bench {

inline bool wide() { return kernels::best_isa() == kernels::Isa::kAvx512; }

inline void adam_ceiling(float* p, float* m, float* v, const float* g, std::int64_t elems) {
  wide() ? ceilings_wide::adam(p, m, v, g, elems) : ceilings_plain::adam(p, m, v, g, elems);
}

inline void adam_mixed_ceiling(float* p, float* m, float* v, const void* g, void* q,
                               std::int64_t elems) {
  wide() ? ceilings_wide::adam_mixed(p, m, v, g, q, elems)
         : ceilings_plain::adam_mixed(p, m, v, g, q, elems);
}

template <int kA, int kB, int kOut, bool kStreamed>
void mix_ceiling(const void* a, const void* b, void* out, std::int64_t blocks) {
  wide() ? ceilings_wide::mix<kA, kB, kOut, kStreamed>(a, b, out, blocks)
         : ceilings_plain::mix<kA, kB, kOut, kStreamed>(a, b, out, blocks);
}

}  // namespace zero::bench
