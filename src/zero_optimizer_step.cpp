// Passes over units, and what a step does.
#include <algorithm>

#include "src/profiler.hpp"
#include "src/zero_optimizer_impl.hpp"

namespace zero {

using detail::concat;

void ZeroOptimizer::Impl::begin(Unit unit, Pass pass) {
  require(true, pass == Pass::kForward ? "forward" : "backward");
  require_whole(pass == Pass::kForward ? "forward" : "backward");
  UnitState& state = checked(unit);
  state.ranges.push_back(detail::begin_profiler_range(
      concat(pass == Pass::kForward ? "forward " : "backward ", state.name).c_str()));
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
  if (!state.ranges.empty()) {
    detail::end_profiler_range(state.ranges.back());
    state.ranges.pop_back();
  }
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

StepHandle ZeroOptimizer::Impl::step() {
  require(true, "step()");
  require_whole("step()");
  require_no_use("step()");
  const detail::ProfilerRange range("zero step");
  // Errors of steps before come first: this one's gradients are still whole then.
  const bool boundary =
      !rt.config.managed_accumulation || rt.micro_step + 1 == rt.accumulation_steps();
  std::byte* const ballot = boundary ? steps->open() : nullptr;
  {
    struct Stepping {
      bool& flag;
      explicit Stepping(bool& f) : flag(f) { flag = true; }
      ~Stepping() { flag = false; }
    } stepping(rt.stepping);
    close_micro_step();
  }
  if (!boundary) {
    ++rt.micro_step;
    return StepLog::inside();
  }
  rt.micro_step = 0;
  reducer->finish();
  vote->hold(ballot, steps->steps_open(), reducer->contributions());
  update();
  for (ParamState& param : rt.params) param.touched = false;
  return steps->close();
}

// A skipped step changes nothing: on the host it is known here, and on a GPU the update leaves
// everything as it is.
void ZeroOptimizer::Impl::update() {
  if (vote->is_skipped()) return;
  const detail::ProfilerRange range("zero update");
  for (const Bucket& bucket : rt.layout.buckets()) {
    if (!bucket.trainable) continue;
    optimizer->update(bucket);
    stage->publish(bucket);
  }
  rt.compute_after_comm();
  copy_to_fixed();
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
