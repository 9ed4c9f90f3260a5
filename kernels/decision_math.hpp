// The decision of a step, written once: run by one host thread, or by the lanes of a block. `M` is
// how the device's memory is read and written.
#pragma once

#include <limits>

#include "kernels/decision.hpp"
#include "kernels/reduce_math.hpp"
#include "kernels/step_math.hpp"

namespace zero::kernels {

inline constexpr std::uint64_t kNoDifference = ~std::uint64_t{0};

// What the lanes gather from the messages before one of them decides.
struct Gathered {
  std::uint64_t digits[GradStats::kDigits];
  std::uint32_t max_abs_bits;
  std::uint64_t bad_param;
  std::int32_t bad_rank;
};
inline constexpr int kGatherParts = GradStats::kDigits + 2;

template <class M>
ZERO_MATH std::uint64_t word_of(const StepRules& rules, const StepMemory& memory, int rank,
                                int word) {
  return M::load(memory.messages + std::int64_t{rank} * rules.layout.words() + word);
}

// Part `part` of kGatherParts. Sums of digits cannot overflow: see grad_stats().
template <class M>
ZERO_MATH void gather_part(const StepRules& rules, const StepMemory& memory, int part,
                           Gathered& out) {
  constexpr int kDigits = GradStats::kDigits;
  if (part < kDigits) {
    std::uint64_t sum = 0;
    for (int r = 0; r < rules.world_size; ++r) {
      sum += word_of<M>(rules, memory, r, VoteLayout::kStats + part);
    }
    out.digits[part] = sum;
  } else if (part == kDigits) {
    out.max_abs_bits = 0;
    for (int r = 0; r < rules.world_size; ++r) {
      const auto bits =
          static_cast<std::uint32_t>(word_of<M>(rules, memory, r, VoteLayout::kMaxAbs));
      if (bits > out.max_abs_bits) out.max_abs_bits = bits;
    }
  } else {
    out.bad_param = kNoBadParam;
    out.bad_rank = -1;
    for (int r = 0; r < rules.world_size; ++r) {
      const std::uint64_t bad = word_of<M>(rules, memory, r, VoteLayout::kBadParam);
      if (bad >= out.bad_param) continue;
      out.bad_param = bad;
      out.bad_rank = r;
    }
  }
}

// Where a lane's share of the words that have to be equal differs first: word * world_size + rank.
template <class M>
ZERO_MATH std::uint64_t first_difference(const StepRules& rules, const StepMemory& memory, int lane,
                                         int lanes) {
  const VoteLayout& layout = rules.layout;
  const int settings = layout.settings_words();
  for (int i = lane; i < settings + layout.bit_words(); i += lanes) {
    const int word = i < settings ? VoteLayout::kSettings + i : layout.frozen() + (i - settings);
    const std::uint64_t first = word_of<M>(rules, memory, 0, word);
    for (int r = 1; r < rules.world_size; ++r) {
      if (word_of<M>(rules, memory, r, word) == first) continue;
      return static_cast<std::uint64_t>(word) * static_cast<std::uint64_t>(rules.world_size) +
             static_cast<std::uint64_t>(r);
    }
  }
  return kNoDifference;
}

// The row of rates for the update after `applied` ones; -1: the table does not have it.
ZERO_MATH std::int64_t rate_row(const RateTable& table, std::int64_t applied) {
  if (table.count == 0) return 0;
  const std::int64_t row = applied - table.first;
  return row >= 0 && row < table.count ? row : -1;
}

template <class M>
ZERO_MATH GroupRates rates_of(const StepRules& rules, const StepMemory& memory, std::int64_t row,
                              int group) {
  const GroupRates* const rows = reinterpret_cast<const GroupRates*>(memory.rates + 1);
  return M::load(rows + row * rules.layout.groups + group);
}

template <class M>
ZERO_MATH void clear_message_word(const StepRules& rules, const StepMemory& memory, int word) {
  std::uint64_t value = word == VoteLayout::kBadParam ? kNoBadParam : 0;
  if (word >= VoteLayout::kSettings) {
    const int i = word - VoteLayout::kSettings;
    const RateTable table = M::load(memory.rates);
    const std::int64_t row = rate_row(table, M::load(&memory.state->applied_steps));
    if (row >= 0) {
      const GroupRates rates = rates_of<M>(rules, memory, row, i / kRatesPerGroup);
      const double values[kRatesPerGroup] = {rates.lr, rates.beta1, rates.beta2, rates.eps,
                                             rates.weight_decay};
      value = std::bit_cast<std::uint64_t>(values[i % kRatesPerGroup]);
    }
  }
  M::store(memory.messages + std::int64_t{rules.rank} * rules.layout.words() + word, value);
}

// The verdict on one step, and the state after it. One lane.
template <class M>
ZERO_MATH void conclude(const StepRules& rules, const StepMemory& memory, Gathered& gathered,
                        std::uint64_t difference) {
  StepState s = M::load(memory.state);
  StepOutcome o;
  o.update = s.applied_steps;
  o.loss_scale = s.scaler.scale;
  o.finite = gathered.max_abs_bits < kInfinityBits;
  if (gathered.bad_param != kNoBadParam) {
    o.bad_param = static_cast<std::int32_t>(gathered.bad_param);
    o.bad_rank = gathered.bad_rank;
  }
  o.grad_norm = std::numeric_limits<double>::quiet_NaN();
  if (o.finite) {
    GradStats total;
    for (int d = 0; d < GradStats::kDigits; ++d) {
      total.sum_squares.data()[d] = gathered.digits[d];
    }
    o.grad_norm = std::sqrt(sum_of_squares(total)) / o.loss_scale;
    if (rules.max_norm > 0) {
      const double coef = rules.max_norm / (o.grad_norm + 1e-6);
      o.clip_coef = coef < 1.0 ? coef : 1.0;
    }
  }
  // A square beyond fp32 would put an infinity into exp_avg_sq for ever.
  const double largest = static_cast<double>(std::bit_cast<float>(gathered.max_abs_bits)) *
                         (o.clip_coef / o.loss_scale);
  const bool square_fits = rules.rule == UpdateConstants::Rule::kSgd ||
                           largest * largest <= std::numeric_limits<float>::max();

  if (difference != kNoDifference) {
    const auto ranks = static_cast<std::uint64_t>(rules.world_size);
    o.differing_word = static_cast<std::int32_t>(difference / ranks);
    o.differing_rank = static_cast<std::int32_t>(difference % ranks);
    o.of_rank_0 = word_of<M>(rules, memory, 0, o.differing_word);
    o.of_other = word_of<M>(rules, memory, o.differing_rank, o.differing_word);
  } else if (rate_row(M::load(memory.rates), o.update) < 0) {
    o.rates_missing = true;
  } else if (!o.finite || !square_fits) {
    ++s.skipped_steps;
    o.exhausted = is_exhausted(s.scaler);
    if (!o.exhausted) count_step(s.scaler, true);
  } else {
    o.applied = true;
    ++s.applied_steps;
    count_step(s.scaler, false);
  }
  o.next_loss_scale = s.scaler.scale;
  o.skipped_steps = s.skipped_steps;
  s.loss_scale = static_cast<float>(s.scaler.scale);
  s.last = o;
  M::store(memory.state, s);
}

template <class M>
ZERO_MATH bool has_gradient(const StepRules& rules, const StepMemory& memory, int param) {
  const VoteLayout& layout = rules.layout;
  const std::uint64_t bit = std::uint64_t{1} << (param % 64);
  if ((word_of<M>(rules, memory, 0, layout.frozen() + param / 64) & bit) != 0) return false;
  for (int r = 0; r < rules.world_size; ++r) {
    if ((word_of<M>(rules, memory, r, layout.touched() + param / 64) & bit) != 0) return true;
  }
  return false;
}

// Of one parameter, after the verdict.
template <class M>
ZERO_MATH void form_constants(const StepRules& rules, const StepMemory& memory, int param) {
  UpdateConstants constants;
  constants.rule = rules.rule;
  constants.active = false;
  const StepOutcome outcome = M::load(&memory.state->last);
  const std::int32_t group = M::load(memory.group_of_param + param);
  if (outcome.applied && group >= 0 && has_gradient<M>(rules, memory, param)) {
    const std::int64_t count = M::load(memory.step_counts + param) + 1;
    M::store(memory.step_counts + param, count);
    const GroupRates rates =
        rates_of<M>(rules, memory, rate_row(M::load(memory.rates), outcome.update), group);
    constants = update_constants({rules.rule, rates.lr, rates.beta1, rates.beta2, rates.eps,
                                  rates.weight_decay, rules.bias_correction, count,
                                  outcome.clip_coef / outcome.loss_scale});
  }
  M::store(memory.constants + param, constants);
}

}  // namespace zero::kernels
