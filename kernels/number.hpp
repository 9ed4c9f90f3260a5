// The number types that element arithmetic is written over: `float` here, and the vectors of an
// instruction set in kernels/vector_*.hpp. All operations are single IEEE-754 operations, so a
// formula gives the same bits for every number type.
//
// Everything in the *_math.hpp and *_loops.hpp headers has internal linkage: a translation unit
// compiles it for its own instruction set, and the linker must not merge those.
#pragma once

#include <cmath>

#include "zero/dtype.hpp"

#if defined(__CUDACC__)
#define ZERO_MATH ZERO_HOST_DEVICE static inline
#else
#define ZERO_MATH [[gnu::always_inline]] static inline
#endif

namespace zero::kernels {

// a * b + c, rounded once.
ZERO_MATH float fused(float a, float b, float c) { return std::fma(a, b, c); }
ZERO_MATH float root(float a) { return std::sqrt(a); }

// How a number type reads and writes memory. `kWidth` elements make one number; a pair is two
// numbers side by side, and `stream_pair` writes it past the caches. REQUIRES (stream_pair): the
// destination is aligned to the bytes of the pair, 64 at most.
template <class N>
struct Lanes;

template <>
struct Lanes<float> {
  static constexpr int kWidth = 1;
};

template <class N>
ZERO_MATH N spread(float x) {
  if constexpr (Lanes<N>::kWidth == 1) {
    return x;
  } else {
    return Lanes<N>::spread(x);
  }
}

template <class N, class T>
ZERO_MATH N load(const T* from) {
  if constexpr (Lanes<N>::kWidth == 1) {
    return to_float(*from);
  } else {
    return Lanes<N>::load(from);
  }
}

template <class N>
ZERO_MATH void store(float* to, N value) {
  if constexpr (Lanes<N>::kWidth == 1) {
    *to = value;
  } else {
    Lanes<N>::store(to, value);
  }
}

template <class N, class T>
ZERO_MATH void store_pair(T* to, N first, N second) {
  if constexpr (Lanes<N>::kWidth == 1) {
    to[0] = from_float<T>(first);
    to[1] = from_float<T>(second);
  } else {
    Lanes<N>::store_pair(to, first, second);
  }
}

template <class N, class T>
ZERO_MATH void stream_pair(T* to, N first, N second) {
  if constexpr (Lanes<N>::kWidth == 1) {
    store_pair(to, first, second);
  } else {
    Lanes<N>::stream_pair(to, first, second);
  }
}

// Orders what stream_pair wrote before everything after.
template <class N>
ZERO_MATH void stream_fence() {
  if constexpr (Lanes<N>::kWidth > 1) Lanes<N>::fence();
}

}  // namespace zero::kernels
