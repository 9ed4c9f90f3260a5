// The one stream on which a rank's optimizers communicate beside compute. A communicator wants its
// calls in one order, so optimizers of one world share it.
#pragma once

#include <memory>
#include <string>

#include "zero/communicator.hpp"

namespace zero::detail {

class CommStream {
 public:
  CommStream(Device& device, int rank) : device_(device), rank_(rank) {}

  // Made when first asked for.
  Stream& get() {
    if (stream_ == nullptr) stream_ = device_.create_stream("zero-comm-" + std::to_string(rank_));
    return *stream_;
  }
  // Reached when all that was handed to the stream so far is done.
  Event done() const { return stream_ == nullptr ? Event() : stream_->record(); }
  // Blocks until nothing handed to this stream or the caller's is running any more, failed or not.
  void drain() noexcept {
    for (Stream* stream : {&device_.caller_stream(), stream_.get()}) {
      if (stream == nullptr) continue;
      try {
        stream->synchronize();
      } catch (...) {  // whoever waits for the work gets its error; here it only has to be over
      }
    }
  }

 private:
  Device& device_;
  const int rank_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace zero::detail
