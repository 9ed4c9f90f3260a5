// Ranks as threads of one process. Every buffer is visible to every rank, so each rank sums its
// shard straight out of its peers' buffers, and gathers by copying from them: the bytes an optimal
// algorithm moves, without a copy in between. The buffers are on the host, or on CUDA devices that
// see each other's memory.
#include <span>
#include <vector>

#include "kernels/on_stream.hpp"
#include "src/local_group.hpp"
#include "zero/error.hpp"

namespace zero::detail {
namespace {

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<LocalGroup> group, int rank)
      : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int world_size() const override { return group_->world_size(); }

  void reduce_scatter(const void* send, DType send_dtype, void* recv, DType recv_dtype,
                      std::int64_t shard_elems, const Reduction& reduction, const OpTag& tag,
                      Stream& stream) override {
    run({.verb = Verb::kReduceScatter,
         .tag = tag,
         .elems = shard_elems,
         .dtype = send_dtype,
         .recv_dtype = recv_dtype,
         .reduction = reduction},
        const_cast<void*>(send), stream, [=, this, &stream] {
          const void* const* sources = shards_of_all(rank_, shard_elems, send_dtype);
          void* const destination = recv;
          sum(stream, {sources, peers_.size()}, send_dtype, {&destination, 1}, recv_dtype,
              shard_elems, reduction);
        });
  }

  void all_gather(const void* send, void* recv, std::int64_t shard_elems, DType dtype,
                  const OpTag& tag, Stream& stream) override {
    const std::int64_t bytes = shard_elems * static_cast<std::int64_t>(dtype_bytes(dtype));
    run({.verb = Verb::kAllGather, .tag = tag, .elems = shard_elems, .dtype = dtype},
        const_cast<void*>(send), stream, [=, this, &stream] {
          // Starting with the next rank spreads the reads, so that not all hit one rank's memory.
          for (int step = 0; step < world_size(); ++step) {
            const int peer = (rank_ + step) % world_size();
            void* const place = static_cast<std::byte*>(recv) + peer * bytes;
            const void* const source = group_->post(peer).data;
            if (place != source) copy(stream, place, source, bytes);
          }
        });
  }

  void all_reduce(void* data, DType dtype, std::int64_t shard_elems, const Reduction& reduction,
                  const OpTag& tag, Stream& stream) override {
    run({.verb = Verb::kAllReduce,
         .tag = tag,
         .elems = shard_elems,
         .dtype = dtype,
         .reduction = reduction},
        data, stream, [=, this, &stream] {
          // One pass: this rank sums its shard and writes it to all. No one else touches that
          // shard.
          const void* const* sources = shards_of_all(rank_, shard_elems, dtype);
          sum(stream, {sources, peers_.size()}, dtype,
              {const_cast<void* const*>(peers_.data()), peers_.size()}, dtype, shard_elems,
              reduction);
        });
  }

  void broadcast(void* data, std::int64_t elems, DType dtype, int root, const OpTag& tag,
                 Stream& stream) override {
    if (root < 0 || root >= world_size()) {
      throw UsageError(concat("broadcast of ", tag.name, ": the root is rank ", root,
                              "; this group has ranks 0 to ", world_size() - 1));
    }
    run({.verb = Verb::kBroadcast, .tag = tag, .elems = elems, .dtype = dtype, .root = root}, data,
        stream, [=, this, &stream] {
          if (rank_ == root) return;
          copy(stream, data, group_->post(root).data,
               elems * static_cast<std::int64_t>(dtype_bytes(dtype)));
        });
  }

  void barrier(const OpTag& tag, Stream& stream) override {
    run({.verb = Verb::kBarrier, .tag = tag}, nullptr, stream, [] {});
  }

  void set_timeout(std::chrono::duration<double> timeout) override {
    group_->set_timeout(rank_, timeout);
  }
  void abort(const std::string& reason) noexcept override { group_->abort(rank_, reason); }

