// The exact statistics against whole-number arithmetic done here in another way.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/shard_fixtures.hpp"

namespace zero::kernels {
namespace {

// A whole number of 1024 bits, bit by bit from the value of the float: slow and plain.
class BigNumber {
 public:
  void add_square(float x) {
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(static_cast<double>(x)), &exponent);
    if (fraction == 0) return;
    const auto mantissa = static_cast<std::uint64_t>(std::ldexp(fraction, 24));
    // |x| = mantissa * 2^(exponent - 24), and x is a multiple of 2^-149.
    std::uint64_t square = mantissa * mantissa;
    int position = 2 * (exponent - 24) + 298;
    for (; position < 0; ++position) square >>= 1;  // low bits of a subnormal's mantissa are zero
    for (; square != 0; square >>= 1, ++position) {
      if ((square & 1) != 0) add_bit(position);
    }
  }

  std::array<std::uint64_t, GradStats::kDigits> digits() const {
    std::array<std::uint64_t, GradStats::kDigits> result{};
    for (std::size_t bit = 0; bit < 640; ++bit) {
      result[bit / 32] |= static_cast<std::uint64_t>(bits_[bit]) << (bit % 32);
    }
    return result;
  }

 private:
  void add_bit(int position) {
    auto at = static_cast<std::size_t>(position);
    while (bits_[at]) bits_[at++] = false;
    bits_[at] = true;
  }
  std::array<bool, 1024> bits_{};
};

template <class T>
GradStats stats_of(const std::vector<T>& grad) {
  ImmediateStream stream;
  GradStats stats;
  std::uint64_t bad = kNoBadParam;
  grad_stats(view(grad), {}, 0, 0, &stats, &bad, stream);
  EXPECT_EQ(bad, stats.finite() ? kNoBadParam : 0);
  return stats;
}

// The lowest index that is not finite: every element is a parameter of its own.
template <class T>
std::uint64_t first_bad(const std::vector<T>& grad) {
  Pieces pieces;
  for (std::size_t i = 0; i < grad.size(); ++i) pieces.piece(1, static_cast<std::int32_t>(i));
  ImmediateStream stream;
  GradStats stats;
  std::uint64_t bad = kNoBadParam;
  grad_stats(view(grad), pieces.view(), 0, 0, &stats, &bad, stream);
  return bad;
}

template <class T>
void expect_exact(const std::vector<T>& grad) {
  BigNumber expected;
  std::uint32_t largest = 0;
  for (const T& g : grad) {
    const float x = to_float(g);
    if (std::isfinite(x)) expected.add_square(x);
    largest = std::max(largest, std::bit_cast<std::uint32_t>(x) & 0x7fffffffu);
  }
  const GradStats stats = stats_of(grad);
  EXPECT_EQ(stats.sum_squares, expected.digits());
  EXPECT_EQ(stats.max_abs_bits, largest);
}

// Any finite pattern, many exponents apart.
std::vector<float> wild(std::size_t n, std::uint32_t seed) {
  Random random(seed);
  std::vector<float> values(n);
  for (float& x : values) {
    do {
      x = std::bit_cast<float>(random.bits() ^ (random.bits() << 16));
    } while (!std::isfinite(x));
  }
  return values;
}

std::vector<float> usual(std::size_t n, std::uint32_t seed) {
  Random random(seed);
  std::vector<float> values(n);
  for (float& x : values) x = random.uniform() * random.uniform() * random.uniform() * 1e-3f;
  return values;
}

class KernelsStats : public testing::TestWithParam<Isa> {
 protected:
  IsaScope scope_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Isas, KernelsStats, testing::ValuesIn(isas()),
                         [](const auto& p) { return isa_name(p.param); });

TEST_P(KernelsStats, EverySizeAndKindOfValue) {
  for (std::size_t n : {0u, 1u, 3u, 4u, 5u, 15u, 16u, 17u, 31u, 33u, 2047u, 2048u, 2049u, 9001u}) {
    SCOPED_TRACE(n);
    expect_exact(wild(n, 1));
    expect_exact(usual(n, 2));
    std::vector<bf16> b;
    std::vector<fp16> h;
    for (float x : wild(n, 3)) b.push_back(from_float<bf16>(x));
    for (float x : usual(n, 4)) h.push_back(from_float<fp16>(x * 1000));
    expect_exact(b);
    expect_exact(h);
  }
}

TEST_P(KernelsStats, SubnormalsAndExtremes) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float normal = std::numeric_limits<float>::min();
  const float huge = std::numeric_limits<float>::max();
  EXPECT_EQ(stats_of(std::vector<float>{tiny}).sum_squares[0], 1u);
  EXPECT_EQ(stats_of(std::vector<float>{-tiny, tiny, -tiny}).sum_squares[0], 3u);
  EXPECT_EQ(stats_of(std::vector<float>{0.0f, -0.0f}).sum_squares, GradStats{}.sum_squares);
  for (std::size_t n : {1u, 40u, 3000u}) {
    expect_exact(std::vector<float>(n, tiny));
    expect_exact(std::vector<float>(n, normal));
    expect_exact(std::vector<float>(n, std::nextafter(normal, 0.0f)));
    expect_exact(std::vector<float>(n, -huge));
    std::vector<float> mixed(n, huge);
    for (std::size_t i = 1; i < n; i += 3) mixed[i] = tiny * static_cast<float>(i);
    for (std::size_t i = 2; i < n; i += 3) mixed[i] = 1e-20f;
    expect_exact(mixed);
    std::vector<float> edge(n, 0x1p-98f);
    for (std::size_t i = 1; i < n; i += 2) edge[i] = 0x1.fffffep-126f;
    expect_exact(edge);
  }
}

