// What a step decides: from the votes of all ranks to the constants of the update. Everything here
// is in the memory of the stream's device, so that on a GPU no one waits for it.
//
// A vote is a message of 64-bit words that every rank gathers from every other: statistics of its
// shard of the gradients, first parameter that is not finite, settings of the groups, which
// parameters have a gradient, which are frozen. From the same messages every rank decides the same.
#pragma once

#include <cstdint>

#include "kernels/kernels.hpp"
#include "kernels/loss_scale_math.hpp"

namespace zero::kernels {

// Settings of a param group for one update.
struct GroupRates {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
};
inline constexpr int kRatesPerGroup = 5;

// The rates of coming updates. Row i is for the update that follows `first` + i applied ones.
struct RateTable {
  std::int64_t first = 0;
  std::int64_t count = 0;  // rows; 0: one row, for every update
};

// Where the words of a message are.
struct VoteLayout {
  std::int32_t groups = 0;
  std::int32_t params = 0;

  static constexpr std::int32_t kStats = 0;  // a GradStats: digits, then the largest magnitude
  static constexpr std::int32_t kMaxAbs = kStats + GradStats::kDigits;
  static constexpr std::int32_t kBadParam = kMaxAbs + 1;  // as grad_stats() gives it
  static constexpr std::int32_t kSettings = kBadParam + 1;
  ZERO_HOST_DEVICE std::int32_t settings_words() const { return groups * kRatesPerGroup; }
  ZERO_HOST_DEVICE std::int32_t bit_words() const { return (params + 63) / 64; }
  // One bit a parameter: has a gradient on this rank; and then: is frozen.
  ZERO_HOST_DEVICE std::int32_t touched() const { return kSettings + settings_words(); }
  ZERO_HOST_DEVICE std::int32_t frozen() const { return touched() + bit_words(); }
  ZERO_HOST_DEVICE std::int32_t words() const { return frozen() + bit_words(); }
};

// What one step came to.
struct StepOutcome {
  bool applied = false;
  bool finite = true;           // every gradient; if it is not applied all the same, see below
  bool exhausted = false;       // an overflow at the minimum loss scale: an error
  bool rates_missing = false;   // the table of rates ends before this update: an error
  std::int32_t bad_rank = -1;   // whose shard holds ...
  std::int32_t bad_param = -1;  // ... the first parameter that is not finite
  double grad_norm = 0;         // unscaled, before clipping; NaN if not finite
  double clip_coef = 1;
  double loss_scale = 1;
  double next_loss_scale = 1;
  std::int64_t update = 0;  // updates applied before this step
  std::int64_t skipped_steps = 0;
  // The first word (of the settings and the frozen bits) in which a rank's message is not that of
  // rank 0, and what both say; -1: none. A difference is an error.
  std::int32_t differing_word = -1;
  std::int32_t differing_rank = -1;
  std::uint64_t of_rank_0 = 0, of_other = 0;
};

// Lives from step to step.
struct StepState {
  LossScale scaler;
  float loss_scale = 1;  // of `scaler`, for kernels that multiply a loss
  std::int64_t applied_steps = 0;
  std::int64_t skipped_steps = 0;
  StepOutcome last;
};

// The same on every rank and in every step.
struct StepRules {
  VoteLayout layout;
  std::int32_t rank = 0;
  std::int32_t world_size = 1;
  double max_norm = 0;  // 0: no clipping
  UpdateConstants::Rule rule = UpdateConstants::Rule::kAdamDecoupled;
  bool bias_correction = true;
};

// Where it all is.
struct StepMemory {
  StepState* state = nullptr;
  std::uint64_t* messages = nullptr;  // of all ranks, one after the other
  const RateTable* rates = nullptr;   // and behind it the rows: GroupRates [capacity][groups]
  const std::int32_t* group_of_param = nullptr;  // [params]; -1: without optimizer state
  std::int64_t* step_counts = nullptr;           // [params]: updates applied
  UpdateConstants* constants = nullptr;          // [params]
};

// Makes this rank's message ready for its gradient statistics: those words cleared, the settings
// of the coming update filled in. The words of the bits are the caller's.
void begin_vote(const StepRules& rules, const StepMemory& memory, Stream& stream);

// Reads all messages, decides, counts, and forms the constants of every parameter; inactive ones
// where nothing is to be updated.
void decide(const StepRules& rules, const StepMemory& memory, Stream& stream);

}  // namespace zero::kernels
