#include "src/communicator_mpi_process.hpp"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <vector>

#include "src/communicator_mpi_check.hpp"

namespace zero::detail {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// After a failure the others get so long to print what they have to say.
constexpr double kGraceS = 2;
constexpr double kPatienceS = 1.5;                // for the answers of others
constexpr double kMarginS = 1;                    // for a call that does not return
constexpr std::chrono::milliseconds kPeriod{10};  // in which the service thread looks

// For calls that wait for other ranks whatever one does: ends the process when it takes too long.
template <class Call>
void with_deadline(double timeout_s, const std::string& what, const Call& call) {
  std::mutex mutex;
  std::condition_variable wake;
  bool done = false;
  std::thread watch([&] {
    std::unique_lock lock(mutex);
    if (wake.wait_for(lock, Seconds(timeout_s), [&] { return done; })) return;
    std::fprintf(stderr, "zero: %s was not done after %g s: other ranks did not come\n",
                 what.c_str(), timeout_s);
    std::_Exit(1);
  });
  call();
  {
    const std::lock_guard lock(mutex);
    done = true;
  }
  wake.notify_all();
  watch.join();
}

void wait_for(MPI_Request request, double timeout_s, const char* what) {
  const auto start = Clock::now();
  for (;;) {
    int done = 0;
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), what);
    if (done != 0) return;
    if (Seconds(Clock::now() - start).count() > timeout_s) {
      throw CommError(concat(what, ": not all ranks have come after ", timeout_s, " s"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

MPI_Comm duplicate(double timeout_s) {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request), "a communicator of MPI");
  wait_for(request, timeout_s, "a communicator of MPI");
  check_mpi(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "a communicator of MPI");
  return copy;
}

void flush() {
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
}

}  // namespace

MpiProcess& MpiProcess::get(const MpiSettings& settings) {
  // Never destroyed: it is needed until the process is gone.
  static MpiProcess* const process = new MpiProcess;
  if (process->process_id_ == 0) process->begin(settings);
  if (process->link_ == nullptr) {
    throw CommError("MPI could not be begun in this process before; there is no second try");
  }
  return *process;
}

void MpiProcess::occupy() {
  if (occupied_) {
    throw UsageError(
        "this process has a world of MPI already; several optimizers may share one, and another "
        "can be made when it is gone");
  }
  occupied_ = true;
}

void MpiProcess::begin(const MpiSettings& settings) {
  process_id_ = getpid();
  int begun = 0;
  int ended = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  if (ended != 0) throw UsageError("MPI_Finalize has been called: no world can be made any more");
  owned_ = begun == 0;
  if (owned_) {
    with_deadline(settings.start_timeout_s, settings.who + ": MPI_Init_thread", [] {
      int provided = 0;
      MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
    });
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
  on_exit([](int status, void* process) { static_cast<MpiProcess*>(process)->at_exit(status); },
          this);
  int provided = 0;
  MPI_Query_thread(&provided);
  if (provided < MPI_THREAD_MULTIPLE) {
    throw CommError(owned_ ? "this MPI does not offer MPI_THREAD_MULTIPLE, which is needed since "
                             "ranks communicate beside their computation; use one that does"
                           : "the program has begun MPI without MPI_THREAD_MULTIPLE, which is "
                             "needed since ranks communicate beside their computation: call "
                             "MPI_Init_thread(..., MPI_THREAD_MULTIPLE, ...), or leave it to "
                             "World::from_environment()");
  }
  connect(settings.start_timeout_s);
}

void MpiProcess::connect(double timeout_s) {
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "the rank in MPI");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &world_size_), "the ranks of MPI");
  const MPI_Comm comm = duplicate(timeout_s);
  const MPI_Comm beside = duplicate(timeout_s);

  // Ranks of one machine, by its name.
  std::vector<char> names(static_cast<std::size_t>(world_size_) * MPI_MAX_PROCESSOR_NAME);
  std::vector<char> name(MPI_MAX_PROCESSOR_NAME);
  int length = 0;
  check_mpi(MPI_Get_processor_name(name.data(), &length), "the name of this machine");
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallgather(name.data(), MPI_MAX_PROCESSOR_NAME, MPI_BYTE, names.data(),
                           MPI_MAX_PROCESSOR_NAME, MPI_BYTE, comm, &request),
            "the names of the machines");
  wait_for(request, timeout_s, "the names of the machines");
  int local_size = 0;
  for (int other = 0; other < world_size_; ++other) {
    const char* const theirs = names.data() + other * MPI_MAX_PROCESSOR_NAME;
    if (std::memcmp(theirs, name.data(), name.size()) != 0) continue;
    if (other < rank_) ++local_rank_;
    ++local_size;
  }

  const bool crowded = static_cast<unsigned>(local_size) > std::thread::hardware_concurrency();
  link_ = std::make_unique<MpiLink>(comm, beside, rank_, world_size_, crowded);
  // Whoever calls MPI_Finalize: this comes first.
  int key = MPI_KEYVAL_INVALID;
  check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &MpiProcess::on_finalize, &key, nullptr),
            "a hook of MPI");
  check_mpi(MPI_Comm_set_attr(MPI_COMM_SELF, key, this), "a hook of MPI");
  service_ = std::thread([this] { serve(); });
  watch_.start(
      {&link_->calls(), &link_->board().calls()}, [this] { return link_->timeout_s() + kMarginS; },
      [this](double lasted_s) { give_up(lasted_s); });
}

