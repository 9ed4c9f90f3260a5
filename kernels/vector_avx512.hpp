// Sixteen floats. Include only where the compiler may use AVX-512 F, BW, VL and DQ, after
// <immintrin.h>.
#pragma once

#include "kernels/number.hpp"

namespace zero::kernels {

struct Avx512 {
  __m512 v;
};

ZERO_MATH Avx512 operator+(Avx512 a, Avx512 b) { return {_mm512_add_ps(a.v, b.v)}; }
ZERO_MATH Avx512 operator*(Avx512 a, Avx512 b) { return {_mm512_mul_ps(a.v, b.v)}; }
ZERO_MATH Avx512 operator/(Avx512 a, Avx512 b) { return {_mm512_div_ps(a.v, b.v)}; }
ZERO_MATH Avx512 fused(Avx512 a, Avx512 b, Avx512 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
ZERO_MATH Avx512 root(Avx512 a) { return {_mm512_sqrt_ps(a.v)}; }

// from_float<bf16>, in the low halves of 32-bit lanes. VCVTNEPS2BF16 would flush subnormals.
ZERO_MATH __m512i bf16_lanes(__m512 x) {
  const __m512i u = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
  const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  const __m512i quiet = _mm512_set1_epi32(0x00400000);
  return _mm512_srli_epi32(_mm512_mask_or_epi32(rounded, is_nan, u, quiet), 16);
}

ZERO_MATH __m512i pack_pair(const bf16*, Avx512 a, Avx512 b) {
  const __m512i mixed = _mm512_packus_epi32(bf16_lanes(a.v), bf16_lanes(b.v));
  return _mm512_permutexvar_epi64(_mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0), mixed);
}

ZERO_MATH __m512i pack_pair(const fp16*, Avx512 a, Avx512 b) {
  const __m256i low = _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m256i high = _mm512_cvtps_ph(b.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

template <>
struct Lanes<Avx512> {
  static constexpr int kWidth = 16;

  [[gnu::always_inline]] static Avx512 spread(float x) { return {_mm512_set1_ps(x)}; }

  [[gnu::always_inline]] static Avx512 load(const float* from) { return {_mm512_loadu_ps(from)}; }
  [[gnu::always_inline]] static Avx512 load(const bf16* from) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
  }
  [[gnu::always_inline]] static Avx512 load(const fp16* from) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))};
  }

  [[gnu::always_inline]] static void store(float* to, Avx512 a) { _mm512_storeu_ps(to, a.v); }
  [[gnu::always_inline]] static void store_pair(float* to, Avx512 a, Avx512 b) {
    _mm512_storeu_ps(to, a.v);
    _mm512_storeu_ps(to + 16, b.v);
  }
  template <class T>
  [[gnu::always_inline]] static void store_pair(T* to, Avx512 a, Avx512 b) {
    _mm512_storeu_si512(to, pack_pair(to, a, b));
  }

  [[gnu::always_inline]] static void stream_pair(float* to, Avx512 a, Avx512 b) {
    _mm512_stream_ps(to, a.v);
    _mm512_stream_ps(to + 16, b.v);
  }
  template <class T>
  [[gnu::always_inline]] static void stream_pair(T* to, Avx512 a, Avx512 b) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), pack_pair(to, a, b));
  }

  // The bytes of a pair of floats, past the caches.
  [[gnu::always_inline]] static void copy_pair(void* dst, const void* src) {
    __m512i* to = static_cast<__m512i*>(dst);
    const __m512i* from = static_cast<const __m512i*>(src);
    const __m512i first = _mm512_loadu_si512(from);
    const __m512i second = _mm512_loadu_si512(from + 1);
    _mm512_stream_si512(to, first);
    _mm512_stream_si512(to + 1, second);
  }
  [[gnu::always_inline]] static void fence() { _mm_sfence(); }
};

}  // namespace zero::kernels
