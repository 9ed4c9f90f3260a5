// Errors of the library. Every failure is an exception; the type tells the cause, the message names
// the place (JSON path, parameter, bucket, rank), the value found there, and what would be valid.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace zero {

// Base of all errors thrown by this library.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A configuration, or the model registered against it, cannot be honoured as it is.
class ConfigError : public Error {
 public:
  using Error::Error;
};

// The library was called in a way its documentation forbids (order of calls, unknown names).
class UsageError : public Error {
 public:
  using Error::Error;
};

// A collective failed: a rank is missing, late, gone or doing something else.
class CommError : public Error {
 public:
  using Error::Error;
};

// A call of the CUDA runtime failed, or CUDA is asked for where it is not.
class CudaError : public Error {
 public:
  using Error::Error;
};

// A checkpoint could not be written or read, or what is in it is not what was written. The message
// names the file and, where it is about one, the tensor.
class CheckpointError : public Error {
 public:
  using Error::Error;
};

// Memory could not be had.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

// The loss scale is at its minimum and gradients still overflow: training cannot go on.
class LossScaleError : public Error {
 public:
  using Error::Error;
};

namespace detail {

// Concatenates its arguments as a stream would print them; for messages.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

}  // namespace detail
}  // namespace zero
