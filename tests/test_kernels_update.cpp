// The optimizer update against a reference in double, written from the papers' formulas.
#include <gtest/gtest.h>

#include <cmath>

#include "kernel_fixtures.hpp"
#include "kernels/step_math.hpp"

namespace zero::kernels {
namespace {

using Rule = UpdateConstants::Rule;

struct Reference {
  std::vector<double> p, m, v;

  explicit Reference(const std::vector<float>& start)
      : p(start.begin(), start.end()), m(start.size()), v(start.size()) {}

  void step(const UpdateSettings& s, const std::vector<float>& grads) {
    for (std::size_t i = 0; i < p.size(); ++i) {
      double g = grads[i] * s.grad_factor;
      if (s.rule == Rule::kSgd) {
        p[i] -= s.lr * (g + s.weight_decay * p[i]);
        continue;
      }
      if (s.rule == Rule::kAdamL2) g += s.weight_decay * p[i];
      m[i] = s.beta1 * m[i] + (1 - s.beta1) * g;
      v[i] = s.beta2 * v[i] + (1 - s.beta2) * g * g;
      const double t = static_cast<double>(s.step_count);
      const double m_hat = s.bias_correction ? m[i] / (1 - std::pow(s.beta1, t)) : m[i];
      const double v_hat = s.bias_correction ? v[i] / (1 - std::pow(s.beta2, t)) : v[i];
      const double decay = s.rule == Rule::kAdamDecoupled ? s.lr * s.weight_decay * p[i] : 0;
      p[i] = p[i] - decay - s.lr * m_hat / (std::sqrt(v_hat) + s.eps);
    }
  }
};

class KernelsUpdate : public testing::TestWithParam<std::tuple<Rule, bool>> {};

TEST_P(KernelsUpdate, FollowsTheReferenceInDouble) {
  const auto [rule, bias_correction] = GetParam();
  constexpr std::size_t kElems = 1003;
  for (Isa isa : isas()) {
    SCOPED_TRACE(isa_name(isa));
    IsaScope scope(isa);
    ImmediateStream stream;
    Random random(11);
    std::vector<float> p(kElems), m(kElems), v(kElems), g(kElems);
    for (float& x : p) x = 0.3f * random.uniform();
    Reference reference(p);
    for (int t = 1; t <= 25; ++t) {
      for (float& x : g) x = 16.0f * random.uniform();
      const UpdateSettings s{rule, 1e-3, 0.9, 0.999, 1e-8, 0.1, bias_correction, t, 1.0 / 1024};
      reference.step(s, g);
      update({p.data(), m.data(), v.data(), view(g), nullptr}, make_update_constants(s), stream);
    }
    for (std::size_t i = 0; i < kElems; ++i) {
      ASSERT_NEAR(p[i], reference.p[i], 1e-6) << i;
      ASSERT_NEAR(m[i], reference.m[i], 1e-7) << i;
      ASSERT_NEAR(v[i], reference.v[i], 1e-8) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, KernelsUpdate,
                         testing::Combine(testing::Values(Rule::kAdamDecoupled, Rule::kAdamL2,
                                                          Rule::kSgd),
                                          testing::Bool()));

TEST(KernelsUpdateConstants, AreFormedInDouble) {
  const UpdateConstants c =
      make_update_constants({Rule::kAdamDecoupled, 1e-3, 0.9, 0.999, 1e-8, 0.01, true, 1, 0.5});
  EXPECT_EQ(c.one_minus_beta2, 0.001f);  // 1 - 0.999f in fp32 is off by 1e-5 of itself
  EXPECT_EQ(c.one_minus_beta1, 0.1f);
  EXPECT_EQ(c.step_size, 0.01f);  // lr / (1 - beta1)
  EXPECT_EQ(c.rsqrt_correction2, static_cast<float>(std::sqrt(1000.0)));
  EXPECT_EQ(c.decay, 1e-5f);
  EXPECT_EQ(c.grad_factor, 0.5f);
  const UpdateConstants plain =
      make_update_constants({Rule::kAdamL2, 1e-3, 0.9, 0.999, 1e-8, 0.01, false, 7, 1});
  EXPECT_EQ(plain.step_size, 1e-3f);
  EXPECT_EQ(plain.rsqrt_correction2, 1.0f);
  EXPECT_EQ(plain.decay, 0.01f);
}

// Powers by multiplication against those of long double, as the float constants see them.
TEST(KernelsUpdateConstants, AreThoseOfExactPowers) {
  EXPECT_EQ(power(0.0, 0), 1.0);
  EXPECT_EQ(power(0.0, 5), 0.0);
  EXPECT_EQ(power(0.5, 1074), 0x1p-1074);
  EXPECT_EQ(power(1.0, 1000000007), 1.0);
  for (const double beta : {0.0, 0.9, 0.95, 0.99, 0.999, 0.9999}) {
    for (std::int64_t t = 1; t <= 1000000000; t += t < 2000 ? 1 : t / 7) {
      const long double correction =
          1 - std::pow(static_cast<long double>(beta), static_cast<long double>(t));
      const UpdateConstants c =
          make_update_constants({Rule::kAdamL2, 1e-3, beta, beta, 1e-8, 0.01, true, t, 1});
      ASSERT_EQ(c.rsqrt_correction2, static_cast<float>(1 / std::sqrt(correction))) << beta << t;
      ASSERT_EQ(c.step_size, static_cast<float>(1e-3 / correction)) << beta << " " << t;
      const auto error = static_cast<double>((1 - power(beta, t) - correction) / correction);
      ASSERT_LT(std::fabs(error), 1e-12) << beta << " " << t;
    }
  }
}

// A value worked by hand: everything is a power of two. g = 4/2 = 2; m = 1, v = 2 with betas 1/2;
// without correction p = 1 - 1/8 (decay) - 1/4 * 1 / (sqrt(4) + 0).
TEST(KernelsUpdateConstants, OneStepByHand) {
  ImmediateStream stream;
  for (Isa isa : isas()) {
    IsaScope scope(isa);
    std::vector<float> p(40, 1.0f), m(40, 0.0f), v(40, 4.0f), g(40, 4.0f);
    update({p.data(), m.data(), v.data(), view(g), nullptr},
           make_update_constants({Rule::kAdamDecoupled, 0.25, 0.5, 0.5, 0, 0.5, false, 1, 0.5}),
           stream);
    for (std::size_t i = 0; i < p.size(); ++i) {
      EXPECT_EQ(m[i], 1.0f);
      EXPECT_EQ(v[i], 4.0f);
      EXPECT_EQ(p[i], 1.0f - 0.125f - 0.125f);
    }
  }
}

}  // namespace
}  // namespace zero::kernels
