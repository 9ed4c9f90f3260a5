// One element of an optimizer update, for the vector loop, its tail and the device alike.
#pragma once

#include "kernels/kernels.hpp"
#include "kernels/number.hpp"

namespace zero::kernels {

// UpdateConstants in the number type of the loop, signs folded in.
template <class N>
struct UpdateNumbers {
  N beta1, one_minus_beta1;
  N beta2, one_minus_beta2;
  N rsqrt_correction2, eps;
  N minus_step;
  N decay;  // decoupled: -lr * weight_decay; L2 and SGD: weight_decay
  N grad_factor;
};

template <class N>
ZERO_MATH UpdateNumbers<N> make_update_numbers(const UpdateConstants& c) {
  const bool decoupled = c.rule == UpdateConstants::Rule::kAdamDecoupled;
  return {spread<N>(c.beta1),
          spread<N>(c.one_minus_beta1),
          spread<N>(c.beta2),
          spread<N>(c.one_minus_beta2),
          spread<N>(c.rsqrt_correction2),
          spread<N>(c.eps),
          spread<N>(-c.step_size),
          spread<N>(decoupled ? -c.decay : c.decay),
          spread<N>(c.grad_factor)};
}

// Kingma & Ba 2015, algorithm 1, with decay added to the gradient (L2) or to the parameter's old
// value (Loshchilov & Hutter 2019, algorithm 2, line 12).
template <UpdateConstants::Rule kRule, class N>
ZERO_MATH void adam_element(const UpdateNumbers<N>& c, N& master, N& exp_avg, N& exp_avg_sq,
                            N grad) {
  N g = grad * c.grad_factor;
  if constexpr (kRule == UpdateConstants::Rule::kAdamL2) g = fused(master, c.decay, g);
  exp_avg = fused(g, c.one_minus_beta1, exp_avg * c.beta1);
  exp_avg_sq = fused(g * g, c.one_minus_beta2, exp_avg_sq * c.beta2);
  const N denominator = fused(root(exp_avg_sq), c.rsqrt_correction2, c.eps);
  if constexpr (kRule == UpdateConstants::Rule::kAdamDecoupled) {
    master = fused(master, c.decay, master);
  }
  master = fused(exp_avg / denominator, c.minus_step, master);
}

template <class N>
ZERO_MATH void sgd_element(const UpdateNumbers<N>& c, N& master, N grad) {
  const N g = fused(master, c.decay, grad * c.grad_factor);
  master = fused(g, c.minus_step, master);
}

}  // namespace zero::kernels
