#include "src/communicator_slices.hpp"

#include "zero/error.hpp"

namespace zero::detail {

std::string about(const OpFingerprint& op) {
  return concat(verb_name(op.verb), " of ", op.tag.name);
}

void check_reduction(const OpFingerprint& op) {
  if (op.verb != Verb::kAllReduce || !op.reduction.accumulate) return;
  throw UsageError(concat(about(op),
                          ": the sum replaces the data in its place, so there is "
                          "nothing to accumulate to"));
}

void SliceRoom::check(const OpFingerprint& op, std::int64_t bytes) const {
  if (bytes <= bytes_) return;
  throw UsageError(concat(about(op), " needs a workspace of ", bytes, " bytes, and has ", bytes_,
                          "; give more with Communicator::use_workspace"));
}

void SliceRoom::list(const void* send, std::int64_t bytes,
                     std::vector<const void*>& sources) const {
  sources.clear();
  for (int from = 0; from < world_size_; ++from) {
    sources.push_back(from == rank_ ? slice(send, rank_, bytes) : place_of(from, bytes));
  }
}

}  // namespace zero::detail
