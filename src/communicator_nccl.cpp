// Ranks that are processes, through NCCL. It copies, and the sums are made by our own kernel, in
// rank order: the same bits as of every other communicator. That moves what a ring would move.
#include "src/communicator_nccl.hpp"

#include <cstring>
#include <vector>

#include "kernels/on_stream.hpp"
#include "src/communicator_deadline.hpp"
#include "src/communicator_nccl_link.hpp"
#include "src/communicator_slices.hpp"
#include "zero/error.hpp"

namespace zero {
namespace detail {
namespace {

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kFloat16:
      return ncclFloat16;
    case DType::kBFloat16:
      return ncclBfloat16;
  }
  throw Error("a dtype that NCCL has no name for");
}

std::size_t count_of(std::int64_t elems) { return static_cast<std::size_t>(elems); }

// What barriers sum.
struct Scratch {
  explicit Scratch(Device& owner) : device(owner), memory(owner.allocate(sizeof(float))) {}
  ~Scratch() { device.deallocate(memory, sizeof(float)); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  Device& device;
  void* const memory;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(Device& device, ncclComm_t comm, bool owned, int rank, int world_size,
                   const NcclSettings& settings)
      : rank_(rank),
        world_size_(world_size),
        by_nccl_(settings.nccl_reduction),
        room_(rank, world_size),
        scratch_(device),
        link_(comm, owned, rank, world_size, settings.device_index, settings.timeout_s) {
    link_.connect();
  }

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  bool stages_slices() const override { return world_size_ > 1; }
  bool sums_in_fp32() const override { return !by_nccl_; }
  void use_workspace(void* memory, std::int64_t bytes) override { room_.use(memory, bytes); }
  void check() override { link_.check(); }
  void set_timeout(std::chrono::duration<double> timeout) override {
    link_.set_timeout(checked_seconds(timeout));
  }
  void abort(const std::string& reason) noexcept override { link_.fail(reason); }

  void reduce_scatter(const void* send, DType send_dtype, void* recv, DType recv_dtype,
                      std::int64_t shard_elems, const Reduction& reduction, const OpTag& tag,
                      Stream& stream) override {
    OpFingerprint op{.verb = Verb::kReduceScatter,
                     .tag = tag,
                     .elems = shard_elems,
                     .dtype = send_dtype,
                     .recv_dtype = recv_dtype,
                     .reduction = reduction};
    check_call(op, stream);
    const std::int64_t bytes = bytes_of(op);
    const bool by_nccl = by_nccl_ && world_size_ > 1;
    const bool direct = by_nccl && send_dtype == recv_dtype && !reduction.accumulate;
    if (!direct) room_.check(op, by_nccl ? bytes : room_.bytes_for_all(op));
    begin(op);
    if (shard_elems == 0) return;
    if (by_nccl) {
      void* const sum = direct ? recv : room_.memory();
      link_.issue(op, native(stream), [&](ncclComm_t comm) {
        return ncclReduceScatter(send, sum, count_of(shard_elems), nccl_type(send_dtype), ncclSum,
                                 comm, native(stream));
      });
      if (!direct || reduction.divisor != 1.0f) rescale(op, sum, recv, recv_dtype, stream);
      return;
    }
    exchange(op, send, stream);
    sum_slices(op, send, recv, recv_dtype, stream);
  }

  void all_gather(const void* send, void* recv, std::int64_t shard_elems, DType dtype,
                  const OpTag& tag, Stream& stream) override {
    OpFingerprint op{.verb = Verb::kAllGather, .tag = tag, .elems = shard_elems, .dtype = dtype};
    check_call(op, stream);
    begin(op);
    if (shard_elems != 0) gather(op, send, recv, stream);
  }

  void all_reduce(void* data, DType dtype, std::int64_t shard_elems, const Reduction& reduction,
                  const OpTag& tag, Stream& stream) override {
    OpFingerprint op{.verb = Verb::kAllReduce,
                     .tag = tag,
                     .elems = shard_elems,
                     .dtype = dtype,
                     .reduction = reduction};
    check_call(op, stream);
    const std::int64_t bytes = bytes_of(op);
    const bool by_nccl = by_nccl_ && world_size_ > 1;
    if (!by_nccl) room_.check(op, room_.bytes_for_all(op));
    begin(op);
    if (shard_elems == 0) return;
    if (by_nccl) {
      op.elems = world_size_ * shard_elems;
      link_.issue(op, native(stream), [&](ncclComm_t comm) {
        return ncclAllReduce(data, data, count_of(op.elems), nccl_type(dtype), ncclSum, comm,
                             native(stream));
      });
      if (reduction.divisor != 1.0f) rescale(op, data, data, dtype, stream);
      return;
    }
    void* const own = slice(data, rank_, bytes);
    exchange(op, data, stream);
    sum_slices(op, data, own, dtype, stream);
    gather(op, own, data, stream);
  }

  void broadcast(void* data, std::int64_t elems, DType dtype, int root, const OpTag& tag,
                 Stream& stream) override {
    if (root < 0 || root >= world_size_) {
      throw UsageError(concat("broadcast of ", tag.name, ": the root is rank ", root,
                              "; this group has ranks 0 to ", world_size_ - 1));
    }
    OpFingerprint op{
        .verb = Verb::kBroadcast, .tag = tag, .elems = elems, .dtype = dtype, .root = root};
    check_call(op, stream);
    begin(op);
    if (elems == 0) return;
    link_.issue(op, native(stream), [&](ncclComm_t comm) {
      return ncclBroadcast(data, data, count_of(elems), nccl_type(dtype), root, comm,
                           native(stream));
    });
  }

  void barrier(const OpTag& tag, Stream& stream) override {
    OpFingerprint op{.verb = Verb::kBarrier, .tag = tag};
    check_call(op, stream);
    begin(op);
    link_.issue(op, native(stream), [&](ncclComm_t comm) {
      return ncclAllReduce(scratch_.memory, scratch_.memory, 1, ncclFloat32, ncclSum, comm,
                           native(stream));
    });
  }

 private:
  static cudaStream_t native(Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

  void check_call(const OpFingerprint& op, const Stream& stream) const {
    if (stream.capturing()) {
      throw UsageError(concat(to_string(op),
                              ": calls of NCCL cannot be captured into a CUDA graph, "
                              "since they are watched; a rank of World::cuda() can"));
    }
    if (stream.kind() != DeviceKind::kCuda) {
      throw UsageError(concat(about(op),
                              ": the stream is none of a CUDA device; NCCL takes streams "
                              "of the world's device"));
    }
    if (op.reduction.tree && by_nccl_) {
      throw UsageError(concat(about(op),
                              ": a sum in tree order, which runtime.reproducible asks for, is not "
                              "to be had with nccl_reduction; use one of the two"));
    }
    check_reduction(op);
  }
  // From here on the call counts. Throws what ended the communicator.
  void begin(OpFingerprint& op) {
    link_.check();
    op.sequence = ++issued_;
  }

  // Sends every rank its slice, and receives those of this rank's shard into the workspace.
  void exchange(const OpFingerprint& op, const void* send, Stream& stream) {
    if (world_size_ == 1) return;
    const std::int64_t bytes = bytes_of(op);
    const std::size_t count = count_of(op.elems);
    const ncclDataType_t type = nccl_type(op.dtype);
    link_.issue(op, native(stream), [&](ncclComm_t comm) {
      ncclResult_t result = ncclGroupStart();
      const auto call = [&](ncclResult_t one) {
        if (result == ncclSuccess && one != ncclInProgress) result = one;
      };
      // Starting with the next rank, so that not all send to one at a time.
      for (int step = 1; step < world_size_; ++step) {
        const int to = (rank_ + step) % world_size_;
        const int from = (rank_ - step + world_size_) % world_size_;
        call(ncclSend(slice(send, to, bytes), count, type, to, comm, native(stream)));
        call(ncclRecv(room_.place_of(from, bytes), count, type, from, comm, native(stream)));
      }
      const ncclResult_t end = ncclGroupEnd();
      return result == ncclSuccess ? end : result;
    });
  }

  void sum_slices(const OpFingerprint& op, const void* send, void* recv, DType recv_dtype,
                  Stream& stream) {
    room_.list(send, bytes_of(op), sources_);
    sum(op, recv, recv_dtype, stream);
  }

  // What NCCL has summed, divided and rounded once more.
  void rescale(const OpFingerprint& op, const void* sum_of_nccl, void* recv, DType recv_dtype,
               Stream& stream) {
    sources_.assign(1, sum_of_nccl);
    sum(op, recv, recv_dtype, stream);
  }

  void sum(const OpFingerprint& op, void* recv, DType recv_dtype, Stream& stream) const {
    const auto order =
        op.reduction.tree ? kernels::SumOrder::kTree : kernels::SumOrder::kSequential;
    kernels::on_cuda("sum").sum(sources_, op.dtype, {&recv, 1}, recv_dtype, op.elems,
                                op.reduction.divisor, op.reduction.accumulate, order,
                                stream.native());
  }

  void gather(const OpFingerprint& op, const void* send, void* recv, Stream& stream) {
    link_.issue(op, native(stream), [&](ncclComm_t comm) {
      return ncclAllGather(send, recv, count_of(op.elems), nccl_type(op.dtype), comm,
                           native(stream));
    });
  }

  const int rank_;
  const int world_size_;
  const bool by_nccl_;
  SliceRoom room_;
  const Scratch scratch_;
  NcclLink link_;  // its work is done before the scratch goes
  std::uint64_t issued_ = 0;
  std::vector<const void*> sources_;
};

void check_world(int world_size, const NcclSettings& settings) {
  if (world_size <= kernels::kMostSources || settings.nccl_reduction) return;
  throw UsageError(concat("a world of NCCL of ", world_size, " ranks: one sum reads up to ",
                          kernels::kMostSources,
                          " slices; use fewer ranks, or NcclOptions::nccl_reduction"));
}

void check_nccl(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  throw CommError(concat(what, ": ", ncclGetErrorString(result), ": ", ncclGetLastError(nullptr)));
}

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(Device& device, const NcclId& id, int rank,
                                                     int world_size, const NcclSettings& settings) {
  check_world(world_size, settings);
  check_cuda(cudaSetDevice(settings.device_index), "device");
  ncclUniqueId unique;
  static_assert(sizeof unique == sizeof id.bytes);
  std::memcpy(&unique, id.bytes.data(), sizeof unique);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  const ncclResult_t result = ncclCommInitRankConfig(&comm, world_size, unique, rank, &config);
  if (result != ncclInProgress) check_nccl(result, "connecting the ranks by NCCL");
  return std::make_unique<NcclCommunicator>(device, comm, true, rank, world_size, settings);
}

std::unique_ptr<Communicator> make_nccl_communicator(Device& device, ncclComm* existing,
                                                     const NcclSettings& settings) {
  int rank = 0;
  int world_size = 1;
  int index = 0;
  check_nccl(ncclCommUserRank(existing, &rank), "the rank of a communicator of NCCL");
  check_nccl(ncclCommCount(existing, &world_size), "the ranks of a communicator of NCCL");
  check_nccl(ncclCommCuDevice(existing, &index), "the device of a communicator of NCCL");
  check_world(world_size, settings);
  if (index != settings.device_index) {
    throw UsageError(concat("make_nccl_world: the communicator is on CUDA device ", index,
                            ", and device_index is ", settings.device_index));
  }
  return std::make_unique<NcclCommunicator>(device, existing, false, rank, world_size, settings);
}

}  // namespace detail

NcclId make_nccl_id() {
  ncclUniqueId unique;
  detail::check_nccl(ncclGetUniqueId(&unique), "an id of NCCL");
  NcclId id;
  std::memcpy(id.bytes.data(), &unique, sizeof unique);
  return id;
}

}  // namespace zero
