// What the calls of a group do on the thread of a stream.
#include <algorithm>
#include <cstring>

#include "tests/emulation/nccl_clique.hpp"
#include "zero/dtype.hpp"

namespace zero::emulation {
namespace {

using Bytes = std::vector<std::byte>;

// The part of the run that belongs to one call.
struct Part {
  NcclOp op;
  std::vector<Bytes> slices;  // of the ranks, for sums
};

class Run {
 public:
  Run(CliqueRank& self, const std::vector<NcclOp>& ops) : self_(self), clique_(*self.clique) {
    for (const NcclOp& op : ops) parts_.push_back({op, {}});
  }

  void operator()() {
    for (Part& part : parts_) post_sends(part.op);
    bool whole = true;
    for (Part& part : parts_) whole = whole && receive(part);
    if (!settle_sends(whole)) return;
    for (Part& part : parts_) finish(part);
  }

 private:
  int size() const { return clique_.size; }
  static std::size_t bytes_of(const NcclOp& op) { return op.count * type_bytes(op.type); }
  static const void* at(const void* data, std::size_t bytes) {
    return static_cast<const std::byte*>(data) + bytes;
  }
  static void* at(void* data, std::size_t bytes) { return static_cast<std::byte*>(data) + bytes; }

  void post_sends(const NcclOp& op) {
    const std::size_t bytes = bytes_of(op);
    for (int to = 0; to < size(); ++to) {
      if (to == self_.rank) continue;
      switch (op.kind) {
        case OpKind::kSend:
          if (to == op.peer) post(to, op, op.send);
          break;
        case OpKind::kRecv:
          break;
        case OpKind::kBroadcast:
          if (self_.rank == op.peer) post(to, op, op.send);
          break;
        case OpKind::kAllGather:
        case OpKind::kAllReduce:
          post(to, op, op.send);
          break;
        case OpKind::kReduceScatter:
          post(to, op, at(op.send, static_cast<std::size_t>(to) * bytes));
          break;
      }
    }
  }

  void post(int to, const NcclOp& op, const void* data) {
    auto message = std::make_shared<Message>(Message{data, bytes_of(op), op.kind, op.type});
    const std::lock_guard lock(clique_.mutex);
    clique_.box(self_.rank, to).push_back(message);
    posted_.push_back(std::move(message));
    clique_.wake.notify_all();
  }

  // False: aborted.
  bool receive(Part& part) {
    const NcclOp& op = part.op;
    const std::size_t bytes = bytes_of(op);
    const auto rank = static_cast<std::size_t>(self_.rank);
    switch (op.kind) {
      case OpKind::kSend:
        return true;
      case OpKind::kRecv:
        return take(op.peer, op, resolve(op.recv, bytes, 1, "ncclRecv"));
      case OpKind::kBroadcast:
        if (self_.rank != op.peer) {
          return take(op.peer, op, resolve(op.recv, bytes, 1, "ncclBroadcast"));
        }
        keep(op.send, op.recv, bytes);
        return true;
      case OpKind::kAllGather:
        keep(op.send, at(op.recv, rank * bytes), bytes);
        for (int from = 0; from < size(); ++from) {
          void* const place = at(op.recv, static_cast<std::size_t>(from) * bytes);
          if (from == self_.rank) continue;
          if (!take(from, op, resolve(place, bytes, 1, "ncclAllGather"))) return false;
        }
        return true;
      case OpKind::kReduceScatter:
      case OpKind::kAllReduce: {
        const bool scatter = op.kind == OpKind::kReduceScatter;
        for (int from = 0; from < size(); ++from) {
          Bytes& slice = part.slices.emplace_back(bytes);
          if (from != self_.rank) {
            if (!take(from, op, slice.data())) return false;
            continue;
          }
          const void* const own = scatter ? at(op.send, rank * bytes) : op.send;
          std::memcpy(slice.data(), resolve(own, bytes, 1, "nccl sum"), bytes);
        }
        return true;
      }
    }
    return true;
  }

  static void keep(const void* from, void* to, std::size_t bytes) {
    if (from == to) return;
    std::memcpy(resolve(to, bytes, 1, "nccl"), resolve(from, bytes, 1, "nccl"), bytes);
  }

