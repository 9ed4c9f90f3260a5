// Gathers sharded parameters for use, and ahead of use (stage 3).
//
// The order in which units are used is recorded over a micro-step and expected again in the next.
// On the way through it, the buckets of coming uses are gathered ahead, as far as the prefetch
// window reaches (stage3_prefetch_bucket_size elements, gathered and not yet in use). A run that
// leaves the recorded order is still right: what it needs is gathered on the spot, and the new
// order is recorded. All ranks must use units in the same order, as gathers are collectives.
//
// Memory: at any time the buckets in use plus the window. Allocated and released in program order
// on the issuing thread.
#pragma once

#include <vector>

#include "src/runtime.hpp"

namespace zero {

class ParamGatherer {
 public:
  explicit ParamGatherer(Runtime& runtime) : rt_(runtime) {}

  // Makes the unit's parameters usable on the compute stream, and sets the model's pointers.
  void acquire(int unit, bool backward);
  // Lets go of them. Buckets that no unit uses any more are released at once.
  void release(int unit);
  // Ends the recorded order, and drops what was gathered ahead.
  void end_micro_step();
  // Drops what was gathered ahead: its values are about to change.
  void drop_ahead();

 private:
  struct Entry {
    int users = 0;
    Event ready;  // of the gather
  };
  struct UseRecord {
    int unit;
    bool backward;
    friend bool operator==(const UseRecord&, const UseRecord&) = default;
  };

  Entry& entry(int bucket) { return entries_[static_cast<std::size_t>(bucket)]; }
  bool is_sharded(int bucket) const { return !rt_.layout.bucket(bucket).persistent; }
  void record(UseRecord use);
  void gather(int bucket);
  void gather_ahead();
  void drop(int bucket);
  void set_pointers(int bucket, bool usable);

  Runtime& rt_;
  std::vector<Entry> entries_;       // per bucket
  std::vector<UseRecord> expected_;  // of a micro-step, as recorded
  std::vector<UseRecord> observed_;  // in this micro-step so far
  bool on_track_ = false;            // observed_ is a prefix of expected_
  int open_uses_ = 0;
  std::int64_t ahead_elems_ = 0;  // gathered and not yet in use
  std::vector<int> ahead_;        // those buckets
};

}  // namespace zero
