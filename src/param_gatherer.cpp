#include "src/param_gatherer.hpp"

#include <algorithm>

#include "src/profiler.hpp"

namespace zero {

void ParamGatherer::acquire(int unit, bool backward) {
  entries_.resize(rt_.layout.buckets().size());
  record({unit, backward});
  ++open_uses_;
  const std::vector<int>& buckets = rt_.layout.unit_buckets(unit);
  for (const int bucket : buckets) {
    if (!is_sharded(bucket)) continue;
    Entry& e = entry(bucket);
    if (!rt_.memory[static_cast<std::size_t>(bucket)].gathered) {
      gather(bucket);
    } else if (e.users == 0) {  // it was gathered ahead and now leaves the window
      ahead_.erase(std::find(ahead_.begin(), ahead_.end(), bucket));
      ahead_elems_ -= rt_.layout.bucket(bucket).padded_elems;
    }
    ++e.users;
  }
  // Coming uses are asked for before this one is waited for.
  gather_ahead();
  for (const int bucket : buckets) {
    if (!is_sharded(bucket)) continue;
    rt_.compute.wait(entry(bucket).ready);
    set_pointers(bucket, true);
  }
}

void ParamGatherer::release(int unit) {
  --open_uses_;
  for (const int bucket : rt_.layout.unit_buckets(unit)) {
    if (!is_sharded(bucket) || --entry(bucket).users > 0) continue;
    drop(bucket);
  }
}

void ParamGatherer::end_micro_step() {
  drop_ahead();
  if (!observed_.empty()) expected_.swap(observed_);
  observed_.clear();
}

void ParamGatherer::drop_ahead() {
  for (const int bucket : ahead_) {
    rt_.compute.wait(entry(bucket).ready);  // the memory is still being written
    drop(bucket);
  }
  ahead_.clear();
  ahead_elems_ = 0;
}

void ParamGatherer::record(UseRecord use) {
  // A forward-only pass (evaluation) that starts over is no part of the micro-step.
  const bool starts_over = open_uses_ == 0 && !use.backward && !observed_.empty() &&
                           observed_.front() == use &&
                           std::none_of(observed_.begin(), observed_.end(),
                                        [](const UseRecord& seen) { return seen.backward; });
  if (starts_over) observed_.clear();
  const std::size_t position = observed_.size();
  if (position == 0) on_track_ = true;
  on_track_ = on_track_ && position < expected_.size() && expected_[position] == use;
  observed_.push_back(use);
}

void ParamGatherer::gather(int bucket_index) {
  const Bucket& bucket = rt_.layout.bucket(bucket_index);
  BucketMemory& m = rt_.memory[static_cast<std::size_t>(bucket_index)];
  m.gathered = rt_.allocate(Category::kGather, bucket.padded_elems, bucket.dtype, bucket.label);
  const OpTag tag{Purpose::kParams, "parameters of " + bucket.label};
  const detail::ProfilerRange range(tag.name.c_str());
  rt_.comm_after_compute();  // the shard is up to date, and the memory free of its last user
  rt_.comm.all_gather(m.params_shard.data(), m.gathered.data(), bucket.shard_elems, bucket.dtype,
                      tag, rt_.comm_stream());
  entry(bucket_index).ready = rt_.comm_stream().record();
}

void ParamGatherer::gather_ahead() {
  if (!on_track_) return;
  for (std::size_t i = observed_.size(); i < expected_.size(); ++i) {
    for (const int bucket : rt_.layout.unit_buckets(expected_[i].unit)) {
      if (!is_sharded(bucket) || rt_.memory[static_cast<std::size_t>(bucket)].gathered) continue;
      const std::int64_t elems = rt_.layout.bucket(bucket).padded_elems;
      // The order of gathers is the order of uses: nothing is taken past one that does not fit.
      if (ahead_elems_ + elems > rt_.config.zero.prefetch_bucket_size) return;
      gather(bucket);
      ahead_elems_ += elems;
      ahead_.push_back(bucket);
    }
  }
}

void ParamGatherer::drop(int bucket) {
  Buffer& gathered = rt_.memory[static_cast<std::size_t>(bucket)].gathered;
#if !defined(NDEBUG)
  // A use outside its guard through a stale pointer reads NaN, and shows in the loss.
  kernels::fill_bytes(gathered.data(), 0xff, gathered.bytes(), rt_.compute);
#endif
  gathered.reset();
  set_pointers(bucket, false);
}

void ParamGatherer::set_pointers(int bucket, bool usable) {
  const Buffer& gathered = rt_.memory[static_cast<std::size_t>(bucket)].gathered;
  for (const Segment& segment : rt_.layout.bucket(bucket).segments) {
    rt_.params[static_cast<std::size_t>(segment.param)].spec.data.set(
        usable ? gathered.at(segment.offset) : nullptr);
  }
}

}  // namespace zero
