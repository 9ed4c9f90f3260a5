// The fibers of a block. Built without ThreadSanitizer: what it does between fibers is no part of
// the program under test, and the order that counts is told by hand.
#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/emulation/context.hpp"
#include "tests/emulation/emulation.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(ZERO_EMULATION_TSAN)
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace zero::emulation {
namespace {

constexpr std::size_t kStackBytes = std::size_t{128} << 10;
constexpr unsigned kMostThreads = 1024;
// A thread that waits has a fiber of its own from then on. Before, threads so far apart share one,
// and its order of events. Under ThreadSanitizer a race of two of them goes unseen, but not one of
// neighbours, nor one of threads whose distance is a power of two: none is a multiple of 31.
#if defined(ZERO_EMULATION_TSAN)
constexpr std::size_t kApart = 31;
// To ThreadSanitizer a fiber is a thread, of which it has 8128. So many of them are fibers at most:
// a block waits until there is room for its threads. Beyond so many a runner keeps none when its
// grid is done; kept ones leave room for the largest block, so that wait ends.
constexpr std::size_t kMostFibers = 7600;
constexpr std::size_t kMostKeptFibers = kMostFibers - kMostThreads;
#else
constexpr std::size_t kApart = 1;
#endif

struct Fiber {
  Context context;
  std::unique_ptr<char[]> stack;
  void* fake_stack = nullptr;  // of AddressSanitizer
  void* tsan = nullptr;
};

enum class State { kReady, kAtBarrier, kDone };

struct Thread {
  uint3 index{};
  State state = State::kReady;
  Fiber* fiber = nullptr;
};

class BlockRunner {
 public:
  // All room is taken at once: moving it later would look like a race to ThreadSanitizer, which
  // watches memmove() and memset() wherever they are called.
  BlockRunner() : threads_(kMostThreads) {
    fibers_.reserve(kMostThreads);
    idle_.reserve(kMostThreads);
  }

  void run(dim3 grid, dim3 block, const std::function<void()>& body);

  const uint3& thread_index() const { return current_->index; }
  const uint3& block_index() const { return block_index_; }
  const dim3& block_size() const { return block_; }
  const dim3& grid_size() const { return grid_; }

  void barrier() {
    Thread* const me = current_;
    char* const token = &tokens_[barriers_ % 2];
    me->state = State::kAtBarrier;
    release(token);
    leave(me->fiber);
    acquire(token);
    current_ = me;
  }

 private:
  static void entry();
  void run_fresh();
  void run_block();
  void reserve_fibers(std::size_t count);
  void settle_fibers();
  Fiber* take_fiber();
  Fiber* prepare(Fiber* fiber);
  void enter(Fiber* fiber);
  void leave(Fiber* fiber);

  static void acquire([[maybe_unused]] void* token) {
#if defined(ZERO_EMULATION_TSAN)
    __tsan_acquire(token);
#endif
  }
  static void release([[maybe_unused]] void* token) {
#if defined(ZERO_EMULATION_TSAN)
    __tsan_release(token);
#endif
  }

  dim3 grid_, block_;
  uint3 block_index_{};
  const std::function<void()>* body_ = nullptr;
  std::vector<Thread> threads_;
  std::size_t count_ = 0;  // threads of the block
  std::size_t fresh_ = 0;  // next thread to begin, of those that share; beyond count_: all have
  // Threads go on one after the other, and one that has reached the next barrier must not look as
  // if it had come before one that is only leaving this one. So neighbouring barriers have a token
  // each.
  unsigned barriers_ = 0;  // passed by all
  char tokens_[2] = {};
  Thread* current_ = nullptr;
  Fiber* running_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  std::size_t reserved_ = 0;  // fibers this grid may need
  Context home_;
  void* home_fake_stack_ = nullptr;
  const void* home_stack_ = nullptr;
  std::size_t home_stack_bytes_ = 0;
  void* home_tsan_ = nullptr;
};

#if defined(ZERO_EMULATION_TSAN)
// Of all runners: those they have, and those they may still need. Waited for without a lock, since
// ThreadSanitizer would take that for an order of the streams.
constinit std::atomic<std::size_t> fibers_of_all = 0;
#endif

// Room for `count` fibers in all.
void BlockRunner::reserve_fibers([[maybe_unused]] std::size_t count) {
#if defined(ZERO_EMULATION_TSAN)
  reserved_ = std::max(count, fibers_.size());
  const std::size_t more = reserved_ - fibers_.size();
  std::size_t all = fibers_of_all.load();
  for (;;) {
    if (all + more > kMostFibers) {
      std::this_thread::yield();
      all = fibers_of_all.load();
    } else if (fibers_of_all.compare_exchange_weak(all, all + more)) {
      return;
    }
  }
#endif
}

// Gives back what the grid did not need, and all of it where fibers are scarce.
void BlockRunner::settle_fibers() {
#if defined(ZERO_EMULATION_TSAN)
  if (fibers_of_all.load() > kMostKeptFibers) {
    for (const auto& fiber : fibers_) __tsan_destroy_fiber(fiber->tsan);
    idle_.clear();
    fibers_.clear();
  }
  fibers_of_all -= reserved_ - fibers_.size();
#endif
}

// Runners whose threads have ended, with their stacks, for threads to come.
struct RunnerPool {
  std::mutex mutex;
  std::vector<std::unique_ptr<BlockRunner>> idle;
};
// Outlives every thread. Made by the compiler: ThreadSanitizer, which does not see this file, would
// take the first use of one made on demand for a race.
union ForEver {
  constexpr ForEver() : pool() {}
  ~ForEver() {}
  RunnerPool pool;
};
constinit ForEver for_ever;
RunnerPool& runner_pool() { return for_ever.pool; }

class RunnerLease {
 public:
  RunnerLease() {
    RunnerPool& pool = runner_pool();
    const std::lock_guard lock(pool.mutex);
    if (pool.idle.empty()) {
      runner_ = std::make_unique<BlockRunner>();
    } else {
      runner_ = std::move(pool.idle.back());
      pool.idle.pop_back();
    }
  }
  ~RunnerLease() {
    RunnerPool& pool = runner_pool();
    const std::lock_guard lock(pool.mutex);
    pool.idle.push_back(std::move(runner_));
  }
  RunnerLease(const RunnerLease&) = delete;
  RunnerLease& operator=(const RunnerLease&) = delete;
  BlockRunner& runner() { return *runner_; }

 private:
  std::unique_ptr<BlockRunner> runner_;
};

BlockRunner& runner() {
  thread_local RunnerLease lease;
  return lease.runner();
}

void BlockRunner::entry() {
  BlockRunner& self = runner();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self.home_stack_, &self.home_stack_bytes_);
#endif
  for (;;) {
    self.run_fresh();
    Fiber* const me = self.running_;
    self.idle_.push_back(me);
    self.leave(me);
  }
}

// Threads to their end, until one waits: then this fiber is its own, and the call returns when all
// have begun and that one has ended.
void BlockRunner::run_fresh() {
  acquire(&home_);
  while (fresh_ < count_) {
    Thread& thread = threads_[fresh_];
    fresh_ += kApart;
    thread.fiber = running_;
    current_ = &thread;
    (*body_)();
    thread.state = State::kDone;
  }
  release(&threads_);
}

Fiber* BlockRunner::take_fiber() {
  if (!idle_.empty()) {
    Fiber* const fiber = idle_.back();
    idle_.pop_back();
    return fiber;
  }
  fibers_.push_back(std::make_unique<Fiber>());
  Fiber* const fiber = fibers_.back().get();
  return prepare(fiber);
}

Fiber* BlockRunner::prepare(Fiber* fiber) {
  fiber->stack = std::make_unique<char[]>(kStackBytes);
#if defined(ZERO_EMULATION_TSAN)
  fiber->tsan = __tsan_create_fiber(0);
#endif
  make_context(fiber->context, fiber->stack.get(), kStackBytes, &BlockRunner::entry);
  return fiber;
}

void BlockRunner::enter(Fiber* fiber) {
  running_ = fiber;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&home_fake_stack_, fiber->stack.get(), kStackBytes);
#endif
#if defined(ZERO_EMULATION_TSAN)
  __tsan_switch_to_fiber(fiber->tsan, 1);  // no order by itself
#endif
  switch_to(home_, fiber->context);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(home_fake_stack_, nullptr, nullptr);
#endif
}