void MpiProcess::serve() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // they are for the program's own threads
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    link_->board().pump();
    lock.lock();
    wake_.wait_for(lock, kPeriod, [&] { return stopping_; });
  }
}

void MpiProcess::stop_serving() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (service_.joinable()) service_.join();
}

// Nothing that is held by who is inside of the library may be asked for here.
void MpiProcess::give_up(double lasted_s) const {
  std::fprintf(stderr,
               "zero: rank %d: a call of MPI has not returned for %g s, as when another rank is "
               "stopped while it has a lock; the rank is %s\n",
               rank_, lasted_s, link_->board().describe().c_str());
  std::_Exit(1);
}

void MpiProcess::close() noexcept {
  link_->board().close();
  watch_.stop();
}

bool MpiProcess::farewell(int status) noexcept {
  stop_serving();
  MpiBoard& board = link_->board();
  if (link_->busy()) board.fail(concat("rank ", rank_, " ended inside of an operation"));
  board.say_goodbye();
  auto start = Clock::now();
  while (!board.all_have_ended(false) && !board.frozen()) {
    const double waited_s = Seconds(Clock::now() - start).count();
    if (status != 0 || !board.failure().empty()) {
      if (waited_s > kGraceS || board.all_have_ended(true)) return false;
    } else if (waited_s > link_->timeout_s()) {
      // Who still answers has something to do, e.g. to write a file.
      board.ask(kPatienceS);
      const std::vector<int> silent = board.silent();
      for (const int other : silent) {
        std::fprintf(stderr, "zero: rank %d has ended, and rank %d has not and does not answer\n",
                     rank_, other);
      }
      if (!silent.empty()) return false;
      start = Clock::now();
    }
    board.pump();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return !board.frozen() && !link_->busy();
}

void MpiProcess::abort(int status) {
  flush();
  with_deadline(kPatienceS + kGraceS, "MPI_Abort",
                [&] { MPI_Abort(MPI_COMM_WORLD, status == 0 ? 1 : status); });
  std::_Exit(status == 0 ? 1 : status);
}

void MpiProcess::at_exit(int status) noexcept {
  if (getpid() != process_id_) return;  // a child that was forked
  int ended = 0;
  MPI_Finalized(&ended);
  if (link_ == nullptr) {  // it could not be begun
    if (ended == 0 && status != 0) abort(status);
    return;
  }
  flush();
  const bool failed = !link_->board().failure().empty();
  // Who has begun MPI, and forgets to end it, need not be helped where all is well.
  if (ended == 0 && (owned_ || failed || status != 0)) {
    said_goodbye_ = true;
    if (!farewell(status)) abort(status);
    close();
    if (owned_) {
      // Who knows of a failure waits for no one's end any more.
      with_deadline(failed || status != 0 ? kPatienceS + kGraceS : link_->timeout_s(),
                    concat("rank ", rank_, ": MPI_Finalize"), [] { MPI_Finalize(); });
    }
  }
  if (status == 0 && !link_->board().failure().empty()) {
    flush();
    std::_Exit(1);  // nothing that failed ends well
  }
}

int MpiProcess::on_finalize(MPI_Comm, int, void* process, void*) {
  auto* const self = static_cast<MpiProcess*>(process);
  if (self->said_goodbye_) return MPI_SUCCESS;
  self->said_goodbye_ = true;
  if (!self->farewell(0)) abort(1);
  self->close();
  return MPI_SUCCESS;
}

}  // namespace zero::detail
