#include "src/communicator_mpi_link.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <thread>

#include "src/communicator_mpi_check.hpp"

namespace zero::detail {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kFingerprintTag = 1;
constexpr int kDataTag = 2;
constexpr std::size_t kFingerprintBytes = 1024;
// How long the others are waited for when they are asked what they are at.
constexpr double kPatienceS = 1.5;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Fingerprint {
  std::uint64_t sequence = 0;
  std::uint64_t hash = 0;
  std::uint64_t text_bytes = 0;
};

// FNV-1a over what has to be the same on all ranks.
class Hash {
 public:
  Hash& add(std::string_view bytes) {
    for (const char byte : bytes) {
      value_ = (value_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
    }
    return *this;
  }
  Hash& add(std::uint64_t number) {
    std::array<char, sizeof number> bytes;
    std::memcpy(bytes.data(), &number, sizeof number);
    return add({bytes.data(), bytes.size()});
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

std::uint64_t hash_of(const OpFingerprint& op) {
  const auto number = [](auto value) { return static_cast<std::uint64_t>(value); };
  return Hash()
      .add(op.sequence)
      .add(number(op.verb))
      .add(number(op.tag.purpose))
      .add(number(op.tag.name.size()))
      .add(op.tag.name)
      .add(number(op.elems))
      .add(number(op.dtype))
      .add(number(op.root))
      .add(op.recv_dtype ? 1 + number(*op.recv_dtype) : 0)
      .add(number(std::bit_cast<std::uint32_t>(op.reduction.divisor)))
      .add(number(op.reduction.accumulate) + 2 * number(op.reduction.tree))
      .value();
}

// Longer and longer breaks, since the awaited rank may need the core.
class Backoff {
 public:
  explicit Backoff(bool crowded) : spins_(crowded ? 0 : 500) {}
  void again() { looks_ = 0; }
  void pause() {
    constexpr int kYields = 16;
    constexpr std::int64_t kLongestUs = 500;
    ++looks_;
    if (looks_ <= spins_) return;
    if (looks_ <= spins_ + kYields) return std::this_thread::yield();
    const std::int64_t us = std::int64_t{20} << std::min(looks_ - spins_ - kYields, 5);
    std::this_thread::sleep_for(std::chrono::microseconds(std::min(us, kLongestUs)));
  }

 private:
  const int spins_;
  int looks_ = 0;
};

}  // namespace

MpiLink::MpiLink(MPI_Comm comm, MPI_Comm beside, int rank, int world_size, bool crowded)
    : comm_(comm),
      rank_(rank),
      world_size_(world_size),
      crowded_(crowded),
      board_(beside, rank, world_size),
      mine_(kFingerprintBytes),
      theirs_(kFingerprintBytes * static_cast<std::size_t>(world_size)),
      heard_(static_cast<std::size_t>(world_size), "none yet") {}

std::string MpiLink::place() const { return concat("rank ", rank_, " was in ", doing_, " when: "); }

void MpiLink::check(int code, const char* what, int peer) const {
  if (code == MPI_SUCCESS) return;
  throw CommError(concat(place(), what, " rank ", peer, ": ", mpi_text(code)));
}

void MpiLink::begin(const OpFingerprint& op) {
  sequence_ = op.sequence;
  doing_ = to_string(op);
  in_work_ = false;
  requests_.clear();
  peers_.clear();
  pending_ = 0;
  const std::int64_t bytes =
      op.verb == Verb::kBarrier ? 0 : op.elems * static_cast<std::int64_t>(dtype_bytes(op.dtype));
  board_.begin(op.sequence, concat(doing_, " (", purpose_name(op.tag.purpose), ", ", bytes,
                                   op.verb == Verb::kBroadcast ? " bytes)" : " bytes a shard)"));
}

void MpiLink::end() {
  board_.end();
  busy_ = false;
}

void MpiLink::compare(const OpFingerprint& op) {
  look_at_others();
  const std::size_t length = std::min(doing_.size(), kFingerprintBytes - sizeof(Fingerprint));
  const Fingerprint own{op.sequence, hash_of(op), length};
  std::memcpy(mine_.data(), &own, sizeof own);
  std::memcpy(mine_.data() + sizeof own, doing_.data(), length);
  const auto of = [&](int other) {
    return other == rank_ ? mine_.data()
                          : theirs_.data() + kFingerprintBytes * static_cast<std::size_t>(other);
  };
  for (int step = 1; step < world_size_; ++step) {
    const int from = (rank_ - step + world_size_) % world_size_;
    begin_receive(from, of(from), kFingerprintBytes, kFingerprintTag);
  }
  for (int step = 1; step < world_size_; ++step) {
    begin_send((rank_ + step) % world_size_, mine_.data(), sizeof own + length, kFingerprintTag);
  }
  finish();

  // All compare with rank 0, so all come to the same verdict.
  const auto read = [&](int other, std::string& text) {
    Fingerprint fingerprint;
    std::memcpy(&fingerprint, of(other), sizeof fingerprint);
    text.assign(reinterpret_cast<const char*>(of(other)) + sizeof fingerprint,
                fingerprint.text_bytes);
    return fingerprint;
  };
  for (int other = 0; other < world_size_; ++other) {
    const auto index = static_cast<std::size_t>(other);
    const Fingerprint fingerprint = read(other, heard_[index]);
    if (other == 0) continue;
    const Fingerprint reference = read(0, heard_[0]);
    if (fingerprint.hash == reference.hash) continue;
    throw CommError(concat("the ranks differ: rank 0 is at ", heard_[0], "; rank ", other,
                           " is at ", heard_[index]));
  }
  in_work_ = true;
}

void MpiLink::send(int to, const void* data, std::int64_t bytes) {
  for (std::int64_t begin = 0; begin < bytes; begin += most_bytes_at_once_) {
    const auto count = static_cast<std::size_t>(std::min(most_bytes_at_once_, bytes - begin));
    begin_send(to, static_cast<const std::byte*>(data) + begin, count, kDataTag);
  }
}

void MpiLink::receive(int from, void* data, std::int64_t bytes) {
  for (std::int64_t begin = 0; begin < bytes; begin += most_bytes_at_once_) {
    const auto count = static_cast<std::size_t>(std::min(most_bytes_at_once_, bytes - begin));
    begin_receive(from, static_cast<std::byte*>(data) + begin, count, kDataTag);
  }
}

void MpiLink::begin_send(int to, const void* data, std::size_t bytes, int tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  const MpiCalls::Inside inside(calls_);
  check(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, tag, comm_, &request), "sending to",
        to);
  post(to, request);
}

void MpiLink::begin_receive(int from, void* data, std::size_t bytes, int tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  const MpiCalls::Inside inside(calls_);
  check(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, tag, comm_, &request),
        "receiving from", from);
  post(from, request);
}

int MpiLink::test_some(int& count) {
  const MpiCalls::Inside inside(calls_);
  return MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, done_.data(),
                      statuses_.data());
}

