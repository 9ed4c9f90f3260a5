#include "src/vote.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "src/profiler.hpp"
#include "zero/error.hpp"

namespace zero {
namespace {

constexpr std::array<const char*, kernels::kRatesPerGroup> kSettingNames = {"lr", "beta1", "beta2",
                                                                            "eps", "weight_decay"};

kernels::UpdateConstants::Rule rule_of(const OptimizerSettings& settings) {
  using Rule = kernels::UpdateConstants::Rule;
  if (settings.kind == OptimizerKind::kSgd) return Rule::kSgd;
  return settings.decoupled_decay ? Rule::kAdamDecoupled : Rule::kAdamL2;
}

void set_bit(std::vector<std::uint64_t>& words, std::size_t first_word, std::size_t index) {
  words[first_word + index / 64] |= std::uint64_t{1} << (index % 64);
}

// Cuts one buffer into parts.
class Carver {
 public:
  template <class T>
  std::int64_t take(std::size_t count) {
    constexpr std::int64_t kAlign = 16;
    const std::int64_t at = bytes_;
    const auto bytes = static_cast<std::int64_t>(count * sizeof(T));
    bytes_ += (bytes + kAlign - 1) / kAlign * kAlign;
    return at;
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
};

}  // namespace

Vote::Vote(Runtime& runtime, BucketPolicy& policy, const OwnedPieces& pieces, Rates& rates)
    : rt_(runtime), policy_(policy), pieces_(pieces), rates_(rates) {
  rules_.layout.groups = static_cast<std::int32_t>(rt_.groups.size());
  rules_.layout.params = static_cast<std::int32_t>(rt_.params.size());
  rules_.rank = rt_.rank();
  rules_.world_size = rt_.world_size();
  rules_.max_norm = rt_.config.gradient_clipping;
  rules_.rule = rule_of(rt_.config.optimizer);
  rules_.bias_correction = rt_.config.optimizer.bias_correction;
}

void Vote::prepare(const LossScaler& scaler) {
  const std::size_t params = rt_.params.size();
  Carver carver;
  const std::int64_t state = carver.take<kernels::StepState>(1);
  const std::int64_t rates = carver.take<std::byte>(rates_.bytes());
  const std::int64_t groups = carver.take<std::int32_t>(params);
  const std::int64_t counts = carver.take<std::int64_t>(params);
  const std::int64_t constants = carver.take<kernels::UpdateConstants>(params);
  const std::int64_t messages = carver.take<std::uint64_t>(
      static_cast<std::size_t>(rules_.layout.words()) * static_cast<std::size_t>(rt_.world_size()));
  buffer_ = rt_.allocate(Category::kWorkspace, carver.bytes() / 4, DType::kFloat32, "the vote");
  const auto at = [&](std::int64_t offset) -> void* { return buffer_.data() + offset; };
  memory_.state = static_cast<kernels::StepState*>(at(state));
  rates_memory_ = static_cast<std::byte*>(at(rates));
  memory_.rates = static_cast<const kernels::RateTable*>(at(rates));
  memory_.group_of_param = static_cast<const std::int32_t*>(at(groups));
  memory_.step_counts = static_cast<std::int64_t*>(at(counts));
  memory_.constants = static_cast<kernels::UpdateConstants*>(at(constants));
  memory_.messages = static_cast<std::uint64_t*>(at(messages));

  kernels::StepState start;
  start.scaler = scaler.state();
  start.loss_scale = static_cast<float>(scaler.scale());
  std::vector<std::int32_t> group_of_param;
  for (const ParamState& param : rt_.params) {
    group_of_param.push_back(param.has_state ? param.spec.group : -1);
  }
  kernels::fill_bytes(buffer_.data(), 0, buffer_.bytes(), rt_.compute);
  kernels::copy(memory_.state, &start, sizeof(start), rt_.compute);
  kernels::copy(at(groups), group_of_param.data(),
                static_cast<std::int64_t>(params * sizeof(std::int32_t)), rt_.compute);
  rt_.compute.synchronize();
}

void Vote::write_bits(std::byte* ballot) {
  const auto words = static_cast<std::size_t>(rules_.layout.bit_words());
  std::vector<std::uint64_t> bits(2 * words);
  for (std::size_t i = 0; i < rt_.params.size(); ++i) {
    if (rt_.params[i].touched) set_bit(bits, 0, i);
    if (!rt_.params[i].requires_grad) set_bit(bits, words, i);
  }
  if (rt_.compute.capturing()) {
    if (captured_bits_ && *captured_bits_ != bits) {
      throw UsageError(
          "a step is captured into a second CUDA graph with other parameters frozen or without "
          "gradient than in the first, whose replays would take them too");
    }
    captured_bits_ = bits;
  }
  if (!bits.empty()) std::memcpy(ballot, bits.data(), bits_bytes());
}

void Vote::take_statistics() {
  std::uint64_t* const mine = memory_.messages + std::int64_t{rt_.rank()} * rules_.layout.words();
  auto* const stats = reinterpret_cast<kernels::GradStats*>(mine + kernels::VoteLayout::kStats);
  for (const Bucket& bucket : rt_.layout.buckets()) {
    if (!bucket.trainable) continue;
    // Each rank looks at its own shard, also at stage 0, where it has all of them.
    const kernels::View owned = policy_.reduced(bucket);
    const std::int64_t skip = rt_.shard(bucket).begin - policy_.owned(bucket).begin;
    const kernels::ConstView shard{static_cast<std::byte*>(owned.data) +
                                       skip * static_cast<std::int64_t>(dtype_bytes(owned.dtype)),
                                   owned.dtype, bucket.shard_elems};
    // Outside every parameter only a model that writes past its gradient can have put it.
    kernels::grad_stats(shard, pieces_.of(bucket), skip, bucket.segments.front().param, stats,
                        mine + kernels::VoteLayout::kBadParam, rt_.compute);
  }
}

void Vote::hold(std::byte* ballot, std::int64_t steps_open, const std::string& note) {
  const detail::ProfilerRange range("zero vote");
  const kernels::VoteLayout& layout = rules_.layout;
  write_bits(ballot);
  if (rates_.stale(steps_open + 1)) give_rates(ballot);
  std::uint64_t* const mine = memory_.messages + std::int64_t{rt_.rank()} * layout.words();
  kernels::begin_vote(rules_, memory_, rt_.compute);
  kernels::copy(mine + layout.touched(), ballot, static_cast<std::int64_t>(bits_bytes()),
                rt_.compute);
  take_statistics();
  rt_.comm_after_compute();
  rt_.comm.all_gather(mine, memory_.messages, 2 * std::int64_t{layout.words()}, DType::kFloat32,
                      {Purpose::kControl, "the step's vote", note}, rt_.comm_stream());
  rt_.compute_after_comm();
  kernels::decide(rules_, memory_, rt_.compute);
}

void Vote::give_rates(std::byte* ballot) {
  std::byte* const table = ballot + bits_bytes();
  rates_.write(table);
  kernels::copy(rates_memory_, table, static_cast<std::int64_t>(rates_.bytes()), rt_.compute);
}

bool Vote::is_skipped() const {
  return rt_.device.kind() == DeviceKind::kHost && !memory_.state->last.applied;
}

std::vector<std::int64_t> Vote::step_counts() const {
  std::vector<std::int64_t> counts(rt_.params.size());
  kernels::copy(counts.data(), memory_.step_counts,
                static_cast<std::int64_t>(counts.size() * sizeof(std::int64_t)), rt_.compute);
  rt_.compute.synchronize();
  rt_.comm.check();
  return counts;
}

void Vote::restore(const kernels::StepState& state, const std::vector<std::int64_t>& step_counts) {
  kernels::copy(memory_.state, &state, sizeof(state), rt_.compute);
  kernels::copy(memory_.step_counts, step_counts.data(),
                static_cast<std::int64_t>(step_counts.size() * sizeof(std::int64_t)), rt_.compute);
  rt_.compute.synchronize();
}

std::string Vote::difference(const kernels::StepOutcome& outcome) const {
  if (outcome.differing_word < 0) return {};
  const int word = outcome.differing_word - kernels::VoteLayout::kSettings;
  if (word < rules_.layout.settings_words()) {
    return detail::concat("the ranks differ: ",
                          kSettingNames[static_cast<std::size_t>(word % kernels::kRatesPerGroup)],
                          " of group ", word / kernels::kRatesPerGroup, " is ",
                          std::bit_cast<double>(outcome.of_rank_0), " on rank 0 and ",
                          std::bit_cast<double>(outcome.of_other), " on rank ",
                          outcome.differing_rank);
  }
  const std::uint64_t differing = outcome.of_rank_0 ^ outcome.of_other;
  const int bit = std::countr_zero(differing);
  const int param = 64 * (outcome.differing_word - rules_.layout.frozen()) + bit;
  return detail::concat("the ranks differ: parameter ",
                        rt_.params[static_cast<std::size_t>(param)].spec.name, " is ",
                        ((outcome.of_rank_0 >> bit) & 1) != 0 ? "frozen" : "trainable",
                        " on rank 0, not so on rank ", outcome.differing_rank);
}

}  // namespace zero
