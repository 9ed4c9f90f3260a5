// Ranks that fail inside a collective, before one, or that cannot start; and odd deadlines. On the
// host, where the work of a collective runs inside its meetings: on CUDA it is only issued there.
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <new>
#include <thread>
#include <tuple>
#include <utility>

#include "src/local_group.hpp"
#include "tests/fault_fixtures.hpp"

namespace {
// The allocation after so many more on this thread fails; negative: none does.
thread_local int allocations_until_failure = -1;
}  // namespace

// Not inlined: g++ would warn of free() on what it knows to come from new.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (allocations_until_failure >= 0 && allocations_until_failure-- == 0) throw std::bad_alloc();
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace zero::faults {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

constexpr std::int64_t kElems = 4;

// A sum on the stream, of a buffer that is freed at once if it fails.
void sum(World& world, Stream& stream, const Reduction& reduction = {}) {
  std::vector<float> data(static_cast<std::size_t>(kElems * world.world_size()), 1.0f);
  const std::shared_ptr<void> done(nullptr, [&](void*) {  // before the buffer goes
    try {
      stream.synchronize();
    } catch (...) {
    }
  });
  world.communicator().all_reduce(data.data(), DType::kFloat32, kElems, reduction,
                                  {Purpose::kGradients, "the sum"}, stream);
  stream.synchronize();
  for (const float x : data) {
    if (x != static_cast<float>(world.world_size())) throw Broken("the sum is wrong");
  }
}

// (world size, on a worker stream)
class FaultsInside : public ::testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  int world_size() const { return std::get<0>(GetParam()); }
  Outcome run(const std::function<void(World&, Stream&)>& body) const {
    return run_to_the_end(
        world_size(),
        [&](World& world) {
          const auto worker =
              std::get<1>(GetParam()) ? world.device().create_stream("faults") : nullptr;
          body(world, worker != nullptr ? *worker : world.device().caller_stream());
        },
        60.0);
  }
};
INSTANTIATE_TEST_SUITE_P(Threads, FaultsInside,
                         ::testing::Combine(::testing::Values(2, 3, 7), ::testing::Bool()),
                         [](const auto& the_case) {
                           return std::to_string(std::get<0>(the_case.param)) +
                                  (std::get<1>(the_case.param) ? "_worker" : "_caller");
                         });

// Every place in a rank's first sum that needs memory, also between the two meetings.
TEST_P(FaultsInside, ARankHasNoMemory) {
  for (const int culprit : {0, world_size() - 1}) {
    for (int k = 0;; ++k) {
      SCOPED_TRACE(::testing::Message() << "allocation " << k << " of rank " << culprit);
      const Outcome outcome = run([&](World& world, Stream& stream) {
        if (world.rank() == culprit) stream.enqueue([k] { allocations_until_failure = k; });
        sum(world, stream);
      });
      allocations_until_failure = -1;  // rank 0 runs on this thread
      if (outcome.whole == nullptr) {
        EXPECT_GT(k, 0) << "nothing failed";
        break;
      }
      EXPECT_TRUE(is<std::bad_alloc>(outcome.whole)) << message(outcome.whole);
      expect_others_name(outcome, culprit, {rank_name(culprit), "bad_alloc", "the sum"});
    }
  }
}

// In any verb. The others read the memory of the rank that failed; it gets it back after that.
TEST_P(FaultsInside, TheWorkThrows) {
  for (const Verb verb : {Verb::kReduceScatter, Verb::kAllGather, Verb::kAllReduce,
                          Verb::kBroadcast, Verb::kBarrier}) {
    for (const int culprit : {0, world_size() - 1}) {
      SCOPED_TRACE(::testing::Message() << verb_name(verb) << ", culprit " << culprit);
      detail::LocalGroup group(world_size(), std::chrono::seconds(60));
      std::vector<std::atomic<int>> memory(static_cast<std::size_t>(world_size()));
      std::atomic<int> read_too_late{0};
      const Outcome outcome = run([&](World& world, Stream& stream) {
        const int rank = world.rank();
        std::atomic<int>& mine = memory[static_cast<std::size_t>(rank)];
        const std::shared_ptr<void> freed(nullptr, [&](void*) { mine = 1; });
        stream.enqueue([&, rank] {
          const OpFingerprint op{.sequence = 1, .verb = verb, .tag = {.name = "the work"}};
          group.collective(rank, {op, &mine}, [&] {
            if (rank == culprit) throw Broken("out of luck");
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
            read_too_late += *static_cast<std::atomic<int>*>(group.post(culprit).data);
          });
        });
        stream.synchronize();
      });
      EXPECT_EQ(read_too_late, 0);
      EXPECT_EQ(group.first_failed_rank(), culprit);
      EXPECT_TRUE(is<Broken>(outcome.ranks[static_cast<std::size_t>(culprit)]));
      expect_others_name(outcome, culprit,
                         {rank_name(culprit) + " failed in #1 " + std::string(verb_name(verb)),
                          "of the work", "out of luck"});
    }
  }
}

