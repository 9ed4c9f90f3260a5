#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "kernel_fixtures.hpp"
#include "zero/error.hpp"

namespace zero::kernels {
namespace {

template <class T>
using Slices = std::vector<std::vector<T>>;

template <class T>
std::vector<const void*> pointers(const Slices<T>& slices) {
  std::vector<const void*> result;
  for (const auto& slice : slices) result.push_back(slice.data());
  return result;
}

// One source per value, all elements alike; returns what every element of the sum must be equal to.
template <class S, class D>
float sum_of(const std::vector<float>& values, SumOrder order, std::size_t n = 200,
             float divisor = 1.0f) {
  Slices<S> slices;
  for (float value : values) slices.emplace_back(n, from_float<S>(value));
  std::vector<D> out(n);
  void* destination = out.data();
  sum_slices(pointers(slices), *kDTypeOf<S>, {&destination, 1}, *kDTypeOf<D>,
             static_cast<std::int64_t>(n), divisor, false, order);
  for (const D& x : out) EXPECT_EQ(x, out[0]);
  return to_float(out[0]);
}

class KernelsSum : public testing::TestWithParam<Isa> {
 protected:
  IsaScope scope_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Isas, KernelsSum, testing::ValuesIn(isas()),
                         [](const auto& p) { return isa_name(p.param); });

constexpr float kBig = 0x1p24f;  // kBig + 1 rounds back to kBig

TEST_P(KernelsSum, OrderIsSequential) {
  // ((big + 1) + 1) - big = 0, while (big + 1) + (1 - big) = 1 in the tree.
  const std::vector<float> values{kBig, 1.0f, 1.0f, -kBig};
  EXPECT_EQ((sum_of<float, float>(values, SumOrder::kSequential)), 0.0f);
  EXPECT_EQ((sum_of<float, float>({1.0f, 1.0f, kBig, -kBig}, SumOrder::kSequential)), 2.0f);
  EXPECT_EQ((sum_of<bf16, float>(values, SumOrder::kSequential)), 0.0f);
}

TEST_P(KernelsSum, OrderIsThePairwiseTree) {
  EXPECT_EQ((sum_of<float, float>({kBig, 1.0f, 1.0f, -kBig}, SumOrder::kTree)), 1.0f);
  EXPECT_EQ((sum_of<float, float>({1.0f, 1.0f, kBig, -kBig}, SumOrder::kTree)), 2.0f);
  // (big + 1) + (-big + 1): big + (1 - big) = 1; sequentially ((big + 1) - big) + 1 = 1.
  EXPECT_EQ((sum_of<float, float>({kBig, -kBig, 1.0f, 1.0f}, SumOrder::kTree)), 2.0f);
  // Eight: halves are summed apart. Left: (big + 1) + (1 + 1) = big + 2. Right: (-big + 0) + 0.
  EXPECT_EQ((sum_of<float, float>({kBig, 1, 1, 1, -kBig, 0, 0, 0}, SumOrder::kTree)), 2.0f);
  EXPECT_EQ((sum_of<float, float>({kBig, 1, 1, 1, -kBig, 0, 0, 0}, SumOrder::kSequential)), 0.0f);
}

// The tree by its definition, on values where every order differs.
float tree(const std::vector<float>& values, std::size_t begin, std::size_t count) {
  if (count == 1) return values[begin];
  return tree(values, begin, count / 2) + tree(values, begin + count / 2, count / 2);
}

TEST_P(KernelsSum, TreeOfUpTo1024Sources) {
  for (std::size_t count = 1; count <= 1024; count *= 2) {
    Random random(static_cast<std::uint32_t>(count));
    std::vector<float> values(count);
    for (float& x : values) x = random.uniform() * std::exp2(10 * random.uniform());
    EXPECT_EQ((sum_of<float, float>(values, SumOrder::kTree, 70)), tree(values, 0, count));
  }
}

TEST_P(KernelsSum, SequenceOfAnyNumberOfSources) {
  for (std::size_t count : {1u, 2u, 3u, 5u, 7u, 8u, 63u, 65u, 1024u}) {
    Random random(static_cast<std::uint32_t>(count));
    std::vector<float> values(count);
    float expected = 0;
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = random.uniform() * std::exp2(10 * random.uniform());
      expected = i == 0 ? values[i] : expected + values[i];
    }
    EXPECT_EQ((sum_of<float, float>(values, SumOrder::kSequential, 70)), expected);
  }
}

// Small whole numbers times a power of two: exact in every dtype, order and size.
template <class S, class D>
void expect_exact_sums() {
  for (std::size_t n : {0u, 1u, 15u, 16u, 17u, 31u, 33u, 63u, 64u, 65u, 127u, 129u, 1000u}) {
    for (std::size_t offset : {0u, 1u, 7u}) {
      constexpr std::size_t kSources = 4;
      Slices<S> slices(kSources, std::vector<S>(n + offset));
      std::vector<float> expected(n);
      for (std::size_t i = 0; i < n; ++i) {
        int total = 0;
        for (std::size_t s = 0; s < kSources; ++s) {
          const int value = static_cast<int>((i * 5 + s * 3) % 17) - 8;
          slices[s][i + offset] = from_float<S>(static_cast<float>(value) * 0x1p-4f);
          total += value;
        }
        expected[i] = static_cast<float>(total) * 0x1p-4f / 4.0f;
      }
      std::vector<const void*> sources;
      for (const auto& slice : slices) sources.push_back(slice.data() + offset);
      for (SumOrder order : {SumOrder::kSequential, SumOrder::kTree}) {
        std::vector<D> a(n + offset), b(n, from_float<D>(9.0f));
        void* const destinations[] = {a.data() + offset, b.data()};
        sum_slices(sources, *kDTypeOf<S>, destinations, *kDTypeOf<D>, static_cast<std::int64_t>(n),
                   4.0f, false, order);
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_EQ(to_float(a[i + offset]), expected[i]) << n << ' ' << i;
          ASSERT_EQ(to_float(b[i]), expected[i]) << n << ' ' << i;
        }
        // Again on top: destinations[0] is what counts.
        std::fill(b.begin(), b.end(), from_float<D>(100.0f));
        sum_slices(sources, *kDTypeOf<S>, destinations, *kDTypeOf<D>, static_cast<std::int64_t>(n),
                   4.0f, true, order);
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_EQ(to_float(a[i + offset]), 2 * expected[i]) << n << ' ' << i;
          ASSERT_EQ(to_float(b[i]), 2 * expected[i]) << n << ' ' << i;
        }
      }
    }
  }
}