 private:
  template <class Work>
  void run(OpFingerprint op, void* data, Stream& stream, Work work) {
    op.sequence = ++issued_;
    if (stream.kind() == DeviceKind::kCuda) return issue(op, data, stream, work);
    stream.enqueue([this, op = std::move(op), data, work = std::move(work)] {
      group_->collective(rank_, {op, data}, work);
    });
  }

  // On device memory. After it the stream goes on when the others are done with this rank's buffer.
  template <class Work>
  void issue(const OpFingerprint& op, void* data, Stream& stream, const Work& work) {
    if (world_size() == 1) return group_->collective(rank_, {op, data}, work);
    if (stream.capturing()) {
      throw UsageError(concat(to_string(op), ": ", world_size(),
                              " ranks cannot be captured into CUDA graphs; a single one can"));
    }
    const Event ready = stream.record();
    try {
      group_->collective(rank_, {op, data, ready}, [&] {
        for (int peer = 0; peer < world_size(); ++peer) {
          if (peer != rank_) wait_for(peer, group_->post(peer).ready, op, stream);
        }
        work();
        group_->set_done(rank_, stream.record());
      });
    } catch (const CommError&) {
      stream.wait(ready);  // what went wrong on this rank's stream is the cause: throws that
      throw;
    }
    for (int peer = 0; peer < world_size(); ++peer) {
      if (peer != rank_) wait_for(peer, group_->done(peer), op, stream);
    }
  }

  // An error of the peer's stream is the peer's.
  void wait_for(int peer, const Event& event, const OpFingerprint& op, Stream& stream) {
    try {
      stream.wait(event);
    } catch (const std::exception& error) {
      const std::string reason =
          concat("rank ", peer, " failed before ", to_string(op), ": ", error.what());
      group_->abort(peer, reason);
      throw CommError(reason);
    }
  }

  static void sum(Stream& stream, std::span<const void* const> sources, DType source_dtype,
                  std::span<void* const> destinations, DType destination_dtype, std::int64_t elems,
                  const Reduction& reduction) {
    const auto order = reduction.tree ? kernels::SumOrder::kTree : kernels::SumOrder::kSequential;
    if (stream.kind() == DeviceKind::kCuda) {
      if (elems == 0) return;
      kernels::on_cuda("sum_slices")
          .sum(sources, source_dtype, destinations, destination_dtype, elems, reduction.divisor,
               reduction.accumulate, order, stream.native());
    } else {
      kernels::sum_slices(sources, source_dtype, destinations, destination_dtype, elems,
                          reduction.divisor, reduction.accumulate, order);
    }
  }

  static void copy(Stream& stream, void* to, const void* from, std::int64_t bytes) {
    if (stream.kind() == DeviceKind::kCuda) {
      kernels::copy(to, from, bytes, stream);
    } else {
      kernels::copy_now(to, from, bytes);
    }
  }

  // Addresses of shard `index` in every rank's posted buffer, in rank order. REQUIRES: in a
  // collective.
  const void* const* shards_of_all(int index, std::int64_t shard_elems, DType dtype) {
    const std::int64_t offset = index * shard_elems * static_cast<std::int64_t>(dtype_bytes(dtype));
    peers_.resize(static_cast<std::size_t>(world_size()));
    for (int peer = 0; peer < world_size(); ++peer) {
      peers_[static_cast<std::size_t>(peer)] =
          static_cast<std::byte*>(group_->post(peer).data) + offset;
    }
    return peers_.data();
  }

  std::shared_ptr<LocalGroup> group_;
  const int rank_;
  std::uint64_t issued_ = 0;  // by the issuing thread
  std::vector<void*> peers_;  // scratch of the thread in which the work runs
};

}  // namespace

std::unique_ptr<Communicator> make_local_communicator(std::shared_ptr<LocalGroup> group, int rank) {
  return std::make_unique<LocalCommunicator>(std::move(group), rank);
}

}  // namespace zero::detail