// What all ranks find wrong only between the two meetings.
TEST_P(FaultsInside, AllRanksFail) {
  const Outcome outcome =
      run([](World& world, Stream& stream) { sum(world, stream, {.tree = true}); });
  if (world_size() == 2) {  // is a power of two
    EXPECT_EQ(outcome.whole, nullptr) << message(outcome.whole);
    return;
  }
  EXPECT_TRUE(is<UsageError>(outcome.whole)) << message(outcome.whole);
  expect_names(message(outcome.whole),
               {std::to_string(world_size()) + " sources", "powers of two"});
  for (const std::exception_ptr& error : outcome.ranks) EXPECT_NE(error, nullptr);
}

// Whatever allocation fails on the way: no rank hangs, and the process lives.
TEST(Start, NoMemory) {
  for (int k = 0;; ++k) {
    SCOPED_TRACE(::testing::Message() << "allocation " << k);
    std::string text = "(no error)";
    const std::function<void(World&)> body = [](World& world) {
      sum(world, world.device().caller_stream());
    };
    allocations_until_failure = k;
    try {
      run_ranks(3, body, {std::chrono::seconds(60)});
    } catch (const std::exception& error) {
      text = error.what();
    }
    const bool failed = std::exchange(allocations_until_failure, -1) < 0;
    if (!failed) {
      EXPECT_EQ(text, "(no error)");
      EXPECT_GT(k, 10);
      break;
    }
    EXPECT_NE(text.find("bad_alloc"), std::string::npos) << text;
  }
}

// In a process of its own: more threads than its address space has room for.
void start_too_many() {
  constexpr rlim_t kRoom = rlim_t{512} << 20;
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  const rlim_t bytes = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + kRoom;
  const rlimit limit{bytes, bytes};
  if (pages == 0 || setrlimit(RLIMIT_AS, &limit) != 0) std::exit(2);
  try {
    run_ranks(
        5000,
        [](World& world) {
          world.communicator().barrier({Purpose::kControl, "b"}, world.device().caller_stream());
        },
        {std::chrono::seconds(20)});
  } catch (const CommError&) {
    std::exit(3);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::exit(0);
  }
  std::exit(1);
}

TEST(Start, TooManyRanksForTheSystem) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need address space";
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(start_too_many(), ::testing::ExitedWithCode(0),
              "run_ranks: only [0-9]+ of 5000 ranks .*ulimit");
}

TEST(Deadline, MustBeAboveZero) {
  for (const double seconds : {0.0, -1.0, -std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()}) {
    SCOPED_TRACE(seconds);
    const std::chrono::duration<double> timeout(seconds);
    const std::string shown = detail::concat(seconds, " s");
    const Outcome outcome = run_to_the_end(
        2, [](World&) { FAIL() << "ran"; }, seconds);
    EXPECT_TRUE(is<UsageError>(outcome.whole)) << message(outcome.whole);
    expect_names(message(outcome.whole), {"deadline", shown, "above 0"});
    run_ranks(2, [&](World& world) {
      try {
        world.communicator().set_timeout(timeout);
        ADD_FAILURE() << "accepted";
      } catch (const UsageError& error) {
        expect_names(error.what(), {"deadline", shown, "above 0"});
      }
      sum(world, world.device().caller_stream());  // the old deadline still holds
    });
  }
}

TEST(Deadline, MayBeAsLongAsItLikes) {
  for (const double seconds : {1e8, 9e9, 1e10, 1e300, std::numeric_limits<double>::infinity(),
                               std::chrono::duration<double>(std::chrono::hours::max()).count()}) {
    SCOPED_TRACE(seconds);
    for (const bool in_options : {false, true}) {
      const Outcome outcome = run_to_the_end(
          2,
          [&](World& world) {
            if (!in_options) {
              world.communicator().set_timeout(std::chrono::duration<double>(seconds));
            }
            if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
            sum(world, world.device().caller_stream());
          },
          in_options ? seconds : 60.0);
      EXPECT_EQ(outcome.whole, nullptr) << message(outcome.whole);
    }
  }
}

}  // namespace
}  // namespace zero::faults
