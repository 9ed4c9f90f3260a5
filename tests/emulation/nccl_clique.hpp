// The ranks of one emulated communicator, and how they pass messages. Every call is made of
// messages between two ranks: a sender posts where its data is, the receiver copies it from there,
// and the sender goes on when its data has been copied.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/emulation/nccl.h"

namespace zero::emulation {

enum class OpKind { kSend, kRecv, kAllGather, kBroadcast, kReduceScatter, kAllReduce };

// One call of a rank.
struct NcclOp {
  OpKind kind;
  const void* send;
  void* recv;
  std::size_t count;
  ncclDataType_t type;
  int peer;  // or the root
};

struct Message {
  enum class State { kPosted, kTaken, kCopied };
  const void* data;
  std::size_t bytes;
  OpKind kind;  // kSend for both sides of a send and a receive
  ncclDataType_t type;
  State state = State::kPosted;
};

struct Clique {
  explicit Clique(int ranks)
      : size(ranks), mail(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks)) {}
  std::deque<std::shared_ptr<Message>>& box(int from, int to) {
    return mail[static_cast<std::size_t>(from * size + to)];
  }

  const int size;
  std::mutex mutex;
  std::condition_variable wake;
  int joined = 0;
  int finalized = 0;
  std::vector<std::deque<std::shared_ptr<Message>>> mail;
};

// One rank's side. All but the constants is guarded by the mutex of the clique.
struct CliqueRank {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  bool blocking = true;
  ncclResult_t state = ncclInProgress;
  std::string last_error;
  bool aborted = false;
  int on_stream = 0;                        // launches that have not ended
  std::vector<std::function<void()>> held;  // what the next polls put on their streams
  int polls = 0;                            // since then
  std::thread background;

  // Runs the calls of one group on the thread of a stream, to the end or to the abort.
  void run(const std::vector<NcclOp>& ops);
};

std::size_t type_bytes(ncclDataType_t type);

}  // namespace zero::emulation

struct ncclComm {
  std::shared_ptr<zero::emulation::CliqueRank> self;
};
