// Eight floats. Include only where the compiler may use AVX2, FMA and F16C, after <immintrin.h>.
#pragma once

#include "kernels/number.hpp"

namespace zero::kernels {

struct Avx2 {
  __m256 v;
};

ZERO_MATH Avx2 operator+(Avx2 a, Avx2 b) { return {_mm256_add_ps(a.v, b.v)}; }
ZERO_MATH Avx2 operator*(Avx2 a, Avx2 b) { return {_mm256_mul_ps(a.v, b.v)}; }
ZERO_MATH Avx2 operator/(Avx2 a, Avx2 b) { return {_mm256_div_ps(a.v, b.v)}; }
ZERO_MATH Avx2 fused(Avx2 a, Avx2 b, Avx2 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
ZERO_MATH Avx2 root(Avx2 a) { return {_mm256_sqrt_ps(a.v)}; }

// from_float<bf16>, in the low halves of 32-bit lanes.
ZERO_MATH __m256i bf16_lanes(__m256 x) {
  const __m256i u = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x00400000));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
}

ZERO_MATH __m256i pack_pair(const bf16*, Avx2 a, Avx2 b) {
  const __m256i mixed = _mm256_packus_epi32(bf16_lanes(a.v), bf16_lanes(b.v));
  return _mm256_permute4x64_epi64(mixed, 0xd8);
}

ZERO_MATH __m256i pack_pair(const fp16*, Avx2 a, Avx2 b) {
  const __m128i low = _mm256_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m128i high = _mm256_cvtps_ph(b.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

template <>
struct Lanes<Avx2> {
  static constexpr int kWidth = 8;

  [[gnu::always_inline]] static Avx2 spread(float x) { return {_mm256_set1_ps(x)}; }

  [[gnu::always_inline]] static Avx2 load(const float* from) { return {_mm256_loadu_ps(from)}; }
  [[gnu::always_inline]] static Avx2 load(const bf16* from) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16))};
  }
  [[gnu::always_inline]] static Avx2 load(const fp16* from) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))};
  }

  [[gnu::always_inline]] static void store(float* to, Avx2 a) { _mm256_storeu_ps(to, a.v); }
  [[gnu::always_inline]] static void store_pair(float* to, Avx2 a, Avx2 b) {
    _mm256_storeu_ps(to, a.v);
    _mm256_storeu_ps(to + 8, b.v);
  }
  template <class T>
  [[gnu::always_inline]] static void store_pair(T* to, Avx2 a, Avx2 b) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), pack_pair(to, a, b));
  }

  [[gnu::always_inline]] static void stream_pair(float* to, Avx2 a, Avx2 b) {
    _mm256_stream_ps(to, a.v);
    _mm256_stream_ps(to + 8, b.v);
  }
  template <class T>
  [[gnu::always_inline]] static void stream_pair(T* to, Avx2 a, Avx2 b) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), pack_pair(to, a, b));
  }

  // The bytes of a pair of floats, past the caches.
  [[gnu::always_inline]] static void copy_pair(void* dst, const void* src) {
    __m256i* to = static_cast<__m256i*>(dst);
    const __m256i* from = static_cast<const __m256i*>(src);
    const __m256i first = _mm256_loadu_si256(from);
    const __m256i second = _mm256_loadu_si256(from + 1);
    _mm256_stream_si256(to, first);
    _mm256_stream_si256(to + 1, second);
  }
  [[gnu::always_inline]] static void fence() { _mm_sfence(); }
};

}  // namespace zero::kernels
