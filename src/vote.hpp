// The one exchange of a step: is any gradient not finite, what is the norm, which parameters have a
// gradient, and do all ranks agree on group settings and frozen parameters? And what follows from
// it: is the step applied, with which constants.
//
// The sum of squares is exact (a fixed-point number), so the norm does not depend on how many ranks
// there are and where the shards are cut. All of it stays on the device; the host gets a copy.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/decision.hpp"
#include "src/loss_scaler.hpp"
#include "src/owned_pieces.hpp"
#include "src/rates.hpp"

namespace zero {

class Vote {
 public:
  Vote(Runtime& runtime, BucketPolicy& policy, const OwnedPieces& pieces, Rates& rates);
  // Makes the memory. After registration is complete. Blocks.
  void prepare(const LossScaler& scaler);

  // What the host says to it: per parameter whether it has a gradient and whether it is frozen, and
  // the rates if they are stale. Host memory for the stream to read.
  std::size_t ballot_bytes() const { return bits_bytes() + rates_.bytes(); }
  // Enqueues the vote and the decision. `steps_open`: issued, and their outcome not yet known.
  // Collective. `ballot` stays as it is until the stream has passed. REQUIRES: the compute stream
  // has waited for all reductions.
  void hold(std::byte* ballot, std::int64_t steps_open, const std::string& note);

  // Gives the device rates for as many updates as a table holds; `ballot` as above.
  void give_rates(std::byte* ballot);
  // Known at once on the host; false on a GPU, where only the device knows.
  bool is_skipped() const;

  // Per parameter, on the device, once the vote is held.
  const kernels::UpdateConstants* constants() const { return memory_.constants; }
  kernels::UpdateConstants::Rule rule() const { return rules_.rule; }
  // Lives on the device.
  const kernels::StepState* state() const { return memory_.state; }
  // Copies the updates of every parameter from the device; blocks.
  std::vector<std::int64_t> step_counts() const;
  // Sets what lives from step to step. Blocks. REQUIRES: no step is open; one count a parameter.
  void restore(const kernels::StepState& state, const std::vector<std::int64_t>& step_counts);
  // The error that an outcome is, in words, if the ranks differ; else empty.
  std::string difference(const kernels::StepOutcome& outcome) const;

 private:
  std::size_t bits_bytes() const {
    return 2 * static_cast<std::size_t>(rules_.layout.bit_words()) * sizeof(std::uint64_t);
  }
  void write_bits(std::byte* ballot);
  void take_statistics();

  Runtime& rt_;
  BucketPolicy& policy_;
  const OwnedPieces& pieces_;
  Rates& rates_;
  kernels::StepRules rules_;
  kernels::StepMemory memory_;
  std::byte* rates_memory_ = nullptr;
  std::optional<std::vector<std::uint64_t>> captured_bits_;
  Buffer buffer_;
};

}  // namespace zero