TEST_P(KernelsStats, AMillionEqualValues) {
  // 2^20 * (2^24 - 1)^2 * 2^(2 * 104): by hand.
  const std::vector<float> grad(std::size_t{1} << 20, std::numeric_limits<float>::max());
  const GradStats stats = stats_of(grad);
  const double exact = std::ldexp(std::ldexp(1.0, 48) - std::ldexp(1.0, 25) + 1, 208 + 20);
  EXPECT_EQ(stats.sum_of_squares(), exact);
  EXPECT_TRUE(stats.finite());
}

TEST_P(KernelsStats, OrderAndCutDoNotMatter) {
  std::vector<float> grad = wild(70001, 9);
  const std::vector<float> more = usual(70001, 10);
  grad.insert(grad.end(), more.begin(), more.end());
  const GradStats whole = stats_of(grad);
  std::vector<float> reversed(grad.rbegin(), grad.rend());
  EXPECT_EQ(stats_of(reversed).sum_squares, whole.sum_squares);
  for (std::size_t piece : {1u, 7u, 4096u, 65537u}) {
    GradStats sum, running;
    ImmediateStream stream;
    const std::size_t end = piece == 1 ? 3000 : grad.size();
    for (std::size_t begin = 0; begin < end; begin += piece) {
      const ConstView part{grad.data() + begin, DType::kFloat32,
                           static_cast<std::int64_t>(std::min(piece, end - begin))};
      GradStats one;
      std::uint64_t bad = kNoBadParam;
      grad_stats(part, {}, 0, 0, &one, &bad, stream);
      sum.add(one);
      grad_stats(part, {}, 0, 0, &running, &bad, stream);
    }
    const GradStats expected =
        end == grad.size() ? whole
                           : stats_of(std::vector<float>(grad.begin(), grad.begin() + 3000));
    EXPECT_EQ(sum.sum_squares, expected.sum_squares) << piece;
    EXPECT_EQ(sum.max_abs_bits, expected.max_abs_bits) << piece;
    EXPECT_EQ(running.sum_squares, expected.sum_squares) << piece;
  }
}