TEST_P(KernelsSum, ExactValuesInEveryDTypePair) {
  expect_exact_sums<float, float>();
  expect_exact_sums<float, bf16>();
  expect_exact_sums<float, fp16>();
  expect_exact_sums<bf16, bf16>();
  expect_exact_sums<bf16, float>();
  expect_exact_sums<bf16, fp16>();
  expect_exact_sums<fp16, fp16>();
  expect_exact_sums<fp16, float>();
  expect_exact_sums<fp16, bf16>();
}

TEST_P(KernelsSum, DividesTrulyAndRoundsOnce) {
  // 1/3 through a rounded reciprocal would give another last bit for 5/3 or 7/3.
  for (float sum : {1.0f, 5.0f, 7.0f, 11.0f}) {
    EXPECT_EQ((sum_of<float, float>({sum, 0, 0}, SumOrder::kSequential, 70, 3.0f)), sum / 3.0f);
  }
  // 257 / 2 = 128.5 in bf16 is exact only if the sum was not rounded to bf16 first (256 -> 128).
  EXPECT_EQ((sum_of<bf16, bf16>({256, 1}, SumOrder::kSequential, 70, 2.0f)), 128.0f);
  EXPECT_EQ((sum_of<bf16, bf16>({256, 3}, SumOrder::kSequential, 70, 2.0f)), 130.0f);
  EXPECT_EQ((sum_of<bf16, float>({256, 1}, SumOrder::kSequential, 70, 2.0f)), 128.5f);
}

