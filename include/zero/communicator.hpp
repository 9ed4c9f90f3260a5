// Collectives among the ranks of a data-parallel group.
//
// Every verb is ordered on the given stream, and the calling thread does not wait for it to be
// done, except on the caller stream of the host. On CUDA, ranks that are threads meet when they
// issue it. All ranks make the same calls in the same order: each call carries a fingerprint
// (sequence, verb, name, count, dtypes, root, reduction), and ranks that disagree all end with a
// CommError that names rank and operation on both sides. Every wait has a deadline; a rank that is
// late, gone, dead or that fails in a collective ends the wait of the others with an error that
// names it. After an error, other than a call refused with a UsageError, the communicator is
// unusable.
//
// Thread-safety: one issuing thread and one stream at a time per communicator; `abort` from any
// thread.
#pragma once

#include <bit>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "zero/device.hpp"
#include "zero/dtype.hpp"

namespace zero {

enum class Verb : std::uint8_t { kReduceScatter, kAllGather, kAllReduce, kBroadcast, kBarrier };
inline constexpr int kVerbCount = 5;
std::string_view verb_name(Verb verb);  // "reduce_scatter", ...

// What a collective moves; traffic is counted apart for each.
enum class Purpose : std::uint8_t { kGradients, kParams, kControl };
inline constexpr int kPurposeCount = 3;
std::string_view purpose_name(Purpose purpose);  // "gradients", "params", "control"

// Identifies a collective in fingerprints and messages. `name` tells people what it is about, e.g.
// "bucket 3 (h0.qkv.weight ...)"; it is compared across ranks, so it must be the same on all.
// `note` is only shown when the ranks differ: what else this rank knows about how it got there.
struct OpTag {
  Purpose purpose = Purpose::kControl;
  std::string name;
  std::string note = {};
  friend bool operator==(const OpTag& a, const OpTag& b) {
    return a.purpose == b.purpose && a.name == b.name;
  }
};

// How the slices of all ranks become one. The sum is in fp32, always.
struct Reduction {
  float divisor = 1.0f;     // the sum is divided by this, then rounded once
  bool accumulate = false;  // add to what is in the destination instead of replacing it
  bool tree = false;  // pairwise tree over ranks instead of rank order; world size a power of two
  // Bit for bit: whatever the divisor is, it is equal to itself.
  friend bool operator==(const Reduction& a, const Reduction& b) {
    return std::bit_cast<std::uint32_t>(a.divisor) == std::bit_cast<std::uint32_t>(b.divisor) &&
           a.accumulate == b.accumulate && a.tree == b.tree;
  }
};

// What makes two ranks' calls the same call.
struct OpFingerprint {
  std::uint64_t sequence = 0;
  Verb verb = Verb::kBarrier;
  OpTag tag;
  std::int64_t elems = 0;
  DType dtype = DType::kFloat32;
  int root = 0;                          // broadcast only
  std::optional<DType> recv_dtype = {};  // reduce_scatter only
  Reduction reduction = {};              // reduce_scatter and all_reduce only

  friend bool operator==(const OpFingerprint&, const OpFingerprint&) = default;
};
// "#12 reduce_scatter of bucket 3 (h0.qkv.weight ...), 4096 x bf16 to fp32, divided by 4"; what is
// as usual is left out.
std::string to_string(const OpFingerprint& op);

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  // Cost per rank with N ranks and shards of s bytes: (N-1) s received, one pass of sums.
  // `send` holds N shards of `shard_elems` elements of `send_dtype`; this rank's shard of the sum
  // goes to `recv`, `shard_elems` of `recv_dtype`. `recv` may be this rank's own shard inside
  // `send`.
  virtual void reduce_scatter(const void* send, DType send_dtype, void* recv, DType recv_dtype,
                              std::int64_t shard_elems, const Reduction& reduction,
                              const OpTag& tag, Stream& stream) = 0;
  // Cost per rank: (N-1) s received. `recv` holds N shards; `send` may be this rank's own place in
  // it.
  virtual void all_gather(const void* send, void* recv, std::int64_t shard_elems, DType dtype,
                          const OpTag& tag, Stream& stream) = 0;
  // In place, on N shards of `shard_elems` elements. Cost per rank: 2 (N-1) s.
  virtual void all_reduce(void* data, DType dtype, std::int64_t shard_elems,
                          const Reduction& reduction, const OpTag& tag, Stream& stream) = 0;
  // Cost: `elems` received by each rank but the root. Throws UsageError unless 0 <= root <
  // world_size(); nothing has been enqueued then.
  virtual void broadcast(void* data, std::int64_t elems, DType dtype, int root, const OpTag& tag,
                         Stream& stream) = 0;
  virtual void barrier(const OpTag& tag, Stream& stream) = 0;

  // Whether slices of the other ranks are received into a workspace before they are summed:
  // world_size() - 1 shards of the dtype that is sent.
  virtual bool stages_slices() const { return false; }
  // Memory, on the stream's device, in which calls from now on may stage slices; the caller keeps
  // it until their work is done. A call that needs more throws UsageError and enqueues nothing.
  virtual void use_workspace(void* /*memory*/, std::int64_t /*bytes*/) {}
  // False: sums are made by the backend itself, in the dtype that is sent, in no certain order.
  virtual bool sums_in_fp32() const { return true; }
  // Throws the CommError of work that failed after its call had returned, where waiting for the
  // stream does not. To be called after such a wait.
  virtual void check() {}

  // Deadline of this rank's waits from now on. Throws UsageError unless it is above 0. Beyond 1e9 s
  // (31 years) it is 1e9 s.
  virtual void set_timeout(std::chrono::duration<double> timeout) = 0;
  // Ends every wait of every rank, now and later, with a CommError carrying the reason. Does not
  // block.
  virtual void abort(const std::string& reason) noexcept = 0;
};

}  // namespace zero
