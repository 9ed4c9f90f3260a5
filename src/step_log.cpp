#include "src/step_log.hpp"

#include <cstring>
#include <utility>

#include "zero/error.hpp"

namespace zero {

using detail::concat;

namespace {

constexpr std::size_t kUnderWay = 2;

}  // namespace

bool StepHandle::boundary() const { return issued_->log != nullptr || issued_->result.boundary; }

const StepResult& StepHandle::result() const {
  if (issued_->log != nullptr) return issued_->log->result(*issued_);
  if (issued_->error != nullptr) std::rethrow_exception(issued_->error);
  return issued_->result;
}

StepLog::StepLog(Runtime& runtime, Vote& vote, Rates& rates, LossScaler& scaler, const Log& log)
    : rt_(runtime), vote_(vote), rates_(rates), scaler_(scaler), log_(log) {
  // One more, for a step that is captured: its slot is for its replays alone.
  for (std::size_t i = 0; i < kUnderWay + 1; ++i) {
    slots_.emplace_back(rt_.device, rt_.ledger, sizeof(kernels::StepState) + vote.ballot_bytes());
  }
}

void StepLog::finish() noexcept {
  while (!open_.empty()) take_oldest();
}

std::byte* StepLog::open() {
  if (captures()) {
    if (!open_.empty() || rates_.stale(1)) {
      throw UsageError(
          "step() is captured into a graph while steps before it are open: call synchronize() "
          "before the capture begins");
    }
    slot_ = slots_[kUnderWay].data();
    return ballot(slot_);
  }
  while (open_.size() >= kUnderWay) take_oldest();
  throw_unseen();
  slot_ = slots_[next_slot_].data();
  return ballot(slot_);
}

StepHandle StepLog::close() {
  auto step = std::make_shared<IssuedStep>();
  step->result.boundary = true;
  std::byte* const slot = std::exchange(slot_, nullptr);
  kernels::copy(slot, vote_.state(), sizeof(kernels::StepState), rt_.compute);
  if (captures()) {
    step->captured = true;
    step->error = std::make_exception_ptr(UsageError(
        "this step was captured; ZeroOptimizer::synchronize() tells what its last replay "
        "did"));
    return StepHandle(std::move(step));
  }
  next_slot_ = (next_slot_ + 1) % kUnderWay;
  step->log = this;
  std::vector<double> lr;
  for (const ParamGroup& group : rt_.groups) lr.push_back(group.lr);
  open_.push_back({step, slot, std::move(lr), rt_.compute.record()});
  if (rt_.device.kind() != DeviceKind::kCuda) settle();
  return StepHandle(std::move(step));
}

StepHandle StepLog::inside() { return StepHandle(std::make_shared<IssuedStep>()); }

void StepLog::take_oldest() {
  Open open = std::move(open_.front());
  open_.pop_front();
  open.step->log = nullptr;
  try {
    open.done.synchronize();
    rt_.comm.check();
    kernels::StepState state;
    if (rt_.device.has_memory()) {
      std::memcpy(&state, open.slot, sizeof(state));
    } else {  // a dry run: nothing speaks against the step
      state.applied_steps = applied_ + 1;
      state.last.update = applied_;
      state.last.applied = true;
    }
    take(state, std::move(open.lr), open.step->result);
  } catch (...) {
    open.step->error = std::current_exception();
    if (unseen_ == nullptr) unseen_ = open.step->error;
  }
}

void StepLog::throw_unseen() {
  if (unseen_ != nullptr) std::rethrow_exception(std::exchange(unseen_, nullptr));
}

void StepLog::settle() {
  while (!open_.empty()) take_oldest();
  throw_unseen();
}

const StepResult& StepLog::result(IssuedStep& step) {
  while (step.log != nullptr) take_oldest();
  if (step.error != nullptr) {
    if (unseen_ == step.error) unseen_ = nullptr;
    std::rethrow_exception(step.error);
  }
  return step.result;
}

StepResult StepLog::synchronize() {
  settle();
  StepResult result;
  if (!rt_.device.has_memory()) return result;
  std::byte* const slot = slots_[next_slot_].data();
  kernels::copy(slot, vote_.state(), sizeof(kernels::StepState), rt_.compute);
  rt_.compute.synchronize();
  rt_.comm.check();
  kernels::StepState state;
  std::memcpy(&state, slot, sizeof(state));
  // Counted by no step of the host: replays. Others have had their say.
  const bool missing = state.last.rates_missing && missing_told_at_ != state.applied_steps;
  std::exception_ptr error;
  if (state.applied_steps + state.skipped_steps > applied_ + skipped_ || missing) {
    try {
      take(state, rates_.lr(state.last.update), result);
    } catch (...) {  // the next replays shall have their rates all the same
      error = std::current_exception();
    }
  } else {
    result = last_;
  }
  vote_.give_rates(ballot(slot));
  rt_.compute.synchronize();
  if (error != nullptr) std::rethrow_exception(error);
  return result;
}

void StepLog::restore(const kernels::StepState& state,
                      const std::vector<std::int64_t>& step_counts) {
  vote_.restore(state, step_counts);
  applied_ = state.applied_steps;
  skipped_ = state.skipped_steps;
  scaler_ = LossScaler(state.scaler);
  last_ = {};
  last_loss_scale_ = state.scaler.scale;
  missing_told_at_ = -1;
}

// What the device came to, in the host's words and counts.
void StepLog::take(const kernels::StepState& state, std::vector<double> lr, StepResult& result) {
  const kernels::StepOutcome& outcome = state.last;
  if (std::string difference = vote_.difference(outcome); !difference.empty()) {
    throw UsageError(difference);
  }
  if (outcome.rates_missing) {
    missing_told_at_ = applied_ = state.applied_steps;
    skipped_ = state.skipped_steps;
    scaler_ = LossScaler(state.scaler);
    rates_.advance(applied_);  // says why, if the schedule has no more
    throw UsageError(concat("the step after ", outcome.update,
                            " updates has no rates: a captured step was replayed too often. Call "
                            "synchronize() between replays"));
  }
  result.boundary = true;
  result.applied = outcome.applied;
  result.skipped = !outcome.applied;
  result.grad_norm = outcome.grad_norm;
  result.clip_coef = outcome.clip_coef;
  result.loss_scale = last_loss_scale_ = outcome.loss_scale;
  result.next_loss_scale = outcome.next_loss_scale;
  result.skipped_steps = skipped_ = state.skipped_steps;
  result.lr = rates_.scheduled() ? rates_.lr(outcome.update) : std::move(lr);
  applied_ = state.applied_steps;
  scaler_ = LossScaler(state.scaler);
  if (outcome.applied) {
    last_ = result;
    return rates_.advance(applied_);
  }
  result.nonfinite_rank = outcome.bad_rank;
  result.nonfinite_param = outcome.bad_param < 0
                               ? "(no parameter: finite, but its square is beyond fp32)"
                               : rt_.params[static_cast<std::size_t>(outcome.bad_param)].spec.name;
  last_ = result;
  if (log_) {
    log_(concat("step skipped: gradients are not finite, first in ", result.nonfinite_param,
                ", in the shard of rank ", result.nonfinite_rank, "; loss scale ",
                outcome.loss_scale, "; ", skipped_, " skipped so far"));
  }
  if (outcome.exhausted) {
    throw LossScaleError(concat("gradients overflow at the minimum loss scale ", outcome.loss_scale,
                                ": first in parameter ", result.nonfinite_param,
                                ", in the shard of rank ", result.nonfinite_rank, ", after ",
                                applied_, " applied steps. Lower the learning rate, or use bf16"));
  }
}

}  // namespace zero
