#include "src/vote.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "zero/error.hpp"

namespace zero {
namespace {

// A message: max |g| | first bad parameter + 1 | sum of squares | group settings | gradient bits |
// frozen bits, in words of 64 bits.
constexpr std::size_t kMax = 0;
constexpr std::size_t kBadParam = 1;
constexpr std::size_t kSum = 2;
constexpr std::size_t kSettings = kSum + kernels::GradStats::kDigits;
constexpr std::size_t kSettingsPerGroup = 5;
constexpr std::array<const char*, kSettingsPerGroup> kSettingNames = {"lr", "beta1", "beta2", "eps",
                                                                      "weight_decay"};

std::array<double, kSettingsPerGroup> settings_of(const ParamGroup& group) {
  return {group.lr, group.beta1, group.beta2, group.eps, group.weight_decay};
}

bool bit(const std::uint64_t* words, std::size_t index) {
  return ((words[index / 64] >> (index % 64)) & 1) != 0;
}

void set_bit(std::uint64_t* words, std::size_t index) {
  words[index / 64] |= std::uint64_t{1} << (index % 64);
}

}  // namespace

std::size_t Vote::words() const {
  return kSettings + kSettingsPerGroup * rt_.groups.size() + 2 * ((rt_.params.size() + 63) / 64);
}

void Vote::prepare() {
  const auto words_of_all = static_cast<std::int64_t>(words()) * rt_.world_size();
  messages_ = rt_.allocate(Category::kWorkspace, 2 * words_of_all, DType::kFloat32, "the vote");
}

void Vote::write(std::vector<std::uint64_t>& message) {
  kernels::GradStats stats;
  int bad_param = -1;
  for (const Bucket& bucket : rt_.layout.buckets()) {
    if (!bucket.trainable) continue;
    // Each rank looks at its own shard, also at stage 0, where it has all of them.
    const kernels::View owned = policy_.reduced(bucket);
    const std::int64_t skip = rt_.shard(bucket).begin - policy_.owned(bucket).begin;
    const kernels::ConstView shard{static_cast<std::byte*>(owned.data) +
                                       skip * static_cast<std::int64_t>(dtype_bytes(owned.dtype)),
                                   owned.dtype, bucket.shard_elems};
    kernels::GradStats own;
    kernels::grad_stats(shard, &own, rt_.compute);
    rt_.compute.synchronize();
    if (!own.finite()) {
      const std::int64_t at = rt_.shard(bucket).begin + kernels::first_nonfinite(shard);
      const std::vector<Piece> piece = rt_.layout.pieces(bucket.index, at, at + 1);
      // Outside every parameter only a model that writes past its gradient can have put it.
      const int param = piece.empty() ? bucket.segments.front().param : piece.front().param;
      if (bad_param < 0 || param < bad_param) bad_param = param;
    }
    stats.add(own);
  }
  message[kMax] = stats.max_abs_bits;
  message[kBadParam] = static_cast<std::uint64_t>(bad_param + 1);
  std::copy(stats.sum_squares.begin(), stats.sum_squares.end(), message.begin() + kSum);
  std::uint64_t* place = message.data() + kSettings;
  for (const ParamGroup& group : rt_.groups) {
    for (const double value : settings_of(group)) *place++ = std::bit_cast<std::uint64_t>(value);
  }
  std::uint64_t* const frozen = place + (rt_.params.size() + 63) / 64;
  for (std::size_t i = 0; i < rt_.params.size(); ++i) {
    if (rt_.params[i].touched) set_bit(place, i);
    if (!rt_.params[i].requires_grad) set_bit(frozen, i);
  }
}

void Vote::compare_settings(const std::uint64_t* first, const std::uint64_t* other,
                            int rank) const {
  for (std::size_t i = 0; i < rt_.groups.size() * kSettingsPerGroup; ++i) {
    if (first[kSettings + i] == other[kSettings + i]) continue;
    throw UsageError(detail::concat(
        "the ranks differ: ", kSettingNames[i % kSettingsPerGroup], " of group ",
        i / kSettingsPerGroup, " is ", std::bit_cast<double>(first[kSettings + i]),
        " on rank 0 and ", std::bit_cast<double>(other[kSettings + i]), " on rank ", rank));
  }
  const std::size_t frozen =
      kSettings + kSettingsPerGroup * rt_.groups.size() + (rt_.params.size() + 63) / 64;
  for (std::size_t i = 0; i < rt_.params.size(); ++i) {
    if (bit(first + frozen, i) == bit(other + frozen, i)) continue;
    throw UsageError(detail::concat("the ranks differ: parameter ", rt_.params[i].spec.name, " is ",
                                    bit(first + frozen, i) ? "frozen" : "trainable",
                                    " on rank 0, not so on rank ", rank));
  }
}

Verdict Vote::hold(const std::string& note) {
  std::vector<std::uint64_t> message(words());
  write(message);
  const std::size_t bytes = message.size() * sizeof(std::uint64_t);
  std::byte* const mine = messages_.data() + static_cast<std::size_t>(rt_.rank()) * bytes;
  kernels::copy(mine, message.data(), static_cast<std::int64_t>(bytes), rt_.compute);
  rt_.comm_after_compute();
  rt_.comm.all_gather(mine, messages_.data(), static_cast<std::int64_t>(2 * message.size()),
                      DType::kFloat32, {Purpose::kControl, "the step's vote", note},
                      rt_.comm_stream());
  rt_.compute_after_comm();
  // In a dry run no one has said anything, and the world may be large.
  const int voters = rt_.device.has_memory() ? rt_.world_size() : 1;
  std::vector<std::uint64_t> all(message.size() * static_cast<std::size_t>(voters));
  kernels::copy(all.data(), messages_.data(), static_cast<std::int64_t>(bytes) * voters,
                rt_.compute);
  rt_.compute.synchronize();

  Verdict verdict;
  kernels::GradStats total;
  for (ParamState& param : rt_.params) param.has_gradient = false;
  std::vector<std::uint64_t> first = message;
  for (int rank = 0; rank < voters; ++rank) {
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(message.size()) * rank, message.size(),
                message.begin());
    if (rank == 0) first = message;
    compare_settings(first.data(), message.data(), rank);
    kernels::GradStats stats;
    stats.max_abs_bits = static_cast<std::uint32_t>(message[kMax]);
    std::copy_n(message.begin() + kSum, kernels::GradStats::kDigits, stats.sum_squares.begin());
    total.add(stats);
    const int bad = static_cast<int>(message[kBadParam]) - 1;
    if (bad >= 0 && (verdict.nonfinite_param < 0 || bad < verdict.nonfinite_param)) {
      verdict.nonfinite_param = bad;
      verdict.nonfinite_rank = rank;
    }
    const std::uint64_t* touched =
        message.data() + kSettings + kSettingsPerGroup * rt_.groups.size();
    for (std::size_t i = 0; i < rt_.params.size(); ++i) {
      if (bit(touched, i)) rt_.params[i].has_gradient = true;
    }
  }
  verdict.finite = total.finite();
  verdict.norm = std::sqrt(total.sum_of_squares());
  verdict.max_abs = std::bit_cast<float>(total.max_abs_bits);
  return verdict;
}

}  // namespace zero
