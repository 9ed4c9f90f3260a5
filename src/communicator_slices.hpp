// What communicators share whose ranks do not see each other's memory: the slices of a sum are
// received into a workspace first, and then summed here, in rank order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "zero/communicator.hpp"

namespace zero::detail {

inline std::int64_t bytes_of(const OpFingerprint& op) {
  return op.elems * static_cast<std::int64_t>(dtype_bytes(op.dtype));
}

// "reduce_scatter of bucket 3"
std::string about(const OpFingerprint& op);

// Throws UsageError for an all-reduce that accumulates.
void check_reduction(const OpFingerprint& op);

// Part `index` of a range of equal slices.
template <class Void>
Void* slice(Void* data, int index, std::int64_t bytes) {
  using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
  return static_cast<Byte*>(data) + index * bytes;
}

// Where the slices of the other ranks are received: one after the other by rank, this rank's left
// out. A cheap value.
class SliceRoom {
 public:
  SliceRoom(int rank, int world_size) : rank_(rank), world_size_(world_size) {}

  void use(void* memory, std::int64_t bytes) {
    memory_ = memory;
    bytes_ = bytes;
  }
  void* memory() const { return memory_; }
  // Throws UsageError, naming the operation, unless there are so many bytes.
  void check(const OpFingerprint& op, std::int64_t bytes) const;
  std::int64_t bytes_for_all(const OpFingerprint& op) const {
    return (world_size_ - 1) * bytes_of(op);
  }
  void* place_of(int from, std::int64_t bytes) const {
    return slice(memory_, from < rank_ ? from : from - 1, bytes);
  }
  // This rank's shard at every rank, in rank order: its own is in `send`.
  void list(const void* send, std::int64_t bytes, std::vector<const void*>& sources) const;

 private:
  int rank_;
  int world_size_;
  void* memory_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace zero::detail
