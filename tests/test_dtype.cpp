#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "zero/dtype.hpp"

namespace zero {
namespace {

// The value of a 16-bit float by its definition, apart from infinity and NaN.
double value_of(std::uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                    : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

template <class T>
struct Format;
template <>
struct Format<fp16> {
  static constexpr int kExponent = 5, kMantissa = 10;
};
template <>
struct Format<bf16> {
  static constexpr int kExponent = 8, kMantissa = 7;
};

template <class T>
class SixteenBits : public testing::Test {};
using Both = testing::Types<fp16, bf16>;
TYPED_TEST_SUITE(SixteenBits, Both);

TYPED_TEST(SixteenBits, EveryPatternHasItsValueAndComesBack) {
  constexpr int kExponent = Format<TypeParam>::kExponent, kMantissa = Format<TypeParam>::kMantissa;
  const int infinity = ((1 << kExponent) - 1) << kMantissa;
  for (int bits = 0; bits < 0x10000; ++bits) {
    const TypeParam x{static_cast<std::uint16_t>(bits)};
    const float value = to_float(x);
    const int magnitude = bits & 0x7fff;
    if (magnitude > infinity) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      const int quiet = bits | (1 << (kMantissa - 1));
      ASSERT_EQ(from_float<TypeParam>(value).bits, quiet) << bits;
      continue;
    }
    if (magnitude == infinity) {
      ASSERT_TRUE(std::isinf(value)) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(value), value_of(x.bits, kExponent, kMantissa)) << bits;
    }
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
    ASSERT_EQ(from_float<TypeParam>(value), x) << bits;
  }
}

// The value half way between two neighbours goes to the even one, its fp32 neighbours to theirs.
TYPED_TEST(SixteenBits, RoundsToNearestEvenBetweenAllNeighbours) {
  constexpr int kExponent = Format<TypeParam>::kExponent, kMantissa = Format<TypeParam>::kMantissa;
  const int infinity = ((1 << kExponent) - 1) << kMantissa;
  for (int bits = 0; bits < infinity; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits), high = static_cast<std::uint16_t>(bits + 1);
    // For the largest, the next power of two stands for infinity.
    const double middle =
        (value_of(low, kExponent, kMantissa) + value_of(high, kExponent, kMantissa)) / 2;
    const float x = static_cast<float>(middle);
    ASSERT_EQ(static_cast<double>(x), middle);
    const std::uint16_t even = bits % 2 == 0 ? low : high;
    for (int sign : {0, 0x8000}) {
      const float s = sign != 0 ? -1.0f : 1.0f;
      ASSERT_EQ(from_float<TypeParam>(s * x).bits, even | sign) << bits;
      ASSERT_EQ(from_float<TypeParam>(s * std::nextafter(x, 0.0f)).bits, low | sign) << bits;
      ASSERT_EQ(from_float<TypeParam>(s * std::nextafter(x, INFINITY)).bits, high | sign) << bits;
    }
  }
}

TYPED_TEST(SixteenBits, FarValuesBecomeInfinityOrZero) {
  constexpr int kInfinity = ((1 << Format<TypeParam>::kExponent) - 1)
                            << Format<TypeParam>::kMantissa;
  EXPECT_EQ(from_float<TypeParam>(std::numeric_limits<float>::max()).bits, kInfinity);
  EXPECT_EQ(from_float<TypeParam>(-std::numeric_limits<float>::infinity()).bits,
            kInfinity | 0x8000);
  EXPECT_EQ(from_float<TypeParam>(-std::numeric_limits<float>::denorm_min()).bits, 0x8000);
}

TEST(DType, NamesAndSizes) {
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    EXPECT_EQ(dtype_from_name(dtype_name(dtype)), dtype);
    const bool right = with_dtype(dtype, [&](auto tag) {
      return kDTypeOf<decltype(tag)> == dtype && sizeof(tag) == dtype_bytes(dtype);
    });
    EXPECT_TRUE(right) << dtype_name(dtype);
  }
  EXPECT_EQ(dtype_from_name("float32"), DType::kFloat32);
  EXPECT_EQ(dtype_from_name("half"), DType::kFloat16);
  EXPECT_EQ(dtype_from_name("float16"), DType::kFloat16);
  EXPECT_EQ(dtype_from_name("bfloat16"), DType::kBFloat16);
  EXPECT_FALSE(dtype_from_name("fp64").has_value());
  EXPECT_FALSE(dtype_from_name("FP32").has_value());
  EXPECT_FALSE(dtype_from_name("").has_value());
  static_assert(!kDTypeOf<double>.has_value());
}

}  // namespace
}  // namespace zero
