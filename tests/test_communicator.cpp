// The thread communicator under the contract of all communicators, and what only threads can show.
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/communicator_contract.hpp"
#include "tests/device_access.hpp"
#include "zero/error.hpp"

namespace zero::contract {
namespace {

void run_threads(int world_size, const std::function<void(World&)>& body) {
  test::run_on_device(world_size, body);
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

// On a worker stream a collective returns before the others have come. On the host alone: on CUDA
// the issuing threads meet.
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
    Cells mine(world.device(), 1, DType::kFloat32);
    Cells all(world.device(), 3, DType::kFloat32);
    mine.set(0, static_cast<float>(1 << world.rank()));
    std::byte* const from = mine.data();
    std::byte* const to = all.data();
    const auto worker = world.device().create_stream("comm");  // ends before the memory does
    Stream& stream = world.rank() == 1 ? *worker : world.device().caller_stream();
    world.communicator().all_gather(from, to, 1, DType::kFloat32, {Purpose::kParams, "p"}, stream);
    stream.synchronize();
    EXPECT_EQ(all.mismatch([](std::int64_t i) { return static_cast<float>(1 << i); }), -1);
  });
}

// A buffer is its owner's again once the operation is over on its stream: a rank that writes to it
// at once must not disturb a slower reader.
TEST(ThreadCommunicator, SourcesMayBeOverwrittenAfterwards) {
  constexpr std::int64_t kElems = 20'000;
  run_threads(4, [](World& world) {
    test::Room mine(world.device(), kElems * sizeof(float));
    test::Room all(world.device(), 4 * kElems * sizeof(float));
    Stream& stream = world.device().caller_stream();
    // In the order of the stream, without waiting for it.
    const auto fill = [&](std::vector<float>& values, float value) {
      values.assign(kElems, value);
      copy(mine.data(), values.data(), kElems * sizeof(float), stream);
    };
    std::vector<float> good, bad;
    for (int round = 0; round < 30; ++round) {
      fill(good, static_cast<float>(100 * round + world.rank()));
      world.communicator().all_gather(mine.data(), all.data(), kElems, DType::kFloat32,
                                      {Purpose::kParams, "p"}, stream);
      fill(bad, -1.0f);
      const HostView<const float> gathered(world.device(), all.as<const float>(), 4 * kElems);
      for (int rank = 0; rank < 4; ++rank) {
        const auto part = gathered.begin() + rank * kElems;
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