  bool take(int from, const NcclOp& op, void* to) {
    std::deque<std::shared_ptr<Message>>& box = clique_.box(from, self_.rank);
    const OpKind kind = op.kind == OpKind::kRecv ? OpKind::kSend : op.kind;
    std::unique_lock lock(clique_.mutex);
    // What does not match is never taken: both sides hang.
    clique_.wake.wait(lock, [&] {
      return self_.aborted || (!box.empty() && box.front()->kind == kind &&
                               box.front()->type == op.type && box.front()->bytes == bytes_of(op));
    });
    if (self_.aborted) return false;
    const std::shared_ptr<Message> message = box.front();
    box.pop_front();
    message->state = Message::State::kTaken;
    lock.unlock();
    std::memcpy(to, resolve(message->data, message->bytes, 1, "nccl peer"), message->bytes);
    lock.lock();
    message->state = Message::State::kCopied;
    clique_.wake.notify_all();
    return true;
  }

  // Until no one needs this rank's data any more. False: aborted, and what no one had begun to take
  // is withdrawn.
  bool settle_sends(bool whole) {
    std::unique_lock lock(clique_.mutex);
    const auto all_are = [&](auto good) {
      return std::all_of(posted_.begin(), posted_.end(),
                         [&](const auto& message) { return good(message->state); });
    };
    clique_.wake.wait(lock, [&] {
      return !whole || self_.aborted ||
             all_are([](Message::State state) { return state == Message::State::kCopied; });
    });
    if (whole && !self_.aborted) return true;
    for (int to = 0; to < size(); ++to) {
      std::erase_if(clique_.box(self_.rank, to), [&](const auto& message) {
        return std::find(posted_.begin(), posted_.end(), message) != posted_.end();
      });
    }
    clique_.wake.wait(lock, [&] {
      return all_are([](Message::State state) { return state != Message::State::kTaken; });
    });
    return false;
  }

  // A ring: the sum of a chunk starts behind its owner and is rounded at every hop.
  template <class T>
  T ring_sum(const std::vector<Bytes>& slices, std::size_t i, int owner) const {
    const auto value = [&](int rank) {
      T element;
      std::memcpy(&element, &slices[static_cast<std::size_t>(rank)][i * sizeof(T)], sizeof(T));
      return element;
    };
    T sum = value((owner + 1) % size());
    for (int hop = 2; hop <= size(); ++hop) {
      sum = from_float<T>(to_float(sum) + to_float(value((owner + hop) % size())));
    }
    return sum;
  }

  template <class T>
  void sum_as(const Part& part) const {
    const NcclOp& op = part.op;
    const bool scatter = op.kind == OpKind::kReduceScatter;
    auto* const out = static_cast<std::byte*>(resolve(op.recv, bytes_of(op), 1, "nccl sum"));
    const std::size_t chunk =
        (op.count + static_cast<std::size_t>(size()) - 1) / static_cast<std::size_t>(size());
    for (std::size_t i = 0; i < op.count; ++i) {
      const int owner = scatter ? self_.rank : static_cast<int>(i / chunk);
      const T sum = ring_sum<T>(part.slices, i, owner);
      std::memcpy(out + i * sizeof(T), &sum, sizeof(T));
    }
  }

  void finish(const Part& part) const {
    if (part.slices.empty()) return;
    switch (part.op.type) {
      case ncclFloat32:
        return sum_as<float>(part);
      case ncclFloat16:
        return sum_as<fp16>(part);
      case ncclBfloat16:
        return sum_as<bf16>(part);
    }
  }

  CliqueRank& self_;
  Clique& clique_;
  std::vector<Part> parts_;
  std::vector<std::shared_ptr<Message>> posted_;
};

}  // namespace

void CliqueRank::run(const std::vector<NcclOp>& ops) {
  {
    const std::lock_guard lock(clique->mutex);
    if (aborted) return;
  }
  Run(*this, ops)();
}

std::size_t type_bytes(ncclDataType_t type) { return type == ncclFloat32 ? 4 : 2; }

}  // namespace zero::emulation
