// The decision of a step from the votes of all ranks: values worked by hand on the host, and the
// same bits on a CUDA device.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/decision.hpp"
#include "tests/cuda_fixtures.hpp"
#include "tests/kernel_fixtures.hpp"

namespace zero::kernels {
namespace {

using Rule = UpdateConstants::Rule;

// Messages of ranks, and the memory behind them on the host.
struct Ballots {
  StepRules rules;
  StepState state;
  RateTable table;
  std::vector<GroupRates> rates;
  std::vector<std::int32_t> groups;
  std::vector<std::int64_t> counts;
  std::vector<std::uint64_t> messages;

  Ballots(int ranks, int params) {
    rules.layout = {2, params};
    rules.world_size = ranks;
    rates = {{0.1, 0.9, 0.99, 1e-8, 0.01}, {0.2, 0.8, 0.98, 1e-6, 0.0}};
    for (int i = 0; i < params; ++i) groups.push_back(i % 2);
    counts.assign(static_cast<std::size_t>(params), 3);
    messages.assign(static_cast<std::size_t>(ranks * rules.layout.words()), 0);
    for (int r = 0; r < ranks; ++r) {
      word(r, VoteLayout::kBadParam) = kNoBadParam;
      for (int w = 0; w < rules.layout.settings_words(); ++w) {
        word(r, VoteLayout::kSettings + w) = std::bit_cast<std::uint64_t>(1.0 + w);
      }
    }
  }
  std::uint64_t& word(int rank, int index) {
    return messages[static_cast<std::size_t>(rank * rules.layout.words() + index)];
  }
  void add_gradient(int rank, float value) {
    ImmediateStream stream;
    auto* const stats = reinterpret_cast<GradStats*>(&word(rank, VoteLayout::kStats));
    const ShardPiece all{0, 1, 0, 0};
    grad_stats({&value, DType::kFloat32, 1}, {&all, 1}, 0, 0, stats,
               &word(rank, VoteLayout::kBadParam), stream);
  }
  void touch(int rank, int param) {
    word(rank, rules.layout.touched() + param / 64) |= std::uint64_t{1} << (param % 64);
  }
  void freeze(int rank, int param) {
    word(rank, rules.layout.frozen() + param / 64) |= std::uint64_t{1} << (param % 64);
  }
};

struct Decided {
  StepState state;
  std::vector<UpdateConstants> constants;
  std::vector<std::int64_t> counts;
  bool active(int param) const { return constants[static_cast<std::size_t>(param)].active; }
  std::int64_t count(int param) const { return counts[static_cast<std::size_t>(param)]; }
};

Decided decide_on_host(Ballots b) {
  std::vector<std::byte> rates(sizeof(RateTable) + b.rates.size() * sizeof(GroupRates));
  std::memcpy(rates.data(), &b.table, sizeof(RateTable));
  std::memcpy(rates.data() + sizeof(RateTable), b.rates.data(),
              b.rates.size() * sizeof(GroupRates));
  Decided out{b.state, std::vector<UpdateConstants>(b.groups.size()), b.counts};
  StepMemory memory{&out.state,      b.messages.data(), reinterpret_cast<RateTable*>(rates.data()),
                    b.groups.data(), out.counts.data(), out.constants.data()};
  ImmediateStream stream;
  decide(b.rules, memory, stream);
  return out;
}

TEST(Decision, NormClipAndConstantsByHand) {
  Ballots b(2, 3);
  b.rules.max_norm = 1.0;
  b.state.scaler.scale = 2.0;
  b.add_gradient(0, 6.0f);
  b.add_gradient(1, -8.0f);  // norm 10, unscaled 5
  b.touch(0, 0);
  b.touch(1, 2);
  const Decided d = decide_on_host(b);
  const StepOutcome& o = d.state.last;
  EXPECT_TRUE(o.applied);
  EXPECT_EQ(o.grad_norm, 5.0);
  EXPECT_EQ(o.clip_coef, 1.0 / (5.0 + 1e-6));
  EXPECT_EQ(d.state.applied_steps, 1);
  EXPECT_TRUE(d.active(0));
  EXPECT_FALSE(d.active(1));  // no gradient on any rank
  EXPECT_EQ(d.count(0), 4);
  EXPECT_EQ(d.count(1), 3);
  const UpdateConstants& c = d.constants[2];
  EXPECT_EQ(c.grad_factor, static_cast<float>(1.0 / (5.0 + 1e-6) / 2.0));
  EXPECT_FLOAT_EQ(c.step_size, static_cast<float>(0.1 / (1 - std::pow(0.9, 4))));
}

TEST(Decision, FrozenAndStatelessParametersAreLeftAlone) {
  Ballots b(3, 130);
  b.groups[129] = -1;
  for (int r = 0; r < 3; ++r) {
    for (int param = 0; param < 130; ++param) b.touch(r, param);
    b.freeze(r, 64);
  }
  const Decided d = decide_on_host(b);
  EXPECT_FALSE(d.active(64));
  EXPECT_FALSE(d.active(129));
  for (const int param : {0, 63, 65, 127, 128}) EXPECT_TRUE(d.active(param)) << param;
}

TEST(Decision, NotFiniteSkipsNamesTheFirstAndLowersTheScale) {
  Ballots b(3, 70);
  b.state.scaler.dynamic = true;
  b.state.scaler.scale = 16.0;
  for (int r = 0; r < 3; ++r) b.touch(r, 5);
  b.add_gradient(1, std::numeric_limits<float>::infinity());
  b.word(1, VoteLayout::kBadParam) = 66;
  b.add_gradient(2, std::numeric_limits<float>::quiet_NaN());
  b.word(2, VoteLayout::kBadParam) = 65;
  const Decided d = decide_on_host(b);
  const StepOutcome& o = d.state.last;
  EXPECT_FALSE(o.applied);
  EXPECT_FALSE(o.finite);
  EXPECT_TRUE(std::isnan(o.grad_norm));
  EXPECT_EQ(o.bad_param, 65);
  EXPECT_EQ(o.bad_rank, 2);
  EXPECT_EQ(o.next_loss_scale, 8.0);
  EXPECT_EQ(d.state.loss_scale, 8.0f);
  EXPECT_EQ(d.state.skipped_steps, 1);
  EXPECT_FALSE(d.active(5));
  EXPECT_EQ(d.count(5), 3);

  b.state.scaler.scale = 1.0;  // the minimum
  EXPECT_TRUE(decide_on_host(b).state.last.exhausted);
}

TEST(Decision, ASquareBeyondFp32IsSkippedByAdamAlone) {
  Ballots b(1, 1);
  b.add_gradient(0, 1e20f);
  b.touch(0, 0);
  const Decided adam = decide_on_host(b);
  EXPECT_FALSE(adam.state.last.applied);
  EXPECT_TRUE(adam.state.last.finite);
  b.rules.rule = Rule::kSgd;
  EXPECT_TRUE(decide_on_host(b).state.last.applied);
}

TEST(Decision, DifferingSettingsAreFoundAndNothingIsUpdated) {
  Ballots b(4, 100);
  b.touch(0, 1);
  b.freeze(3, 99);
  const Decided frozen = decide_on_host(b);
  EXPECT_EQ(frozen.state.last.differing_word, b.rules.layout.frozen() + 1);
  EXPECT_EQ(frozen.state.last.differing_rank, 3);
  EXPECT_EQ(frozen.state.last.of_rank_0 ^ frozen.state.last.of_other, std::uint64_t{1} << 35);
  EXPECT_FALSE(frozen.state.last.applied);
  EXPECT_FALSE(frozen.active(1));
  EXPECT_EQ(frozen.state.applied_steps + frozen.state.skipped_steps, 0);

  b.word(2, VoteLayout::kSettings + 7) = 1;  // found before the bits
  EXPECT_EQ(decide_on_host(b).state.last.differing_word, VoteLayout::kSettings + 7);
  EXPECT_EQ(decide_on_host(b).state.last.differing_rank, 2);
}

TEST(Decision, RatesFollowTheCountOfAppliedUpdates) {
  Ballots b(1, 2);
  b.touch(0, 0);
  b.table = {7, 2};
  b.rates.insert(b.rates.end(), {{0.5, 0.9, 0.99, 1e-8, 0.0}, {0.6, 0.9, 0.99, 1e-8, 0.0}});
  b.rules.rule = Rule::kSgd;
  b.state.applied_steps = 7;
  EXPECT_EQ(decide_on_host(b).constants[0].step_size, 0.1f);
  b.state.applied_steps = 8;
  EXPECT_EQ(decide_on_host(b).constants[0].step_size, 0.5f);
  for (const std::int64_t outside : {6, 9}) {
    b.state.applied_steps = outside;
    const Decided d = decide_on_host(b);
    EXPECT_TRUE(d.state.last.rates_missing) << outside;
    EXPECT_FALSE(d.active(0));
  }
}

// Everything in device memory, and back.
Decided decide_on_device(Device& device, const Ballots& b) {
  std::vector<std::uint64_t> rates((sizeof(RateTable) + b.rates.size() * sizeof(GroupRates)) / 8);
  std::memcpy(rates.data(), &b.table, sizeof(RateTable));
  std::memcpy(rates.data() + sizeof(RateTable) / 8, b.rates.data(),
              b.rates.size() * sizeof(GroupRates));
  const test::OnDevice<StepState> state(device, {b.state});
  const test::OnDevice<std::uint64_t> messages(device, b.messages), table(device, rates);
  const test::OnDevice<std::int32_t> groups(device, b.groups);
  const test::OnDevice<std::int64_t> counts(device, b.counts);
  const test::OnDevice<UpdateConstants> constants(device,
                                                  std::vector<UpdateConstants>(b.groups.size()));
  decide(b.rules,
         {state.data(), messages.data(), reinterpret_cast<const RateTable*>(table.data()),
          groups.data(), counts.data(), constants.data()},
         device.caller_stream());
  return {state.read().front(), constants.read(), counts.read()};
}

using DecisionOnCuda = test::OnCuda;

TEST_F(DecisionOnCuda, GivesTheBitsOfTheHost) {
  Random random(5);
  for (int round = 0; round < 40; ++round) {
    const int ranks = 1 + round % 7;
    const int params = 1 + (round * 37) % 300;
    Ballots b(ranks, params);
    b.rules.rule = static_cast<Rule>(round % 3);
    b.rules.max_norm = round % 2;
    b.state.scaler.dynamic = round % 3 == 0;
    b.state.scaler.scale = 256;
    b.state.applied_steps = round;
    for (int r = 0; r < ranks; ++r) {
      for (int i = 0; i < 5; ++i) {
        b.add_gradient(r, std::ldexp(random.uniform(), round - 20));
        b.touch(r, (r * 31 + i * 7) % params);
      }
    }
    if (round % 5 == 4) b.add_gradient(ranks - 1, std::numeric_limits<float>::infinity());
    if (round % 8 == 7) b.word(ranks - 1, VoteLayout::kSettings + round % 10) = 9;
    const Decided host = decide_on_host(b);
    const Decided cuda = decide_on_device(*device, b);
    const StepOutcome& a = host.state.last;
    const StepOutcome& c = cuda.state.last;
    const auto bits = [](double x) { return std::bit_cast<std::uint64_t>(x); };
    EXPECT_EQ(bits(a.clip_coef), bits(c.clip_coef)) << round;
    EXPECT_TRUE(bits(a.grad_norm) == bits(c.grad_norm) ||
                (std::isnan(a.grad_norm) && std::isnan(c.grad_norm)))
        << round;
    EXPECT_EQ(a.applied, c.applied) << round;
    EXPECT_EQ(a.bad_param, c.bad_param) << round;
    EXPECT_EQ(a.bad_rank, c.bad_rank) << round;
    EXPECT_EQ(a.differing_word, c.differing_word) << round;
    EXPECT_EQ(a.differing_rank, c.differing_rank) << round;
    EXPECT_EQ(host.state.loss_scale, cuda.state.loss_scale) << round;
    EXPECT_EQ(host.state.applied_steps, cuda.state.applied_steps) << round;
    EXPECT_EQ(host.counts, cuda.counts) << round;
    for (std::size_t i = 0; i < host.constants.size(); ++i) {
      const UpdateConstants& x = host.constants[i];
      const UpdateConstants& y = cuda.constants[i];
      EXPECT_EQ(x.active, y.active) << round << ' ' << i;
      for (const auto field :
           {&UpdateConstants::step_size, &UpdateConstants::rsqrt_correction2,
            &UpdateConstants::grad_factor, &UpdateConstants::decay, &UpdateConstants::beta1}) {
        EXPECT_EQ(std::bit_cast<std::uint32_t>(x.*field), std::bit_cast<std::uint32_t>(y.*field))
            << round << ' ' << i;
      }
    }
  }
}

}  // namespace
}  // namespace zero::kernels
