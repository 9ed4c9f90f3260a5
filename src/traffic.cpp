#include "zero/traffic.hpp"

namespace zero {

std::int64_t Traffic::model_bytes() const {
  std::int64_t bytes = 0;
  for (const Purpose purpose : {Purpose::kGradients, Purpose::kParams}) {
    for (const Count& count : counts[static_cast<std::size_t>(purpose)]) bytes += count.bytes;
  }
  return bytes;
}

void CountingCommunicator::count(Verb verb, const OpTag& tag, std::int64_t bytes) {
  Traffic::Count& count = traffic_.at(tag.purpose, verb);
  ++count.calls;
  count.bytes += bytes;
}

namespace {
std::int64_t shard_bytes(std::int64_t elems, DType dtype) {
  return elems * static_cast<std::int64_t>(dtype_bytes(dtype));
}
}  // namespace

void CountingCommunicator::reduce_scatter(const void* send, DType send_dtype, void* recv,
                                          DType recv_dtype, std::int64_t shard_elems,
                                          const Reduction& reduction, const OpTag& tag,
                                          Stream& stream) {
  count(Verb::kReduceScatter, tag, (world_size() - 1) * shard_bytes(shard_elems, send_dtype));
  inner_.use_workspace(workspace_, workspace_bytes_);
  inner_.reduce_scatter(send, send_dtype, recv, recv_dtype, shard_elems, reduction, tag, stream);
  inner_.use_workspace(nullptr, 0);  // it is this optimizer's alone
}

void CountingCommunicator::all_gather(const void* send, void* recv, std::int64_t shard_elems,
                                      DType dtype, const OpTag& tag, Stream& stream) {
  count(Verb::kAllGather, tag, (world_size() - 1) * shard_bytes(shard_elems, dtype));
  inner_.all_gather(send, recv, shard_elems, dtype, tag, stream);
}

void CountingCommunicator::all_reduce(void* data, DType dtype, std::int64_t shard_elems,
                                      const Reduction& reduction, const OpTag& tag,
                                      Stream& stream) {
  count(Verb::kAllReduce, tag, 2 * (world_size() - 1) * shard_bytes(shard_elems, dtype));
  inner_.use_workspace(workspace_, workspace_bytes_);
  inner_.all_reduce(data, dtype, shard_elems, reduction, tag, stream);
  inner_.use_workspace(nullptr, 0);  // it is this optimizer's alone
}

void CountingCommunicator::broadcast(void* data, std::int64_t elems, DType dtype, int root,
                                     const OpTag& tag, Stream& stream) {
  count(Verb::kBroadcast, tag, rank() == root ? 0 : shard_bytes(elems, dtype));
  inner_.broadcast(data, elems, dtype, root, tag, stream);
}

void CountingCommunicator::barrier(const OpTag& tag, Stream& stream) {
  count(Verb::kBarrier, tag, 0);
  inner_.barrier(tag, stream);
}

}  // namespace zero
