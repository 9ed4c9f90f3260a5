// Ranks that are processes, by MPI. Slices of the other ranks are received into a workspace and
// summed here, in rank order, so the bits are those of every other communicator.
#include "src/communicator_mpi.hpp"

#include <exception>
#include <span>
#include <vector>

#include "kernels/kernels.hpp"
#include "src/communicator_deadline.hpp"
#include "src/communicator_mpi_process.hpp"
#include "src/communicator_slices.hpp"
#include "zero/error.hpp"

namespace zero::detail {
namespace {

class MpiCommunicator final : public Communicator {
 public:
  explicit MpiCommunicator(MpiProcess& process)
      : process_(process),
        link_(process.link()),
        room_(link_.rank(), link_.world_size()),
        uncaught_(std::uncaught_exceptions()) {
    process_.occupy();
  }
  ~MpiCommunicator() override {
    if (std::uncaught_exceptions() > uncaught_) {
      abort(concat("rank ", rank(), " left its world on an error"));
    }
    process_.vacate();
  }

  int rank() const override { return link_.rank(); }
  int world_size() const override { return link_.world_size(); }
  bool stages_slices() const override { return world_size() > 1; }
  void use_workspace(void* memory, std::int64_t bytes) override { room_.use(memory, bytes); }
  void set_timeout(std::chrono::duration<double> timeout) override {
    link_.set_timeout(checked_seconds(timeout));
  }
  void abort(const std::string& reason) noexcept override {
    const std::string self = concat("rank ", rank());
    link_.board().fail(reason.starts_with(self + " ") ? reason : self + " gave up: " + reason);
  }

  void reduce_scatter(const void* send, DType send_dtype, void* recv, DType recv_dtype,
                      std::int64_t shard_elems, const Reduction& reduction, const OpTag& tag,
                      Stream& stream) override {
    OpFingerprint op{.verb = Verb::kReduceScatter,
                     .tag = tag,
                     .elems = shard_elems,
                     .dtype = send_dtype,
                     .recv_dtype = recv_dtype,
                     .reduction = reduction};
    room_.check(op, room_.bytes_for_all(op));
    run(op, stream, [=, this, room = room_](const OpFingerprint& now) {
      sum(now, room, send, recv, recv_dtype);
    });
  }

  void all_gather(const void* send, void* recv, std::int64_t shard_elems, DType dtype,
                  const OpTag& tag, Stream& stream) override {
    run({.verb = Verb::kAllGather, .tag = tag, .elems = shard_elems, .dtype = dtype}, stream,
        [=, this](const OpFingerprint& now) { gather(now, send, recv); });
  }

  void all_reduce(void* data, DType dtype, std::int64_t shard_elems, const Reduction& reduction,
                  const OpTag& tag, Stream& stream) override {
    OpFingerprint op{.verb = Verb::kAllReduce,
                     .tag = tag,
                     .elems = shard_elems,
                     .dtype = dtype,
                     .reduction = reduction};
    check_reduction(op);
    room_.check(op, room_.bytes_for_all(op));
    run(op, stream, [=, this, room = room_](const OpFingerprint& now) {
      void* const own = slice(data, rank(), bytes_of(now));
      sum(now, room, data, own, dtype);
      gather(now, own, data);
    });
  }

  void broadcast(void* data, std::int64_t elems, DType dtype, int root, const OpTag& tag,
                 Stream& stream) override {
    if (root < 0 || root >= world_size()) {
      throw UsageError(concat("broadcast of ", tag.name, ": the root is rank ", root,
                              "; this group has ranks 0 to ", world_size() - 1));
    }
    run({.verb = Verb::kBroadcast, .tag = tag, .elems = elems, .dtype = dtype, .root = root},
        stream, [=, this](const OpFingerprint& now) {
          if (rank() != root) {
            link_.receive(root, data, bytes_of(now));
          } else {
            for (int step = 1; step < world_size(); ++step) {
              link_.send((root + step) % world_size(), data, bytes_of(now));
            }
          }
          link_.finish();
        });
  }

  void barrier(const OpTag& tag, Stream& stream) override {
    run({.verb = Verb::kBarrier, .tag = tag}, stream, [](const OpFingerprint&) {});
  }

 private:
  template <class Work>
  void run(OpFingerprint op, Stream& stream, Work work) {
    if (stream.kind() != DeviceKind::kHost) {
      throw UsageError(concat(about(op),
                              ": the stream is none of the host; this communicator of MPI takes "
                              "host buffers"));
    }
    op.sequence = link_.next_sequence();
    stream.enqueue([this, op = std::move(op), work = std::move(work)] {
      link_.collective(op, [&] { work(op); });
    });
  }

  // Every rank sends every other its slice; what this rank gets it sums.
  void sum(const OpFingerprint& op, const SliceRoom& room, const void* send, void* recv,
           DType recv_dtype) {
    const std::int64_t bytes = bytes_of(op);
    // Starting with the next rank, so that not all send to one at a time.
    for (int step = 1; step < world_size(); ++step) {
      const int from = (rank() - step + world_size()) % world_size();
      link_.receive(from, room.place_of(from, bytes), bytes);
    }
    for (int step = 1; step < world_size(); ++step) {
      const int to = (rank() + step) % world_size();
      link_.send(to, slice(send, to, bytes), bytes);
    }
    link_.finish();
    room.list(send, bytes, sources_);
    const auto order =
        op.reduction.tree ? kernels::SumOrder::kTree : kernels::SumOrder::kSequential;
    kernels::sum_slices(sources_, op.dtype, {&recv, 1}, recv_dtype, op.elems, op.reduction.divisor,
                        op.reduction.accumulate, order);
  }

  void gather(const OpFingerprint& op, const void* send, void* recv) {
    const std::int64_t bytes = bytes_of(op);
    for (int step = 1; step < world_size(); ++step) {
      const int from = (rank() - step + world_size()) % world_size();
      link_.receive(from, slice(recv, from, bytes), bytes);
    }
    for (int step = 1; step < world_size(); ++step) {
      link_.send((rank() + step) % world_size(), send, bytes);
    }
    void* const place = slice(recv, rank(), bytes);
    if (place != send) kernels::copy_now(place, send, bytes);
    link_.finish();
  }

  MpiProcess& process_;
  MpiLink& link_;
  SliceRoom room_;
  const int uncaught_;
  std::vector<const void*> sources_;  // scratch of the thread in which the work runs
};

}  // namespace

bool mpi_is_built() noexcept { return true; }

int mpi_local_rank() { return MpiProcess::get({}).local_rank(); }

std::unique_ptr<Communicator> make_mpi_communicator(const MpiSettings& settings) {
  checked_seconds(std::chrono::duration<double>(settings.timeout_s));
  MpiProcess& process = MpiProcess::get(settings);
  auto communicator = std::make_unique<MpiCommunicator>(process);
  process.link().set_timeout(settings.timeout_s);
  process.link().set_most_bytes_at_once(settings.most_bytes_at_once);
  return communicator;
}

}  // namespace zero::detail
