// Counts what a communicator moves: an adaptor around any Communicator.
//
// Thread-safety: as the communicator; figures are read by the issuing thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "zero/communicator.hpp"

namespace zero {

// Calls and bytes of one rank, per purpose and verb. Bytes are those an optimal algorithm makes
// this rank receive: (N-1) shards for reduce_scatter and all_gather, twice that for all_reduce.
struct Traffic {
  struct Count {
    std::int64_t calls = 0;
    std::int64_t bytes = 0;
    friend bool operator==(const Count&, const Count&) = default;
  };
  std::array<std::array<Count, kVerbCount>, kPurposeCount> counts{};

  Count& at(Purpose p, Verb v) {
    return counts[static_cast<std::size_t>(p)][static_cast<std::size_t>(v)];
  }
  const Count& at(Purpose p, Verb v) const {
    return counts[static_cast<std::size_t>(p)][static_cast<std::size_t>(v)];
  }
  // Gradients and parameters together, without control messages.
  std::int64_t model_bytes() const;

  friend bool operator==(const Traffic&, const Traffic&) = default;
};

class CountingCommunicator final : public Communicator {
 public:
  // REQUIRES: `inner` outlives this.
  explicit CountingCommunicator(Communicator& inner) : inner_(inner) {}

  const Traffic& traffic() const { return traffic_; }
  void reset() { traffic_ = {}; }
  // Where reductions made through this adaptor stage slices: each goes with it to the communicator,
  // which others may use as well.
  void use_workspace(void* memory, std::int64_t bytes) override {
    workspace_ = memory;
    workspace_bytes_ = bytes;
  }

  int rank() const override { return inner_.rank(); }
  int world_size() const override { return inner_.world_size(); }
  void reduce_scatter(const void* send, DType send_dtype, void* recv, DType recv_dtype,
                      std::int64_t shard_elems, const Reduction& reduction, const OpTag& tag,
                      Stream& stream) override;
  void all_gather(const void* send, void* recv, std::int64_t shard_elems, DType dtype,
                  const OpTag& tag, Stream& stream) override;
  void all_reduce(void* data, DType dtype, std::int64_t shard_elems, const Reduction& reduction,
                  const OpTag& tag, Stream& stream) override;
  void broadcast(void* data, std::int64_t elems, DType dtype, int root, const OpTag& tag,
                 Stream& stream) override;
  void barrier(const OpTag& tag, Stream& stream) override;
  bool stages_slices() const override { return inner_.stages_slices(); }
  bool sums_in_fp32() const override { return inner_.sums_in_fp32(); }
  void check() override { inner_.check(); }
  void set_timeout(std::chrono::duration<double> timeout) override { inner_.set_timeout(timeout); }
  void abort(const std::string& reason) noexcept override { inner_.abort(reason); }

 private:
  void count(Verb verb, const OpTag& tag, std::int64_t bytes);

  Communicator& inner_;
  Traffic traffic_;
  void* workspace_ = nullptr;
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace zero
