// A communicator that fails on purpose, to be put in front of another.
#pragma once

#include <chrono>
#include <string>

#include "tests/fault_fixtures.hpp"
#include "zero/communicator.hpp"

namespace zero::faults {

// Forwards to another communicator until call number k, which fails: at once, or on the stream.
class FailingCommunicator final : public Communicator {
 public:
  FailingCommunicator(Communicator& inner, int fail_at, bool on_stream)
      : inner_(inner), fail_at_(fail_at), on_stream_(on_stream) {}
  int rank() const override { return inner_.rank(); }
  int world_size() const override { return inner_.world_size(); }
  void reduce_scatter(const void* send, DType send_dtype, void* recv, DType recv_dtype,
                      std::int64_t shard_elems, const Reduction& reduction, const OpTag& tag,
                      Stream& s) override {
    count(s);
    inner_.reduce_scatter(send, send_dtype, recv, recv_dtype, shard_elems, reduction, tag, s);
  }
  void all_gather(const void* send, void* recv, std::int64_t shard_elems, DType dtype,
                  const OpTag& tag, Stream& s) override {
    count(s);
    inner_.all_gather(send, recv, shard_elems, dtype, tag, s);
  }
  void all_reduce(void* data, DType dtype, std::int64_t shard_elems, const Reduction& reduction,
                  const OpTag& tag, Stream& s) override {
    count(s);
    inner_.all_reduce(data, dtype, shard_elems, reduction, tag, s);
  }
  void broadcast(void* data, std::int64_t elems, DType dtype, int root, const OpTag& tag,
                 Stream& s) override {
    count(s);
    inner_.broadcast(data, elems, dtype, root, tag, s);
  }
  void barrier(const OpTag& tag, Stream& s) override {
    count(s);
    inner_.barrier(tag, s);
  }
  void set_timeout(std::chrono::duration<double> timeout) override { inner_.set_timeout(timeout); }
  void abort(const std::string& reason) noexcept override { inner_.abort(reason); }
  int calls() const { return calls_; }

 private:
  void count(Stream& stream) {
    if (calls_++ != fail_at_) return;
    const auto fail = [k = fail_at_] { throw Broken("call " + std::to_string(k) + " fails"); };
    on_stream_ ? stream.enqueue(fail) : fail();
  }
  Communicator& inner_;
  const int fail_at_;
  const bool on_stream_;
  int calls_ = 0;
};

}  // namespace zero::faults
