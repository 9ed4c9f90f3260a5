// The one exchange of a step: is any gradient not finite, what is the norm, which parameters have a
// gradient, and do all ranks agree on group settings and frozen parameters?
//
// The sum of squares is exact (a fixed-point number), so the norm does not depend on how many ranks
// there are and where the shards are cut.
#pragma once

#include <string>
#include <vector>

#include "src/bucket_policy.hpp"

namespace zero {

struct Verdict {
  bool finite = true;
  double norm = 0;           // of the summed gradient as it is, still multiplied by the loss scale
  float max_abs = 0;         // of the same
  int nonfinite_param = -1;  // first in registration order
  int nonfinite_rank = -1;   // whose shard holds it
};

class Vote {
 public:
  Vote(Runtime& runtime, BucketPolicy& policy) : rt_(runtime), policy_(policy) {}
  // Makes the message buffer. After registration is complete.
  void prepare();
  // Collective; blocks. REQUIRES: the compute stream has waited for all reductions.
  // Sets ParamState::has_gradient. Throws UsageError if the ranks' settings differ, naming both.
  Verdict hold(const std::string& note);

 private:
  std::size_t words() const;
  void write(std::vector<std::uint64_t>& message);
  void compare_settings(const std::uint64_t* first, const std::uint64_t* other, int rank) const;

  Runtime& rt_;
  BucketPolicy& policy_;
  Buffer messages_;  // one per rank
};

}  // namespace zero