void MpiLink::post(int peer, MPI_Request request) {
  requests_.push_back(request);
  peers_.push_back(peer);
  board_.await(peer, 1);
  ++pending_;
}

void MpiLink::finish() {
  done_.resize(requests_.size());
  statuses_.resize(requests_.size());
  Backoff backoff(crowded_);
  const Clock::time_point start = Clock::now();
  while (pending_ > 0) {
    int count = 0;
    const int code = test_some(count);
    if (code != MPI_ERR_IN_STATUS) check(code, "waiting as", rank_);
    for (int i = 0; i < count; ++i) {
      const int peer = peers_[static_cast<std::size_t>(done_[static_cast<std::size_t>(i)])];
      board_.await(peer, -1);
      --pending_;
      if (code == MPI_ERR_IN_STATUS) {
        check(statuses_[static_cast<std::size_t>(i)].MPI_ERROR, "a message from or to", peer);
      }
    }
    if (count > 0) {
      backoff.again();
      continue;
    }
    look_at_others();
    const double waited_s = seconds_since(start);
    if (waited_s > timeout_s_) late(timeout_s_);
    backoff.pause();
  }
  requests_.clear();
  peers_.clear();
}

std::vector<int> MpiLink::outstanding() const {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] != MPI_REQUEST_NULL) ranks.push_back(peers_[i]);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

// Throws if a rank has failed, or if one that is waited for has ended.
void MpiLink::look_at_others() const {
  if (!board_.trouble()) return;
  if (const std::string reason = board_.failure(); !reason.empty()) {
    throw CommError(place() + reason);
  }
  for (const int other : outstanding()) {
    if (const auto last = board_.ended_before(other, sequence_)) {
      throw CommError(concat("rank ", other, " has ended; its last operation was ", *last,
                             ", while rank ", rank_, " waits in ", doing_));
    }
  }
}

// Names the ranks that are late, and says what all are at; the others hear the first of it.
void MpiLink::late(double waited_s) {
  const std::vector<int> ranks = outstanding();
  board_.ask(kPatienceS);
  look_at_others();  // another rank has been faster
  std::string text;
  std::string table;
  for (int other = 0; other < world_size_; ++other) {
    const std::string& heard = heard_[static_cast<std::size_t>(other)];
    const auto answer = board_.answer_of(other);
    table +=
        concat("\n  rank ", other, ": ", answer ? *answer : "no answer; last heard of in " + heard);
    if (std::find(ranks.begin(), ranks.end(), other) == ranks.end()) continue;
    text += concat(text.empty() ? "" : "; ", "rank ", other, ", whose last operation was ", heard,
                   answer ? ", and which is " + answer->substr(0, answer->find("; before: "))
                          : ", and which does not answer (stopped, dead or cut off)");
  }
  text = concat("rank ", rank_, " waited ", waited_s, " s in ", doing_, " for ", text);
  board_.fail(text);
  throw CommError(text + "\nlast operations of all ranks:" + table);
}

void MpiLink::give_up(const std::string& reason) noexcept {
  board_.fail(reason);
  take_back();
  end();
}

// What is left of a collective that has failed. A request on the caller's memory that cannot be
// taken back would go on using it: then MPI gets no more turns in this process.
void MpiLink::take_back() noexcept {
  constexpr double kLongS = 0.2;
  done_.resize(requests_.size());
  statuses_.resize(requests_.size());
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    const MpiCalls::Inside inside(calls_);
    MPI_Cancel(&requests_[i]);  // of no effect on what is sent
  }
  const auto left = [&] { return !outstanding().empty(); };
  for (const auto start = Clock::now(); left() && seconds_since(start) < kLongS;) {
    int count = 0;
    test_some(count);
    if (count == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (in_work_ && left()) board_.freeze();
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (requests_[i] != MPI_REQUEST_NULL) board_.await(peers_[i], -1);
  }
}

}  // namespace zero::detail
