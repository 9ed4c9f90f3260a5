// The thread communicator under the contract of all communicators, and what only threads can show.
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/communicator_contract.hpp"
#include "zero/error.hpp"

namespace zero::contract {
namespace {

void run_threads(int world_size, const std::function<void(World&)>& body) {
  run_ranks(world_size, body, {std::chrono::seconds(60)});
}

INSTANTIATE_TEST_SUITE_P(Threads, CommunicatorContract,
                         contract_cases({"threads", run_threads, {1, 2, 3, 4, 5, 8, 9}}),
                         contract_case_name);

TEST(ThreadCommunicator, NoRankLeavesABarrierBeforeAllHaveCome) {
  constexpr int kRanks = 5;
  std::atomic<int> arrived{0};
  run_threads(kRanks, [&](World& world) {
    for (int round = 1; round <= 50; ++round) {
      ++arrived;
      world.communicator().barrier({Purpose::kControl, "here"}, world.device().caller_stream());
      EXPECT_GE(arrived.load(), round * kRanks);
    }
  });
}

// On a worker stream a collective returns before the others have come.
TEST(ThreadCommunicator, DoesNotBlockTheIssuingThread) {
  std::atomic<bool> issued{false};
  run_threads(2, [&](World& world) {
    const auto stream = world.device().create_stream("comm");
    if (world.rank() == 1) {
      while (!issued.load()) std::this_thread::yield();
    }
    world.communicator().barrier({Purpose::kControl, "here"}, *stream);
    issued = true;
    stream->synchronize();
  });
}

TEST(ThreadCommunicator, MixesStreamsAcrossRanks) {
  run_threads(3, [](World& world) {
    const auto worker = world.device().create_stream("comm");
    Stream& stream = world.rank() == 1 ? *worker : world.device().caller_stream();
    float mine = static_cast<float>(1 << world.rank());
    float all[3] = {-1, -1, -1};
    world.communicator().all_gather(&mine, all, 1, DType::kFloat32, {Purpose::kParams, "p"},
                                    stream);
    stream.synchronize();
    EXPECT_EQ(all[0] + 8 * all[1] + 64 * all[2], 1 + 8 * 2 + 64 * 4);
  });
}

// A buffer is its owner's again once the operation is over on its stream: a rank that writes to it
// at once must not disturb a slower reader.
TEST(ThreadCommunicator, SourcesMayBeOverwrittenAfterwards) {
  constexpr std::int64_t kElems = 20'000;
  run_threads(4, [](World& world) {
    std::vector<float> mine(kElems);
    std::vector<float> all(4 * kElems);
    Stream& stream = world.device().caller_stream();
    for (int round = 0; round < 30; ++round) {
      std::fill(mine.begin(), mine.end(), static_cast<float>(100 * round + world.rank()));
      world.communicator().all_gather(mine.data(), all.data(), kElems, DType::kFloat32,
                                      {Purpose::kParams, "p"}, stream);
      std::fill(mine.begin(), mine.end(), -1.0f);
      for (int rank = 0; rank < 4; ++rank) {
        const auto part = all.begin() + rank * kElems;
        ASSERT_TRUE(std::all_of(
            part, part + kElems,
            [&](float value) { return value == static_cast<float>(100 * round + rank); }))
            << "round " << round << ", slice of rank " << rank << " at rank " << world.rank();
      }
    }
  });
}

TEST(ThreadCommunicator, RefusesAWorldOfNone) {
  for (const int size : {0, -1}) {
    try {
      run_ranks(size, [](World&) { FAIL() << "ran"; });
      FAIL() << "accepted";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(std::to_string(size)), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace zero::contract