TEST_P(KernelsSum, ADestinationMayBeASource) {
  for (std::size_t n : {3u, 64u, 1000u}) {
    for (std::size_t alias : {0u, 1u, 2u}) {
      Slices<float> slices(3, std::vector<float>(n));
      for (std::size_t s = 0; s < 3; ++s) {
        for (std::size_t i = 0; i < n; ++i) {
          slices[s][i] = static_cast<float>((s + 1) * (i + 1));
        }
      }
      const std::vector<const void*> sources = pointers(slices);
      void* const destination = slices[alias].data();
      sum_slices(sources, DType::kFloat32, {&destination, 1}, DType::kFloat32,
                 static_cast<std::int64_t>(n), 1.0f, false, SumOrder::kSequential);
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_EQ(slices[alias][i], static_cast<float>(6 * (i + 1)));
      }
    }
  }
}

// All destinations are sources: the direct all-reduce.
TEST_P(KernelsSum, AllDestinationsMayBeTheSources) {
  Slices<bf16> slices(4, std::vector<bf16>(333, from_float<bf16>(1.5f)));
  const std::vector<const void*> sources = pointers(slices);
  std::vector<void*> destinations;
  for (auto& slice : slices) destinations.push_back(slice.data());
  sum_slices(sources, DType::kBFloat16, destinations, DType::kBFloat16, 333, 2.0f, false,
             SumOrder::kTree);
  for (const auto& slice : slices) {
    for (bf16 x : slice) ASSERT_EQ(to_float(x), 3.0f);
  }
}

// Large output goes past the caches, after a head up to the first whole cache line.
TEST_P(KernelsSum, LargeOutputs) {
  constexpr std::size_t kElems = (std::size_t{9} << 20) / 4 * 4 + 13;
  Slices<float> slices(2, std::vector<float>(kElems));
  for (std::size_t i = 0; i < kElems; ++i) {
    slices[0][i] = static_cast<float>(i % 1021);
    slices[1][i] = static_cast<float>(i % 509);
  }
  std::vector<float> a(kElems + 5), b(kElems + 5), c(kElems + 5);
  const auto run = [&](std::vector<void*> destinations) {
    sum_slices(pointers(slices), DType::kFloat32, destinations, DType::kFloat32, kElems, 1.0f,
               false, SumOrder::kSequential);
  };
  run({a.data() + 1});
  run({b.data(), c.data() + 3});  // aligned differently
  for (std::size_t i = 0; i < kElems; ++i) {
    const float expected = static_cast<float>(i % 1021 + i % 509);
    ASSERT_EQ(a[i + 1], expected) << i;
    ASSERT_EQ(b[i], expected) << i;
    ASSERT_EQ(c[i + 3], expected) << i;
  }
  EXPECT_EQ(a[0], 0.0f);
  EXPECT_EQ(a[kElems + 1], 0.0f);
}

TEST_P(KernelsSum, InfinityAndNanShow) {
  EXPECT_EQ((sum_of<float, bf16>({1, INFINITY}, SumOrder::kSequential)), INFINITY);
  Slices<bf16> slices{std::vector<bf16>(50, from_float<bf16>(INFINITY)),
                      std::vector<bf16>(50, from_float<bf16>(-INFINITY))};
  std::vector<bf16> out(50);
  void* const destination = out.data();
  sum_slices(pointers(slices), DType::kBFloat16, {&destination, 1}, DType::kBFloat16, 50, 2.0f,
             false, SumOrder::kSequential);
  for (bf16 x : out) EXPECT_TRUE(std::isnan(to_float(x)));
}

TEST(KernelsSumErrors, TreeNeedsAPowerOfTwo) {
  const std::vector<float> value(4, 1.0f);
  std::vector<float> out(4);
  void* const destination = out.data();
  const std::vector<const void*> three(3, value.data());
  EXPECT_THROW(sum_slices(three, DType::kFloat32, {&destination, 1}, DType::kFloat32, 4, 1.0f,
                          false, SumOrder::kTree),
               UsageError);
  EXPECT_THROW(sum_slices({}, DType::kFloat32, {&destination, 1}, DType::kFloat32, 4, 1.0f, false,
                          SumOrder::kSequential),
               UsageError);
}

}  // namespace
}  // namespace zero::kernels
