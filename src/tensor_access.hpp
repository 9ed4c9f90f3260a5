// Whole tensors in and out of sharded state: the mechanism behind ZeroOptimizer::read and write.
//
// A tensor's pieces are broadcast by the ranks that hold them, straight into the caller's memory,
// so reading costs no memory but the tensor itself (and one fp32 copy of it when writing).
#pragma once

#include <span>

#include "stages/stage.hpp"
#include "zero/zero_optimizer.hpp"

namespace zero {

class TensorAccess {
 public:
  TensorAccess(Runtime& runtime, Stage& stage) : rt_(runtime), stage_(stage) {}

  // `loss_scale`: what the gradients of the last step are multiplied with.
  void read(int param, Tensor what, std::span<float> out, double loss_scale);
  void write(int param, Tensor what, std::span<const float> values);

 private:
  // Memory of a bucket's elements [range) that this rank holds.
  struct Source {
    kernels::View view;
    Range range;
  };
  Source source(const ParamState& param, Tensor what) const;
  void check(const ParamState& param, Tensor what, std::size_t size) const;
  void write_params(const ParamState& param, const float* values, bool exact_master);

  Runtime& rt_;
  Stage& stage_;
};

}  // namespace zero
