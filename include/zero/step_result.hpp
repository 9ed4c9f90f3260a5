// What a step did, and how to ask for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace zero {

// What a step did. Values are the same on every rank.
struct StepResult {
  bool boundary = false;    // false: one micro-step of several, nothing else is set
  bool applied = false;     // the weights were updated
  bool skipped = false;     // gradients were not finite; nothing changed but the loss scale
  double grad_norm = 0.0;   // of the mean gradient, unscaled, before clipping; NaN or inf on a skip
  double clip_coef = 1.0;   // min(1, max_norm / (norm + 1e-6))
  double loss_scale = 1.0;  // in force for this step's backward passes
  double next_loss_scale = 1.0;
  std::vector<double> lr;          // used in this step, per group
  std::int64_t skipped_steps = 0;  // in all
  std::string nonfinite_param;     // on a skip: the first parameter, in registration order, ...
  int nonfinite_rank = -1;         // ... and the rank whose shard of the sum holds the element
};

class StepLog;
struct IssuedStep;

// A step that was issued. On the host it is done; on a CUDA device its result is there when the
// device has got so far. A cheap handle; it may outlive its optimizer. Of one thread.
class StepHandle {
 public:
  // Whether it was the last micro-step of a step. Known at once.
  bool boundary() const;
  // Blocks until the step is done, and so are all before it. Throws what went wrong in it:
  // LossScaleError, UsageError if the ranks' settings differ, CommError, CudaError. Who looks at no
  // result gets these errors from step(), at the latest two steps later. UsageError of a step that
  // was captured: see ZeroOptimizer::synchronize().
  const StepResult& result() const;
  operator StepResult() const { return result(); }  // NOLINT: `StepResult r = optimizer.step();`

 private:
  friend class StepLog;
  explicit StepHandle(std::shared_ptr<IssuedStep> issued) : issued_(std::move(issued)) {}
  std::shared_ptr<IssuedStep> issued_;
};

}  // namespace zero
