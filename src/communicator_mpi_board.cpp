#include "src/communicator_mpi_board.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>

#include "src/communicator_mpi_check.hpp"

namespace zero::detail {
namespace {

constexpr int kTag = 1;
constexpr std::size_t kMostBytes = 8192;
constexpr std::size_t kOperationsKept = 3;

struct Head {
  std::uint32_t kind = 0;
  std::uint32_t text_bytes = 0;
  std::uint64_t sequence = 0;
};

}  // namespace

MpiBoard::MpiBoard(MPI_Comm comm, int rank, int world_size)
    : comm_(comm),
      rank_(rank),
      world_size_(world_size),
      incoming_(kMostBytes),
      awaited_(static_cast<std::size_t>(world_size)),
      peers_(static_cast<std::size_t>(world_size)) {
  const std::lock_guard lock(mpi_mutex_);
  const MpiCalls::Inside inside(calls_);
  post_receive();
}

void MpiBoard::post_receive() {
  check_mpi(MPI_Irecv(incoming_.data(), static_cast<int>(incoming_.size()), MPI_BYTE,
                      MPI_ANY_SOURCE, kTag, comm_, &receive_),
            "listening to the other ranks");
}

void MpiBoard::pump() noexcept {
  try {
    const std::lock_guard lock(mpi_mutex_);
    if (closed_ || frozen_) return;
    const MpiCalls::Inside inside(calls_);
    for (;;) {
      if (receive_ == MPI_REQUEST_NULL) post_receive();  // it failed before
      int done = 0;
      MPI_Status status;
      check_mpi(MPI_Test(&receive_, &done, &status), "listening to the other ranks");
      if (done == 0) break;
      handle(status.MPI_SOURCE, incoming_);
      post_receive();
    }
    std::erase_if(outgoing_, [](Message& message) {
      int done = 0;
      // An error: the rank is gone, and who waits for it will say so.
      return MPI_Test(&message.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
    });
  } catch (const std::exception& error) {
    note_failure(concat("rank ", rank_, ": ", error.what()));
  }
}

void MpiBoard::send(int to, Kind kind, const std::string& text) {
  constexpr std::string_view kCut = " ...";
  const std::size_t room = kMostBytes - sizeof(Head);
  std::string fitting = text;
  if (fitting.size() > room) fitting.replace(room - kCut.size(), std::string::npos, kCut);
  Head head{static_cast<std::uint32_t>(kind), static_cast<std::uint32_t>(fitting.size()), 0};
  {
    const std::lock_guard lock(mutex_);
    head.sequence = sequence_;
  }
  Message& message = outgoing_.emplace_back();
  message.bytes.resize(sizeof head + fitting.size());
  std::memcpy(message.bytes.data(), &head, sizeof head);
  std::memcpy(message.bytes.data() + sizeof head, fitting.data(), fitting.size());
  const int code = MPI_Isend(message.bytes.data(), static_cast<int>(message.bytes.size()), MPI_BYTE,
                             to, kTag, comm_, &message.request);
  if (code != MPI_SUCCESS) outgoing_.pop_back();  // it is gone: there is no one to tell
}

void MpiBoard::send_all(Kind kind, const std::string& text) noexcept {
  try {
    const std::lock_guard lock(mpi_mutex_);
    if (closed_ || frozen_) return;
    const MpiCalls::Inside inside(calls_);
    for (int step = 1; step < world_size_; ++step) send((rank_ + step) % world_size_, kind, text);
  } catch (const std::exception&) {  // no memory for a message: the others have their deadline
  }
}

void MpiBoard::handle(int from, const std::vector<char>& bytes) {
  Head head;
  std::memcpy(&head, bytes.data(), sizeof head);
  const std::string text(bytes.data() + sizeof head, head.text_bytes);
  switch (static_cast<Kind>(head.kind)) {
    case Kind::kFailure:
      return note_failure(text);
    case Kind::kQuestion:
      return send(from, Kind::kAnswer, describe());
    case Kind::kAnswer: {
      const std::lock_guard lock(mutex_);
      peer(from).answer = text;
      return;
    }
    case Kind::kEnd: {
      const std::lock_guard lock(mutex_);
      peer(from).end = head.sequence;
      peer(from).last_words = text;
      trouble_.store(true, std::memory_order_release);
      return;
    }
  }
}

void MpiBoard::begin(std::uint64_t sequence, const std::string& operation) {
  const std::lock_guard lock(mutex_);
  sequence_ = sequence;
  if (operations_.size() == kOperationsKept) operations_.pop_back();
  operations_.push_front(operation);
  inside_ = true;
  since_ = Clock::now();
}

void MpiBoard::end() {
  const std::lock_guard lock(mutex_);
  inside_ = false;
  since_ = Clock::now();
}

std::string MpiBoard::describe() const {
  const std::lock_guard lock(mutex_);
  return describe_locked();
}

std::string MpiBoard::describe_locked() const {
  if (operations_.empty()) return "in no operation, and was in none before";
  const double seconds = std::chrono::duration<double>(Clock::now() - since_).count();
  const double rounded = static_cast<double>(static_cast<std::int64_t>(seconds * 10)) / 10;
  std::string text;
  std::size_t next = 0;
  if (inside_) {
    text = concat("in ", operations_[next++], " for ", rounded, " s");
    std::string whom;
    for (int other = 0; other < world_size_; ++other) {
      if (awaited_[static_cast<std::size_t>(other)] == 0) continue;
      whom += concat(whom.empty() ? ", waiting for rank " : ", ", other);
    }
    text += whom;
  } else {
    text = concat("in no operation for ", rounded, " s");
  }
  for (const char* before = "; before: "; next < operations_.size(); before = "; ") {
    text += before + operations_[next++];
  }
  return text;
}

std::string MpiBoard::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void MpiBoard::note_failure(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!failed_) failure_ = reason;
  failed_ = true;
  trouble_.store(true, std::memory_order_release);
}

void MpiBoard::fail(const std::string& reason) noexcept {
  try {
    {
      const std::lock_guard lock(mutex_);
      if (failed_) return;
    }
    note_failure(reason);
  } catch (const std::exception&) {
    return;
  }
  send_all(Kind::kFailure, reason);
}

std::optional<std::string> MpiBoard::ended_before(int rank, std::uint64_t sequence) const {
  const std::lock_guard lock(mutex_);
  const Peer& other = peer(rank);
  if (!other.end || *other.end >= sequence) return std::nullopt;
  return other.last_words;
}

void MpiBoard::ask(double patience_s) {
  {
    const std::lock_guard lock(mutex_);
    for (Peer& other : peers_) other.answer.reset();
  }
  send_all(Kind::kQuestion, "");
  const auto start = Clock::now();
  const auto answered = [&] {
    const std::lock_guard lock(mutex_);
    if (failed_) return true;
    for (int other = 0; other < world_size_; ++other) {
      if (other != rank_ && !peer(other).answer && !peer(other).end) return false;
    }
    return true;
  };
  while (!answered() && std::chrono::duration<double>(Clock::now() - start).count() < patience_s) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    pump();
  }
  const std::lock_guard lock(mutex_);
  for (int other = 0; !failed_ && other < world_size_; ++other) {
    peer(other).silent = other != rank_ && !peer(other).answer && !peer(other).end;
  }
}