void BlockRunner::leave(Fiber* fiber) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fiber->fake_stack, home_stack_, home_stack_bytes_);
#endif
#if defined(ZERO_EMULATION_TSAN)
  __tsan_switch_to_fiber(home_tsan_, 1);
#endif
  switch_to(fiber->context, home_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fiber->fake_stack, &home_stack_, &home_stack_bytes_);
#endif
}

void BlockRunner::run_block() {
  const std::size_t count = std::size_t{block_.x} * block_.y * block_.z;
  count_ = count;
  for (unsigned i = 0; i < count; ++i) {
    Thread& thread = threads_[i];
    thread.index = {i % block_.x, i / block_.x % block_.y, i / (block_.x * block_.y)};
    thread.state = State::kReady;
    thread.fiber = nullptr;
  }
  release(&home_);
  for (std::size_t first = 0; first < kApart; ++first) {
    fresh_ = first;
    while (fresh_ < count) enter(take_fiber());
  }
  for (;;) {
    std::size_t done = 0;
    std::size_t waiting = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (threads_[i].state == State::kReady) {
        current_ = &threads_[i];
        enter(threads_[i].fiber);
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      const Thread& thread = threads_[i];
      done += thread.state == State::kDone ? 1 : 0;
      waiting += thread.state == State::kAtBarrier ? 1 : 0;
    }
    if (done == count) break;
    if (waiting != count) {
      die("__syncthreads is not reached by all threads of block (%u, %u, %u): %zu wait, %zu have "
          "ended",
          block_index_.x, block_index_.y, block_index_.z, waiting, done);
    }
    ++barriers_;
    for (std::size_t i = 0; i < count; ++i) threads_[i].state = State::kReady;
  }
  acquire(&threads_);
}

void BlockRunner::run(dim3 grid, dim3 block, const std::function<void()>& body) {
  grid_ = grid;
  block_ = block;
  body_ = &body;
#if defined(ZERO_EMULATION_TSAN)
  home_tsan_ = __tsan_get_current_fiber();
#endif
  reserve_fibers(std::size_t{block.x} * block.y * block.z);
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        block_index_ = {x, y, z};
        run_block();
      }
    }
  }
  current_ = nullptr;
  settle_fibers();
}

}  // namespace

const uint3& thread_index() { return runner().thread_index(); }
const uint3& block_index() { return runner().block_index(); }
const dim3& block_size() { return runner().block_size(); }
const dim3& grid_size() { return runner().grid_size(); }
void block_barrier() { runner().barrier(); }

void run_grid(dim3 grid, dim3 block, const std::function<void()>& thread) {
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kMostThreads) die("a block of %zu threads", threads);
  runner().run(grid, block, thread);
}

void die(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::fputs("cuda emulation: ", stderr);
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
  va_end(arguments);
  std::abort();
}

}  // namespace zero::emulation
