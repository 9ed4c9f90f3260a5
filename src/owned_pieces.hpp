// Which elements of this rank's ranges belong to which parameter, as the kernels read it: one table
// in device memory for each trainable bucket.
#pragma once

#include <vector>

#include "src/bucket_policy.hpp"

namespace zero {

class OwnedPieces {
 public:
  // Makes and fills the tables; blocks.
  OwnedPieces(Runtime& runtime, const BucketPolicy& policy);

  kernels::PieceTable of(const Bucket& bucket) const {
    return tables_[static_cast<std::size_t>(bucket.index)];
  }

 private:
  Buffer memory_;
  std::vector<kernels::PieceTable> tables_;  // per bucket
};

}  // namespace zero
