// Which elements of which tensors a rank puts into a checkpoint and takes from one, and where they
// are in its memory.
#pragma once

#include <string>
#include <vector>

#include "src/grad_reducer.hpp"
#include "stages/stage.hpp"
#include "zero/checkpoint.hpp"

namespace zero {

// A range of one parameter's tensor and the memory that has it.
struct StoredRange {
  StateRange range;
  int param = 0;
  std::byte* memory = nullptr;  // of the device
  std::size_t bytes() const {
    return static_cast<std::size_t>(range.end - range.begin) * dtype_bytes(range.dtype);
  }
};

class CheckpointRanges {
 public:
  // REQUIRES: all outlive it, and are prepared.
  CheckpointRanges(const Runtime& runtime, const Stage& stage, const GradReducer& reducer)
      : rt_(runtime), stage_(stage), reducer_(reducer) {}

  // What this rank writes: of every bucket its shard, so that all ranks together write each element
  // once, and padding never. Inside an accumulation window the sums of gradients as well.
  std::vector<StoredRange> to_save() const;
  // What this rank holds of weights, moments and frozen parameters, and so has to read.
  std::vector<StoredRange> held() const;
  // The sums of gradients that this rank would hold after `micro_step` micro-steps of a window.
  std::vector<StoredRange> gradients(int micro_step) const;
  // How the sums of gradients of a window are kept, in words that tell what can continue what.
  std::string kind_of_window() const;

 private:
  void add_states(const Bucket& bucket, const Range& range, std::vector<StoredRange>& out) const;
  // Parts of the parameters in `range` of a bucket; `memory` has its elements from `first` on.
  void add(const Bucket& bucket, const Range& range, StateKind kind, const std::string& part,
           const kernels::View& memory, std::int64_t first, std::vector<StoredRange>& out) const;

  const Runtime& rt_;
  const Stage& stage_;
  const GradReducer& reducer_;
};

}  // namespace zero
