// The bits of an update must not depend on instruction set, cut or alignment.
#include <gtest/gtest.h>

#include <cstring>

#include "kernel_fixtures.hpp"

namespace zero::kernels {
namespace {

using Rule = UpdateConstants::Rule;

// All state of one range, starting `offset` elements into its memory.
template <class G, class P>
struct State {
  std::size_t n, offset;
  std::vector<float> master, exp_avg, exp_avg_sq;
  std::vector<G> grad;
  std::vector<P> params;

  State(std::size_t elems, std::size_t at)
      : n(elems),
        offset(at),
        master(n + at),
        exp_avg(n + at),
        exp_avg_sq(n + at),
        grad(n + at),
        params(n + at) {
    Random random(5);
    for (std::size_t i = offset; i < n + offset; ++i) {
      master[i] = random.uniform();
      exp_avg[i] = random.uniform() * 1e-2f;
      exp_avg_sq[i] = random.uniform() * random.uniform() * 1e-4f;
      if (exp_avg_sq[i] < 0) exp_avg_sq[i] = -exp_avg_sq[i];
      grad[i] = from_float<G>(random.uniform() * ((i - offset) % 7 == 0 ? 1e-30f : 1.0f));
    }
  }

  void update_part(std::size_t begin, std::size_t end, const UpdateConstants& c) {
    ImmediateStream stream;
    const std::size_t at = offset + begin;
    update({master.data() + at,
            exp_avg.data() + at,
            exp_avg_sq.data() + at,
            {grad.data() + at, *kDTypeOf<G>, static_cast<std::int64_t>(end - begin)},
            params.data() + at,
            *kDTypeOf<P>},
           c, stream);
  }

  bool same_bits(const State& other) const {
    const auto equal = [&](const auto& a, const auto& b) {
      return n == 0 ||
             std::memcmp(a.data() + offset, b.data() + other.offset, n * sizeof(a[0])) == 0;
    };
    return equal(master, other.master) && equal(exp_avg, other.exp_avg) &&
           equal(exp_avg_sq, other.exp_avg_sq) && equal(params, other.params);
  }
};

constexpr Rule kRules[] = {Rule::kAdamDecoupled, Rule::kAdamL2, Rule::kSgd};

UpdateConstants constants(Rule rule) {
  return make_update_constants({rule, 1e-2, 0.9, 0.95, 1e-6, 0.1, true, 3, 0.37});
}

template <class G, class P>
void expect_parity() {
  for (Rule rule : kRules) {
    for (std::size_t n : {0u, 1u, 15u, 16u, 17u, 31u, 32u, 33u, 47u, 63u, 64u, 65u, 1000u}) {
      State<G, P> reference(n, 0);
      {
        IsaScope scope(Isa::kBaseline);
        reference.update_part(0, n, constants(rule));
      }
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_EQ(reference.params[i], from_float<P>(reference.master[i]));
      }
      for (Isa isa : isas()) {
        SCOPED_TRACE(isa_name(isa) + " " + std::to_string(n));
        IsaScope scope(isa);
        for (std::size_t offset : {0u, 1u, 3u, 16u, 21u}) {
          State<G, P> whole(n, offset);
          whole.update_part(0, n, constants(rule));
          EXPECT_TRUE(whole.same_bits(reference)) << "offset " << offset;
        }
        for (std::size_t cut : {n / 3, n / 2, n - n / 7}) {
          State<G, P> parts(n, 0);
          parts.update_part(0, cut, constants(rule));
          parts.update_part(cut, n, constants(rule));
          EXPECT_TRUE(parts.same_bits(reference)) << "cut " << cut;
        }
      }
    }
  }
}

TEST(KernelsUpdateBits, Fp32) { expect_parity<float, float>(); }
TEST(KernelsUpdateBits, Bf16) { expect_parity<bf16, bf16>(); }
TEST(KernelsUpdateBits, Fp16) { expect_parity<fp16, fp16>(); }
TEST(KernelsUpdateBits, Fp32GradsBf16Params) { expect_parity<float, bf16>(); }
TEST(KernelsUpdateBits, Bf16GradsFp32Params) { expect_parity<bf16, float>(); }
TEST(KernelsUpdateBits, Fp16GradsBf16Params) { expect_parity<fp16, bf16>(); }

// Ranges so long that 16-bit parameters are written past the caches.
TEST(KernelsUpdateBits, LargeRangesWrittenPastTheCaches) {
  constexpr std::size_t kElems = (std::size_t{9} << 20) + 77;
  for (Isa isa : isas()) {
    if (isa == Isa::kBaseline && best_isa() != Isa::kBaseline) continue;  // slow without FMA
    SCOPED_TRACE(isa_name(isa));
    IsaScope scope(isa);
    for (std::size_t offset : {0u, 5u}) {
      State<bf16, bf16> whole(kElems, offset);
      whole.update_part(0, kElems, constants(Rule::kAdamDecoupled));
      State<bf16, bf16> parts(kElems, 0);
      for (std::size_t begin = 0; begin < kElems; begin += 1'000'000) {
        parts.update_part(begin, std::min(kElems, begin + 1'000'000),
                          constants(Rule::kAdamDecoupled));
      }
      EXPECT_TRUE(whole.same_bits(parts)) << "offset " << offset;
    }
  }
}

TEST(KernelsUpdateBits, WithoutParamsOnlyTheMasterIsWritten) {
  for (Isa isa : isas()) {
    IsaScope scope(isa);
    State<float, float> a(100, 0), b(100, 0);
    a.update_part(0, 100, constants(Rule::kAdamL2));
    ImmediateStream stream;
    update({b.master.data(), b.exp_avg.data(), b.exp_avg_sq.data(), view(b.grad), nullptr},
           constants(Rule::kAdamL2), stream);
    EXPECT_EQ(a.master, b.master);
    EXPECT_EQ(b.params, std::vector<float>(100, 0.0f));
  }
}

TEST(KernelsUpdateBits, SgdNeedsNoMoments) {
  for (Isa isa : isas()) {
    IsaScope scope(isa);
    ImmediateStream stream;
    std::vector<float> p(50, 2.0f), g(50, 1.0f);
    update({p.data(), nullptr, nullptr, view(g), nullptr},
           make_update_constants({Rule::kSgd, 0.5, 0, 0, 0, 0.25, true, 1, 2.0}), stream);
    for (float x : p) EXPECT_EQ(x, 2.0f - 0.5f * (2.0f + 0.25f * 2.0f));
  }
}

}  // namespace
}  // namespace zero::kernels
