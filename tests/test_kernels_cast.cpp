#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernel_fixtures.hpp"
#include "zero/error.hpp"

namespace zero::kernels {
namespace {

// Floats at which rounding to 16 bits can go wrong: all half-way points of both formats with their
// neighbours, and a walk over all bit patterns.
std::vector<float> awkward_floats() {
  std::vector<float> values;
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    for (std::uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu, 0x1000u,
                              0x0fffu, 0x1001u, 0x3000u}) {
      values.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  for (std::uint32_t half = 0; half < 0x7c00; ++half) {  // fp16 half-way points, subnormals too
    const float a = to_float(fp16{static_cast<std::uint16_t>(half)});
    const float b =
        half + 1 == 0x7c00 ? 65536.0f : to_float(fp16{static_cast<std::uint16_t>(half + 1)});
    const float middle = (a + b) / 2;
    for (float x : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, INFINITY)}) {
      values.push_back(x);
      values.push_back(-x);
    }
  }
  for (std::uint64_t bits = 0; bits < 0x100000000u; bits += 10007) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  return values;
}

template <class T>
void expect_casts_down(const std::vector<float>& values) {
  ImmediateStream stream;
  std::vector<T> out(values.size());
  cast(view(out), view(values), 1.0f, stream);
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) wrong += out[i] != from_float<T>(values[i]);
  EXPECT_EQ(wrong, 0);
}

template <class T>
void expect_casts_up() {
  ImmediateStream stream;
  std::vector<T> in(0x10000);
  for (std::size_t i = 0; i < in.size(); ++i) in[i].bits = static_cast<std::uint16_t>(i);
  std::vector<float> out(in.size());
  cast(view(out), view(in), 1.0f, stream);
  for (std::size_t i = 0; i < in.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i]), std::bit_cast<std::uint32_t>(to_float(in[i])))
        << i;
  }
}

TEST(KernelsCast, ConversionsEqualTheDefinitionOnEveryInstructionSet) {
  const std::vector<float> values = awkward_floats();
  for (Isa isa : isas()) {
    SCOPED_TRACE(isa_name(isa));
    IsaScope scope(isa);
    expect_casts_down<bf16>(values);
    expect_casts_down<fp16>(values);
    expect_casts_up<bf16>();
    expect_casts_up<fp16>();
  }
}

TEST(KernelsCast, DividesInFp32BeforeRounding) {
  ImmediateStream stream;
  const float third = 1.0f / 3.0f;
  for (Isa isa : isas()) {
    SCOPED_TRACE(isa_name(isa));
    IsaScope scope(isa);
    for (std::size_t n : {0u, 1u, 15u, 16u, 17u, 63u, 64u, 65u, 129u}) {
      const std::vector<float> in(n, 1.0f);
      std::vector<float> out(n);
      cast(view(out), view(in), 3.0f, stream);
      for (float x : out) EXPECT_EQ(x, third);
      const std::vector<bf16> halves(n, from_float<bf16>(3.0f));
      std::vector<fp16> mixed(n);
      cast(view(mixed), view(halves), 4.0f, stream);
      for (fp16 x : mixed) EXPECT_EQ(to_float(x), 0.75f);
    }
  }
}

// Dividing by a power of two may be done through the reciprocal; subnormal results round alike.
TEST(KernelsCast, PowersOfTwoDivideExactly) {
  ImmediateStream stream;
  Random random(3);
  std::vector<float> in(4099);
  for (float& x : in) x = std::bit_cast<float>(random.bits());
  for (Isa isa : isas()) {
    IsaScope scope(isa);
    for (float divisor : {2.0f, 8.0f, 0.5f, 0x1p-126f, 0x1p126f, 0x1p127f, 3.0f, -4.0f}) {
      std::vector<float> out(in.size());
      cast(view(out), view(in), divisor, stream);
      for (std::size_t i = 0; i < in.size(); ++i) {
        const double exact = static_cast<double>(in[i]) / static_cast<double>(divisor);
        const float expected = in[i] / divisor;
        if (std::isnan(exact)) {
          ASSERT_TRUE(std::isnan(out[i]));
        } else {
          ASSERT_EQ(out[i], expected) << isa_name(isa) << ' ' << in[i] << '/' << divisor;
        }
      }
    }
  }
}

TEST(KernelsCast, AddRoundsOnce) {
  ImmediateStream stream;
  for (Isa isa : isas()) {
    SCOPED_TRACE(isa_name(isa));
    IsaScope scope(isa);
    for (std::size_t n : {0u, 1u, 31u, 64u, 200u}) {
      // 256 + 1.5 = 257.5; bf16 neighbours there are 256 and 258.
      std::vector<bf16> sum(n, from_float<bf16>(256.0f));
      const std::vector<float> addend(n, 1.5f);
      add(view(sum), view(addend), stream);
      for (bf16 x : sum) EXPECT_EQ(to_float(x), 258.0f);
      std::vector<float> wide(n, 0x1p24f);
      const std::vector<fp16> one(n, from_float<fp16>(1.0f));
      add(view(wide), view(one), stream);
      for (float x : wide) EXPECT_EQ(x, 0x1p24f);
    }
  }
}

TEST(KernelsCast, InPlace) {
  ImmediateStream stream;
  std::vector<float> x(1000, 5.0f);
  cast(view(x), view(x), 2.0f, stream);
  for (float v : x) EXPECT_EQ(v, 2.5f);
  add(view(x), view(x), stream);
  for (float v : x) EXPECT_EQ(v, 5.0f);
}

TEST(KernelsCast, RefusesDifferentLengths) {
  ImmediateStream stream;
  std::vector<float> a(3), b(4);
  EXPECT_THROW(cast(view(a), view(b), 1.0f, stream), UsageError);
  EXPECT_THROW(add(view(a), view(b), stream), UsageError);
}

}  // namespace
}  // namespace zero::kernels
