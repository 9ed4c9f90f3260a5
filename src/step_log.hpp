// The steps that were issued and whose outcome is not yet known to the host, and what is known of
// all before: how many were applied and skipped, the loss scale.
//
// A step takes a slot of host memory: what the host says goes in, the outcome comes out. There are
// two, so at most two steps are under way, and the host waits for none but the one before the last.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "src/loss_scaler.hpp"
#include "src/rates.hpp"
#include "src/staging.hpp"
#include "src/vote.hpp"
#include "zero/step_result.hpp"

namespace zero {

struct IssuedStep {
  StepLog* log = nullptr;  // while the result is still to come
  StepResult result;
  std::exception_ptr error;
  bool captured = false;
};

class StepLog {
 public:
  using Log = std::function<void(std::string_view)>;

  // REQUIRES: all outlive it; `log` may change.
  StepLog(Runtime& runtime, Vote& vote, Rates& rates, LossScaler& scaler, const Log& log);
  ~StepLog() = default;
  StepLog(const StepLog&) = delete;
  StepLog& operator=(const StepLog&) = delete;

  // Memory for the host's part of the next step; the same again until close(). Waits for the step
  // before the last. Throws the errors of steps that no one has looked at. UsageError if the step
  // is captured and something that it needs is not settled.
  std::byte* open();
  std::int64_t steps_open() const { return static_cast<std::int64_t>(open_.size()); }
  // After the work of the step: enqueues the way of the outcome to the host. On the host it is
  // there at once, and its error is thrown.
  StepHandle close();
  // Of a micro-step that is not the last one.
  static StepHandle inside();

  // Takes the outcome of every step that is open, for those who hold on to it and for the log. At
  // the end of the optimizer.
  void finish() noexcept;
  // Waits for all steps, and throws the first error that no one has looked at.
  void settle();
  // settle(), and takes what the device has counted meanwhile: also replays of a captured step. The
  // device gets rates for as many steps as a table holds.
  StepResult synchronize();
  // Waits for one, and throws its error.
  const StepResult& result(IssuedStep& step);

  // The device's state as it was when a checkpoint was made. REQUIRES: no step is open.
  void restore(const kernels::StepState& state, const std::vector<std::int64_t>& step_counts);

  std::int64_t applied_steps() const { return applied_; }
  std::int64_t skipped_steps() const { return skipped_; }
  double last_loss_scale() const { return last_loss_scale_; }

 private:
  struct Open {
    std::shared_ptr<IssuedStep> step;
    std::byte* slot;
    std::vector<double> lr;  // of the host's groups when it was issued
    Event done;
  };
  bool captures() const { return rt_.compute.capturing(); }
  std::byte* ballot(std::byte* slot) const { return slot + sizeof(kernels::StepState); }
  // The oldest step that is open.
  void take_oldest();
  void take(const kernels::StepState& state, std::vector<double> lr, StepResult& result);
  void throw_unseen();

  Runtime& rt_;
  Vote& vote_;
  Rates& rates_;
  LossScaler& scaler_;
  const Log& log_;
  std::deque<Staging> slots_;
  std::size_t next_slot_ = 0;
  std::byte* slot_ = nullptr;  // of the step between open() and close()
  std::deque<Open> open_;
  std::exception_ptr unseen_;          // the first error of a step that no one has looked at
  StepResult last_;                    // of the last step that is known
  std::int64_t missing_told_at_ = -1;  // updates applied when rates were missing, and it was said
  std::int64_t applied_ = 0;
  std::int64_t skipped_ = 0;
  double last_loss_scale_ = 1.0;
};

}  // namespace zero
