// Brings the model's gradients from where it adds them to their sum over ranks.
//
// Backward passes are opened and closed per unit. A bucket is complete when each of its parameters
// has had all the contributions of a micro-step that are expected of it; how many is learnt.
// Buckets are sent in one fixed order, the reverse of registration, the same on all ranks: each
// when it is complete and all before it are sent. What is incomplete when the micro-step ends goes
// then, with zeros. A contribution that comes after its bucket was sent is another reduction, at
// the end of the micro-step.
//
// Memory handed to the model is zeroed first: the model adds. Passing memory is released in program
// order; with overlap, at most kMaxInFlight buckets are on their way at a time.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "src/bucket_policy.hpp"

namespace zero {

class GradReducer {
 public:
  static constexpr std::size_t kMaxInFlight = 2;

  GradReducer(Runtime& runtime, BucketPolicy& policy) : rt_(runtime), policy_(policy) {}

  // After the stage has allocated.
  void prepare();

  // Around a unit's backward pass: points the model at gradient memory, and takes what it added.
  void open(int unit);
  void close(int unit, const std::vector<int>& unused_params);

  // Sends what is left of the micro-step.
  void end_micro_step();
  // Makes the compute stream wait for every reduction, and releases passing memory.
  void finish();
  // For messages about ranks that differ: what this rank contributed in the last micro-step.
  const std::string& contributions() const { return contributions_; }

  // For checkpoints, between micro-steps. Whether the whole bucket's gradients have begun to add up
  // on this rank in this step.
  bool has_sum(const Bucket& bucket) const {
    return states_[static_cast<std::size_t>(bucket.index)].clean;
  }
  // They have, from zero. REQUIRES: they add up on this rank.
  void begin_sum(const Bucket& bucket);
  // What has added up so far is of no more use.
  void forget_sums() {
    for (State& state : states_) state.clean = false;
  }
  // How many contributions to each parameter a micro-step brings, as learnt.
  const std::vector<int>& expected() const { return expected_; }
  void expect(int param, int contributions) {
    expected_[static_cast<std::size_t>(param)] = contributions;
  }

 private:
  struct State {
    Buffer passing;  // memory the model adds into, where that is not grads_full
    int open_uses = 0;
    bool clean = false;     // grads_full was zeroed, or folded into, in this step
    bool sent = false;      // in this micro-step
    bool folded = false;    // the same: added to what is kept of the whole bucket
    bool reopened = false;  // got contributions after that
  };
  struct InFlight {
    Buffer memory;
    Event done;
  };

  State& state(int bucket) { return states_[static_cast<std::size_t>(bucket)]; }
  BucketMemory& memory(int bucket) { return rt_.memory[static_cast<std::size_t>(bucket)]; }
  // The memory the model adds into, ready for use.
  const Buffer& ensure_memory(int bucket);
  bool is_complete(const Bucket& bucket);
  void send_complete();
  void send(const Bucket& bucket);
  void fold(const Bucket& bucket);
  void send_again(const Bucket& bucket);
  // Sends off what is reduced from passing memory; the model's pointers to it go.
  void put_in_flight(const Bucket& bucket);
  void set_pointers(const Bucket& bucket, const Buffer& home);
  void drain(std::size_t limit);
  void learn();
  void take(ParamState& param, const Buffer& home);

  Runtime& rt_;
  BucketPolicy& policy_;
  std::vector<State> states_;  // per bucket
  std::vector<int> uses_;      // per parameter, in this micro-step
  std::vector<int> expected_;  // per parameter, of a micro-step
  int next_ = -1;              // bucket to send next; buckets go downwards
  std::deque<InFlight> in_flight_;
  std::string contributions_;
};

}  // namespace zero