TEST_P(KernelsStats, NonfiniteIsSeenAndLeftOut) {
  for (float bad : {INFINITY, -INFINITY, std::numeric_limits<float>::quiet_NaN()}) {
    for (std::size_t at : {0u, 16u, 2999u}) {
      std::vector<float> grad(3000, 1.0f);
      grad[at] = bad;
      const GradStats stats = stats_of(grad);
      EXPECT_FALSE(stats.finite());
      EXPECT_EQ(stats.sum_of_squares(), 2999.0);
      EXPECT_EQ(first_bad(grad), at);
      expect_exact(grad);
      std::vector<fp16> halves(3000, from_float<fp16>(2.0f));
      halves[at] = from_float<fp16>(bad);
      EXPECT_FALSE(stats_of(halves).finite());
      EXPECT_EQ(stats_of(halves).sum_of_squares(), 4.0 * 2999);
      EXPECT_EQ(first_bad(halves), at);
    }
  }
  // Where the window would reach past the largest exponent: chunks near the top, then bad ones.
  for (int top = 100; top <= 127; ++top) {
    SCOPED_TRACE(top);
    for (float bad : {INFINITY, -INFINITY, std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> grad(4 * 2048 + 5, std::ldexp(1.25f, top));
      grad[2048 + 7] = bad;
      grad[3 * 2048 + 9] = bad;
      grad[4 * 2048 + 4] = bad;
      expect_exact(grad);
      std::vector<bf16> halves;
      for (float x : grad) halves.push_back(from_float<bf16>(x));
      expect_exact(halves);
    }
  }
  std::vector<bf16> clean(10000, from_float<bf16>(3e38f));
  EXPECT_EQ(first_bad(clean), kNoBadParam);
  clean[9999].bits = 0x7f80;
  EXPECT_EQ(first_bad(clean), 9999u);
  EXPECT_EQ(first_bad(std::vector<float>()), kNoBadParam);
}

TEST_P(KernelsStats, NameTheFirstBadParameter) {
  ImmediateStream stream;
  for (const BadCase& c : bad_cases()) {
    GradStats stats;
    std::uint64_t bad = kNoBadParam;
    grad_stats(view(c.grad), c.pieces.view(), c.first_elem, c.fallback, &stats, &bad, stream);
    EXPECT_EQ(bad, c.bad) << c.name;
    bad = 1;  // from a call before
    grad_stats(view(c.grad), c.pieces.view(), c.first_elem, c.fallback, &stats, &bad, stream);
    EXPECT_EQ(bad, 1u) << c.name;
    // A bad value of a call before is none of this one's.
    bad = kNoBadParam;
    grad_stats(view(std::vector<float>(9, 1.0f)), c.pieces.view(), 0, 0, &stats, &bad, stream);
    EXPECT_EQ(bad, kNoBadParam) << c.name;
  }
}

TEST(GradStatsValue, IsRoundedCorrectly) {
  const auto at_bits = [](std::initializer_list<int> bits) {
    GradStats stats;
    for (int bit : bits) {
      stats.sum_squares[static_cast<std::size_t>(bit / 32)] += std::uint64_t{1} << (bit % 32);
    }
    return std::ldexp(stats.sum_of_squares(), 298);
  };
  const auto p = [](int e) { return std::ldexp(1.0, e); };
  EXPECT_EQ(at_bits({}), 0.0);
  for (int top : {52, 53, 60, 63, 64, 65, 95, 96, 128, 500, 638}) {
    SCOPED_TRACE(top);
    EXPECT_EQ(at_bits({top}), p(top));
    EXPECT_EQ(at_bits({top, top - 52}), p(top) + p(top - 52));
    if (top < 54) continue;
    EXPECT_EQ(at_bits({top, top - 53}), p(top));  // a tie, to even
    EXPECT_EQ(at_bits({top, top - 52, top - 53}), p(top) + p(top - 51));
    EXPECT_EQ(at_bits({top, top - 53, 0}), p(top) + p(top - 52));  // just above the tie
    EXPECT_EQ(at_bits({top, top - 54, 0}), p(top));
  }
  GradStats ones;  // all bits of three digits: rounds up to the next power of two
  for (std::size_t d = 5; d < 8; ++d) ones.sum_squares[d] = 0xffffffffu;
  EXPECT_EQ(std::ldexp(ones.sum_of_squares(), 298), p(256));
}

TEST(GradStatsValue, AcceptsDigitsThatWereAddedPlainly) {
  GradStats stats;
  stats.sum_squares.fill(0);
  stats.sum_squares[3] = std::uint64_t{5} << 40;
  EXPECT_EQ(std::ldexp(stats.sum_of_squares(), 298), std::ldexp(5.0, 96 + 40));
  GradStats sum;
  for (int i = 0; i < 3; ++i) sum.add(stats);
  EXPECT_EQ(sum.sum_squares[3], 0u);
  EXPECT_EQ(sum.sum_squares[4], 15u << 8);
  stats.sum_squares.fill(0xffffffffffffffffu);
  EXPECT_TRUE(std::isfinite(stats.sum_of_squares()));
}

}  // namespace
}  // namespace zero::kernels
