#include "src/grad_reducer.hpp"

#include <algorithm>

#include "src/profiler.hpp"
#include "zero/error.hpp"

namespace zero {

void GradReducer::prepare() {
  const int buckets = static_cast<int>(rt_.layout.buckets().size());
  states_.resize(rt_.layout.buckets().size());
  uses_.assign(rt_.params.size(), 0);
  expected_.resize(rt_.params.size());
  for (std::size_t i = 0; i < rt_.params.size(); ++i) {
    expected_[i] = static_cast<int>(rt_.params[i].units.size());
  }
  next_ = buckets - 1;
  for (const Bucket& bucket : rt_.layout.buckets()) {
    // Gradients that stay in one place keep their pointers for good.
    if (!bucket.trainable || policy_.grad_home(bucket) != GradHome::kResident) continue;
    set_pointers(bucket, memory(bucket.index).grads_full);
  }
}

// An empty home: the gradients are out of the model's reach.
void GradReducer::set_pointers(const Bucket& bucket, const Buffer& home) {
  for (const Segment& segment : bucket.segments) {
    rt_.params[static_cast<std::size_t>(segment.param)].spec.grad.set(home ? home.at(segment.offset)
                                                                           : nullptr);
  }
}

const Buffer& GradReducer::ensure_memory(int index) {
  const Bucket& bucket = rt_.layout.bucket(index);
  State& s = state(index);
  const bool resident = policy_.grad_home(bucket) == GradHome::kResident && !s.sent;
  if (resident) {
    if (!s.clean) begin_sum(bucket);
    return memory(index).grads_full;
  }
  if (s.sent && !s.reopened) {
    if (rt_.reproducible()) {
      throw UsageError(detail::concat(
          "a parameter of ", bucket.label,
          " got a gradient after its bucket was sent in the same micro-step. In reproducible mode "
          "all "
          "backward passes over a parameter must be known: name it in each unit that uses it"));
    }
    s.reopened = true;
  }
  if (!s.passing) {
    if (in_flight_.size() >= kMaxInFlight) drain(kMaxInFlight - 1);
    s.passing = rt_.allocate(Category::kBucket, bucket.padded_elems, bucket.dtype, bucket.label);
    kernels::fill_bytes(s.passing.data(), 0, s.passing.bytes(), rt_.compute);
  }
  return s.passing;
}

void GradReducer::begin_sum(const Bucket& bucket) {
  const Buffer& home = memory(bucket.index).grads_full;
  kernels::fill_bytes(home.data(), 0, home.bytes(), rt_.compute);
  state(bucket.index).clean = true;
}

void GradReducer::open(int unit) {
  for (const int bucket : rt_.layout.unit_buckets(unit)) {
    if (!rt_.layout.bucket(bucket).trainable) continue;
    const Buffer& home = ensure_memory(bucket);
    ++state(bucket).open_uses;
    set_pointers(rt_.layout.bucket(bucket), home);
  }
}

void GradReducer::close(int unit, const std::vector<int>& unused_params) {
  for (const int index : rt_.units[static_cast<std::size_t>(unit)].params) {
    ParamState& param = rt_.params[static_cast<std::size_t>(index)];
    if (!param.has_state) continue;
    const bool used =
        std::find(unused_params.begin(), unused_params.end(), index) == unused_params.end();
    take(param, ensure_memory(param.place.bucket));
    if (used && param.requires_grad) param.touched = true;
    ++uses_[static_cast<std::size_t>(index)];
  }
  for (const int bucket : rt_.layout.unit_buckets(unit)) {
    if (rt_.layout.bucket(bucket).trainable) --state(bucket).open_uses;
  }
  send_complete();
}

// What the model added for one parameter, into the bucket's memory.
void GradReducer::take(ParamState& param, const Buffer& home) {
  const kernels::View place{home.at(param.place.offset), home.dtype(), param.numel};
  const std::int64_t bytes = param.numel * static_cast<std::int64_t>(dtype_bytes(param.dtype));
  if (param.spec.grad.is_fixed()) {
    const kernels::View own{param.spec.grad.get(), param.dtype, param.numel};
    kernels::add(place, own, rt_.compute);
    kernels::fill_bytes(own.data, 0, bytes, rt_.compute);  // its next pass adds from zero again
  }
  // A model need not know that a parameter is frozen; its gradient is none of the step's.
  if (!param.requires_grad) {
    kernels::fill_bytes(place.data, 0,
                        place.elems * static_cast<std::int64_t>(dtype_bytes(place.dtype)),
                        rt_.compute);
  }
}

bool GradReducer::is_complete(const Bucket& bucket) {
  if (state(bucket.index).open_uses > 0) return false;
  return std::all_of(bucket.segments.begin(), bucket.segments.end(), [&](const Segment& segment) {
    const auto i = static_cast<std::size_t>(segment.param);
    return uses_[i] >= expected_[i];  // frozen ones too: their unit's backward may still come
  });
}

void GradReducer::send_complete() {
  for (; next_ >= 0; --next_) {
    const Bucket& bucket = rt_.layout.bucket(next_);
    if (!bucket.trainable) continue;
    if (!is_complete(bucket)) return;
    send(bucket);
  }
}

void GradReducer::send(const Bucket& bucket) {
  State& s = state(bucket.index);
  const GradHome home = policy_.grad_home(bucket);
  // Gradients that add up locally are reduced once, in the step's last micro-step.
  if (home == GradHome::kResident && !rt_.is_boundary()) return;
  const OpTag tag{Purpose::kGradients, "gradients of " + bucket.label};
  if (home == GradHome::kFolded) {
    // Unmanaged, a bucket may come here twice: complete, and when its step turns out to end.
    if (!s.folded || s.passing) {
      ensure_memory(bucket.index);
      fold(bucket);
      s.folded = true;
    }
    if (!rt_.is_boundary()) return;
  }
  if (home != GradHome::kFolded) ensure_memory(bucket.index);
  const detail::ProfilerRange range(tag.name.c_str());
  rt_.comm_after_compute();
  if (home == GradHome::kSharded) {
    policy_.reduce(bucket, s.passing, false, tag);
    put_in_flight(bucket);
  } else {
    policy_.reduce(bucket, memory(bucket.index).grads_full, false, tag);
  }
  s.sent = true;
}

void GradReducer::fold(const Bucket& bucket) {
  State& s = state(bucket.index);
  const Buffer& sum = memory(bucket.index).grads_full;
  const kernels::View into{sum.data(), sum.dtype(), sum.elems()};
  const kernels::View from{s.passing.data(), s.passing.dtype(), s.passing.elems()};
  if (s.clean) {
    kernels::add(into, from, rt_.compute);
  } else {
    kernels::cast(into, from, 1.0f, rt_.compute);
    s.clean = true;
  }
  s.passing.reset();
  set_pointers(bucket, s.passing);
}

void GradReducer::send_again(const Bucket& bucket) {
  std::string note;
  for (const Segment& segment : bucket.segments) {
    const auto i = static_cast<std::size_t>(segment.param);
    if (uses_[i] > expected_[i]) {
      note = detail::concat(rt_.params[i].spec.name, ": ", uses_[i], " contributions, ",
                            expected_[i], " expected");
      break;
    }
  }
  State& s = state(bucket.index);
  rt_.comm_after_compute();
  policy_.reduce(bucket, s.passing, true,
                 {Purpose::kGradients, "more gradients of " + bucket.label, note});
  put_in_flight(bucket);
}

void GradReducer::put_in_flight(const Bucket& bucket) {
  Buffer& passing = state(bucket.index).passing;
  in_flight_.push_back({std::move(passing), rt_.comm_stream().record()});
  set_pointers(bucket, policy_.grad_home(bucket) == GradHome::kResident
                           ? memory(bucket.index).grads_full
                           : passing);
  drain(rt_.config.zero.overlaps() ? kMaxInFlight : 0);
}

void GradReducer::drain(std::size_t limit) {
  while (in_flight_.size() > limit) {
    rt_.compute.wait(in_flight_.front().done);
    in_flight_.pop_front();
  }
}

void GradReducer::end_micro_step() {
  const int buckets = static_cast<int>(states_.size());
  // Only step() knows that this was the last micro-step: what adds up locally is sent now.
  if (!rt_.config.managed_accumulation && rt_.is_boundary()) next_ = buckets - 1;
  for (; next_ >= 0; --next_) {
    const bool left = rt_.layout.bucket(next_).trainable && !state(next_).sent;
    if (left) send(rt_.layout.bucket(next_));
  }
  for (int index = buckets - 1; index >= 0; --index) {
    const Bucket& bucket = rt_.layout.bucket(index);
    if (state(index).reopened) {
      send_again(bucket);
    } else if (state(index).passing) {  // came after its bucket was folded
      fold(bucket);
    }
  }
  learn();
  for (State& s : states_) {
    s.sent = false;
    s.folded = false;
    s.reopened = false;
    if (rt_.is_boundary()) s.clean = false;
  }
  next_ = buckets - 1;
}

void GradReducer::learn() {
  int most = 0;
  contributions_.clear();
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    most = std::max(most, uses_[i]);
    if (uses_[i] != 0 && uses_[i] != expected_[i] && contributions_.size() < 200) {
      contributions_ += detail::concat(rt_.params[i].spec.name, ": ", uses_[i], " contributions, ",
                                       expected_[i], " expected; ");
    }
    if (uses_[i] > 0) expected_[i] = uses_[i];
    uses_[i] = 0;
  }
  contributions_ += detail::concat("at most ", most, " contributions to a parameter");
}

void GradReducer::finish() {
  rt_.compute_after_comm();
  drain(0);
}

}  // namespace zero
