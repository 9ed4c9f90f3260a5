// Passes over units, and what a step does.
#include <algorithm>
#include <cmath>
#include <limits>

#include "src/zero_optimizer_impl.hpp"

namespace zero {

using detail::concat;

void ZeroOptimizer::Impl::begin(Unit unit, Pass pass) {
  require(true, pass == Pass::kForward ? "forward" : "backward");
  require_whole(pass == Pass::kForward ? "forward" : "backward");
  UnitState& state = checked(unit);
  stage->before_use(unit.index, pass);
  if (pass == Pass::kBackward) {
    backward_begun = true;
    reducer->open(unit.index);
    ++state.open_backward;
  } else {
    ++state.open_forward;
  }
}

void ZeroOptimizer::Impl::end(Unit unit, Pass pass) {
  require(true, pass == Pass::kForward ? "end_forward" : "end_backward");
  UnitState& state = checked(unit);
  int& open = pass == Pass::kForward ? state.open_forward : state.open_backward;
  if (open == 0) {
    throw UsageError(concat(pass == Pass::kForward ? "end_forward" : "end_backward", " of unit ",
                            state.name, " without its begin"));
  }
  --open;
  if (pass == Pass::kBackward) {
    reducer->close(unit.index, unused);
    std::erase_if(unused, [&](int param) {
      return std::find(state.params.begin(), state.params.end(), param) != state.params.end();
    });
  }
  stage->after_use(unit.index, pass);
}

void ZeroOptimizer::Impl::close_micro_step() {
  backward_begun = false;
  reducer->end_micro_step();
  stage->end_micro_step();
}

void ZeroOptimizer::Impl::end_micro_step() {
  require(true, "end_micro_step()");
  require_whole("end_micro_step()");
  require_no_use("end_micro_step()");
  if (rt.config.managed_accumulation) {
    throw UsageError(
        "end_micro_step() is for managed_gradient_accumulation false; otherwise step() ends every "
        "micro-step");
  }
  close_micro_step();
  ++rt.micro_step;
}

StepResult ZeroOptimizer::Impl::step() {
  require(true, "step()");
  require_whole("step()");
  require_no_use("step()");
  bool boundary = false;
  {
    struct Stepping {
      bool& flag;
      explicit Stepping(bool& f) : flag(f) { flag = true; }
      ~Stepping() { flag = false; }
    } stepping(rt.stepping);
    close_micro_step();
    boundary = rt.is_boundary();
  }
  if (!boundary) {
    ++rt.micro_step;
    return {};
  }
  rt.micro_step = 0;
  reducer->finish();
  const Verdict verdict = vote->hold(reducer->contributions());
  StepResult result = apply(verdict);
  for (ParamState& param : rt.params) param.touched = false;
  return result;
}

StepResult ZeroOptimizer::Impl::apply(const Verdict& verdict) {
  StepResult result;
  result.boundary = true;
  result.loss_scale = last_loss_scale = scaler.scale();
  result.grad_norm =
      verdict.finite ? verdict.norm / result.loss_scale : std::numeric_limits<double>::quiet_NaN();
  const double max_norm = rt.config.gradient_clipping;
  if (verdict.finite && max_norm > 0) {
    result.clip_coef = std::min(1.0, max_norm / (result.grad_norm + 1e-6));
  }
  for (const ParamGroup& group : rt.groups) result.lr.push_back(group.lr);
  const double factor = result.clip_coef / result.loss_scale;

  // A square beyond fp32 would put an infinity into exp_avg_sq for ever.
  const double largest = static_cast<double>(verdict.max_abs) * factor;
  const bool square_fits = rt.config.optimizer.kind != OptimizerKind::kAdam ||
                           largest * largest <= std::numeric_limits<float>::max();
  result.skipped = !verdict.finite || !square_fits;
  if (result.skipped) {
    skip(verdict, result);
  } else {
    result.applied = true;
    ++applied_steps;
    for (const Bucket& bucket : rt.layout.buckets()) {
      if (!bucket.trainable) continue;
      optimizer->update(bucket, factor);
      stage->publish(bucket);
    }
    optimizer->advance();
    rt.compute_after_comm();
    copy_to_fixed();
    set_rates(applied_steps - 1);
    scaler.update(false);
  }
  result.skipped_steps = skipped_steps;
  result.next_loss_scale = scaler.scale();
  return result;
}

void ZeroOptimizer::Impl::skip(const Verdict& verdict, StepResult& result) {
  ++skipped_steps;
  result.nonfinite_rank = verdict.nonfinite_rank;
  result.nonfinite_param =
      verdict.nonfinite_param < 0
          ? "(no parameter: finite, but its square is beyond fp32)"
          : rt.params[static_cast<std::size_t>(verdict.nonfinite_param)].spec.name;
  log(concat("step skipped: gradients are not finite, first in ", result.nonfinite_param,
             ", in the shard of rank ", result.nonfinite_rank, "; loss scale ", scaler.scale(),
             "; ", skipped_steps, " skipped so far"));
  if (scaler.exhausted()) {
    throw LossScaleError(concat(
        "gradients overflow at the minimum loss scale ", scaler.scale(), ": first in parameter ",
        result.nonfinite_param, ", in the shard of rank ", result.nonfinite_rank, ", after ",
        applied_steps, " applied steps. Lower the learning rate, or use bf16"));
  }
  scaler.update(true);
}

// For the update after `t`; see lr_schedule.hpp.
void ZeroOptimizer::Impl::set_rates(std::int64_t t) {
  if (schedule == nullptr) return;
  std::vector<ParamGroup> groups = rt.groups;
  schedule->apply(t, groups);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    Registration::check_group(static_cast<int>(i), groups[i]);
  }
  rt.groups = std::move(groups);
}

void ZeroOptimizer::Impl::copy_to_fixed() {
  for (const ParamState& param : rt.params) {
    if (!param.spec.data.is_fixed() || !param.has_state) continue;
    const BucketMemory& m = rt.memory[static_cast<std::size_t>(param.place.bucket)];
    kernels::copy(param.spec.data.get(), m.params_full.at(param.place.offset),
                  param.numel * static_cast<std::int64_t>(dtype_bytes(param.dtype)), rt.compute);
  }
}

}  // namespace zero
