// Ranks as threads of one process. Every buffer is visible to every rank, so each rank sums its
// shard straight out of its peers' buffers, and gathers by copying from them: the bytes an optimal
// algorithm moves, without a copy in between.
#include <array>
#include <cstring>
#include <vector>

#include "kernels/kernels.hpp"
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
        const_cast<void*>(send), stream, [=, this] {
          const void* const* sources = shards_of_all(rank_, shard_elems, send_dtype);
          void* const destination = recv;
          kernels::sum_slices({sources, peers_.size()}, send_dtype, {&destination, 1}, recv_dtype,
                              shard_elems, reduction.divisor, reduction.accumulate,
                              order(reduction));
        });
  }

  void all_gather(const void* send, void* recv, std::int64_t shard_elems, DType dtype,
                  const OpTag& tag, Stream& stream) override {
    const std::int64_t bytes = shard_elems * static_cast<std::int64_t>(dtype_bytes(dtype));
    run({.verb = Verb::kAllGather, .tag = tag, .elems = shard_elems, .dtype = dtype},
        const_cast<void*>(send), stream, [=, this] {
          // Starting with the next rank spreads the reads, so that not all hit one rank's memory.
          for (int step = 0; step < world_size(); ++step) {
            const int peer = (rank_ + step) % world_size();
            void* const place = static_cast<std::byte*>(recv) + peer * bytes;
            const void* const source = group_->post(peer).data;
            if (place != source) kernels::copy_now(place, source, bytes);
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
        data, stream, [=, this] {
          // One pass: this rank sums its shard and writes it to all. No one else touches that
          // shard.
          const void* const* sources = shards_of_all(rank_, shard_elems, dtype);
          kernels::sum_slices({sources, peers_.size()}, dtype,
                              {const_cast<void* const*>(peers_.data()), peers_.size()}, dtype,
                              shard_elems, reduction.divisor, reduction.accumulate,
                              order(reduction));
        });
  }

  void broadcast(void* data, std::int64_t elems, DType dtype, int root, const OpTag& tag,
                 Stream& stream) override {
    if (root < 0 || root >= world_size()) {
      throw UsageError(concat("broadcast of ", tag.name, ": the root is rank ", root,
                              "; this group has ranks 0 to ", world_size() - 1));
    }
    run({.verb = Verb::kBroadcast, .tag = tag, .elems = elems, .dtype = dtype, .root = root}, data,
        stream, [=, this] {
          if (rank_ == root) return;
          kernels::copy_now(data, group_->post(root).data,
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
    stream.enqueue([this, op = std::move(op), data, work = std::move(work)] {
      group_->collective(rank_, {op, data}, work);
    });
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

  static kernels::SumOrder order(const Reduction& reduction) {
    return reduction.tree ? kernels::SumOrder::kTree : kernels::SumOrder::kSequential;
  }

  std::shared_ptr<LocalGroup> group_;
  const int rank_;
  std::uint64_t issued_ = 0;  // by the issuing thread
  std::vector<void*> peers_;  // scratch of the stream's thread
};

}  // namespace

std::unique_ptr<Communicator> make_local_communicator(std::shared_ptr<LocalGroup> group, int rank) {
  return std::make_unique<LocalCommunicator>(std::move(group), rank);
}

}  // namespace zero::detail
