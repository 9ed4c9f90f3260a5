// Element types of parameters and gradients, with exact conversions.
//
// Thread-safety: everything here is a pure function.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

// Functions marked so are compiled for the host and, by nvcc, for the device: element arithmetic is
// written once, so both give the same bits.
#if defined(__CUDACC__)
#define ZERO_HOST_DEVICE __host__ __device__
#else
#define ZERO_HOST_DEVICE
#endif

namespace zero {

enum class DType : std::uint8_t { kFloat32, kFloat16, kBFloat16 };

// Bytes of one element.
constexpr std::size_t dtype_bytes(DType dtype) { return dtype == DType::kFloat32 ? 4 : 2; }

// "fp32", "fp16", "bf16".
constexpr std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "fp32";
    case DType::kFloat16:
      return "fp16";
    case DType::kBFloat16:
      return "bf16";
  }
  return "?";
}

// The inverse of dtype_name; also "float32", "half", "float16", "bfloat16". Empty if unknown.
std::optional<DType> dtype_from_name(std::string_view name);

// Storage of a bf16 element: the upper half of an fp32.
struct bf16 {
  std::uint16_t bits = 0;
  friend constexpr bool operator==(bf16, bf16) = default;
};

// Storage of an IEEE-754 binary16 element.
struct fp16 {
  std::uint16_t bits = 0;
  friend constexpr bool operator==(fp16, fp16) = default;
};

ZERO_HOST_DEVICE constexpr float to_float(float x) { return x; }

ZERO_HOST_DEVICE constexpr float to_float(bf16 x) {
  return std::bit_cast<float>(std::uint32_t{x.bits} << 16);
}

ZERO_HOST_DEVICE constexpr float to_float(fp16 x) {
  const std::uint32_t sign = std::uint32_t{x.bits & 0x8000u} << 16;
  const std::uint32_t exponent = (x.bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = x.bits & 0x3ffu;
  if (exponent == 0x1f) {  // infinity, or NaN made quiet as the hardware does
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13) |
                                (mantissa != 0 ? 0x00400000u : 0u));
  }
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24, exact in fp32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

// Rounds to nearest, ties to even; NaN stays NaN (made quiet), overflow gives infinity.
template <class T>
ZERO_HOST_DEVICE constexpr T from_float(float x);

template <>
ZERO_HOST_DEVICE constexpr float from_float<float>(float x) {
  return x;
}

template <>
ZERO_HOST_DEVICE constexpr bf16 from_float<bf16>(float x) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) {
    return bf16{static_cast<std::uint16_t>((u | 0x00400000u) >> 16)};
  }
  return bf16{static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

template <>
ZERO_HOST_DEVICE constexpr fp16 from_float<fp16>(float x) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (u >> 16) & 0x8000u;
  const std::uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return fp16{static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu))};
  }
  if (magnitude >= 0x47800000u) return fp16{static_cast<std::uint16_t>(sign | 0x7c00u)};  // >= 2^16
  if (magnitude < 0x33000000u) return fp16{static_cast<std::uint16_t>(sign)};  // < 2^-25: to zero
  if (magnitude < 0x38800000u) {  // subnormal: shift the full mantissa, rounding to even
    const std::uint32_t shift = 126u - (magnitude >> 23);  // 14..24
    const std::uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    const std::uint32_t kept = mantissa >> shift;
    const std::uint32_t rest = mantissa & ((1u << shift) - 1u);
    const std::uint32_t half = 1u << (shift - 1);
    const std::uint32_t up = rest > half || (rest == half && (kept & 1u)) ? 1u : 0u;
    return fp16{static_cast<std::uint16_t>(sign | (kept + up))};
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u;
  return fp16{static_cast<std::uint16_t>(sign | (rounded >> 13))};
}

// The DType of an element type known to this library; empty for others.
template <class T>
inline constexpr std::optional<DType> kDTypeOf = std::nullopt;
template <>
inline constexpr std::optional<DType> kDTypeOf<float> = DType::kFloat32;
template <>
inline constexpr std::optional<DType> kDTypeOf<fp16> = DType::kFloat16;
template <>
inline constexpr std::optional<DType> kDTypeOf<bf16> = DType::kBFloat16;

// Calls `body` with a value-initialised element of the given dtype: the one place where the runtime
// value becomes a type. `body` is a generic lambda, e.g. `[&](auto tag) { using T = decltype(tag);
// }`.
template <class Body>
decltype(auto) with_dtype(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kFloat16:
      return body(fp16{});
    case DType::kBFloat16:
      return body(bf16{});
    case DType::kFloat32:
      break;
  }
  return body(float{});
}

}  // namespace zero