std::optional<std::string> MpiBoard::answer_of(int rank) const {
  const std::lock_guard lock(mutex_);
  if (rank == rank_) return describe_locked();
  return peer(rank).answer;
}

void MpiBoard::say_goodbye() noexcept {
  std::string last_words;
  {
    const std::lock_guard lock(mutex_);
    last_words = operations_.empty() ? "none" : operations_.front();
  }
  send_all(Kind::kEnd, last_words);
}

bool MpiBoard::all_have_ended(bool but_silent_ones) const {
  const std::lock_guard lock(mutex_);
  for (int other = 0; other < world_size_; ++other) {
    if (other == rank_ || peer(other).end) continue;
    if (!(but_silent_ones && peer(other).silent)) return false;
  }
  return true;
}

std::vector<int> MpiBoard::silent() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> ranks;
  for (int other = 0; other < world_size_; ++other) {
    if (peer(other).silent && !peer(other).end) ranks.push_back(other);
  }
  return ranks;
}

void MpiBoard::close() noexcept {
  const std::lock_guard lock(mpi_mutex_);
  closed_ = true;
  if (frozen_ || receive_ == MPI_REQUEST_NULL) return;
  const MpiCalls::Inside inside(calls_);
  MPI_Cancel(&receive_);
  for (int look = 0, done = 0; done == 0 && look < 100; ++look) {
    if (MPI_Test(&receive_, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
  }
}

}  // namespace zero::detail
