// What NCCL does only when something is wrong, or when a program has a communicator of its own: the
// emulated one can be made to.
#include <gmock/gmock.h>
#include <nccl.h>

#include <atomic>

#include "tests/cells.hpp"
#include "tests/nccl_fixtures.hpp"
#include "zero/error.hpp"

namespace zero::contract {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <class Body>
std::string error_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Communicators of the caller's own.
std::vector<ncclComm_t> connect_all(int ranks) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  std::vector<ncclComm_t> comms(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclCommInitRankConfig(&comms[static_cast<std::size_t>(rank)], ranks, id, rank, &config);
  }
  return comms;
}

class EmulatedNccl : public testing::Test {
 protected:
  void TearDown() override {
    emulation::refuse_ranks_on_one_gpu(false);
    EXPECT_EQ(emulation::live_communicators(), 0u);
  }
};

TEST_F(EmulatedNccl, RanksThatShareAGpuAreToldOfThreads) {
  emulation::refuse_ranks_on_one_gpu(true);
  EXPECT_THAT(
      error_of([] { test::run_nccl_ranks(2, {std::chrono::seconds(60)}, 0, [](World&) {}); }),
      AllOf(HasSubstr("of 2: NCCL failed in connecting"), HasSubstr("Duplicate GPU"),
            HasSubstr("one rank per GPU"), HasSubstr("zero::run_ranks")));
  test::run_nccl_ranks(1, {std::chrono::seconds(60)}, 0, [](World&) {});
}

TEST_F(EmulatedNccl, ACommunicatorOfTheCallersStaysItsOwn) {
  const std::vector<ncclComm_t> comms = connect_all(2);
  std::vector<std::thread> threads;
  for (const ncclComm_t comm : comms) {
    threads.emplace_back([comm] {
      World world = make_nccl_world(comm, 0, {std::chrono::seconds(60)});
      Cells data(world.device(), 2, DType::kFloat32);
      data.set(world.rank(), static_cast<float>(1 + world.rank()));
      Stream& stream = world.device().caller_stream();
      world.communicator().all_gather(data.at(world.rank()), data.data(), 1, DType::kFloat32,
                                      {Purpose::kParams, "p"}, stream);
      stream.synchronize();
      EXPECT_EQ(data.mismatch([](std::int64_t i) { return static_cast<float>(1 + i); }), -1);
      EXPECT_EQ(world.world_size(), 2);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(emulation::live_communicators(), 2u);
  for (const ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST_F(EmulatedNccl, ACommunicatorOfAnotherDeviceIsRefused) {
  const std::vector<ncclComm_t> comms = connect_all(1);
  EXPECT_THAT(error_of([&] { make_nccl_world(comms[0], 1); }), HasSubstr("device 1"));
  EXPECT_EQ(ncclCommDestroy(comms[0]), ncclSuccess);
}

// NCCL says so while work is on the stream: the wait ends long before the deadline.
TEST_F(EmulatedNccl, AnErrorThatComesLaterEndsTheWait) {
  const std::vector<ncclComm_t> comms = connect_all(2);
  {
    World world = make_nccl_world(comms[0], 0, {std::chrono::seconds(600)});
    Stream& stream = world.device().caller_stream();
    world.communicator().barrier({Purpose::kControl, "end"}, stream);
    emulation::set_async_error(comms[0], ncclRemoteError);
    stream.synchronize();
    const auto refused = AllOf(HasSubstr("rank 0 of 2"), HasSubstr("#1 barrier of end"),
                               HasSubstr("remote process exited"), HasSubstr("set by a test"));
    EXPECT_THAT(error_of([&] { world.communicator().check(); }), refused);
    EXPECT_THAT(error_of([&] { world.communicator().barrier({}, stream); }), refused);
  }
  EXPECT_EQ(emulation::live_communicators(), 1u) << "the failed one has been aborted";
  EXPECT_EQ(ncclCommDestroy(comms[1]), ncclSuccess);
}

TEST_F(EmulatedNccl, AnErrorThatACallReturnsIsThrown) {
  const std::vector<ncclComm_t> comms = connect_all(1);
  World world = make_nccl_world(comms[0], 0, {std::chrono::seconds(600)});
  emulation::set_async_error(comms[0], ncclSystemError);
  EXPECT_THAT(
      error_of([&] {
        world.communicator().barrier({Purpose::kControl, "end"}, world.device().caller_stream());
      }),
      AllOf(HasSubstr("rank 0 of 1"), HasSubstr("#1 barrier of end"), HasSubstr("system error")));
}

// Ranks whose calls do not match: each ends by its own deadline.
TEST_F(EmulatedNccl, CallsThatDifferEndByTheDeadline) {
  test::run_nccl_ranks(2, {std::chrono::seconds(60)}, 1 << 12, [](World& world) {
    Stream& stream = world.device().caller_stream();
    Communicator& comm = world.communicator();
    comm.barrier({Purpose::kControl, "begin"}, stream);
    stream.synchronize();
    comm.set_timeout(std::chrono::milliseconds(300));
    Cells data(world.device(), 8, DType::kFloat32);
    data.fill([](std::int64_t) { return 1.0f; });
    comm.all_reduce(data.data(), DType::kFloat32, 3 + world.rank(), {}, {Purpose::kControl, "sum"},
                    stream);
    stream.synchronize();
    EXPECT_THAT(error_of([&] { comm.check(); }),
                AllOf(HasSubstr("rank " + std::to_string(world.rank())),
                      HasSubstr("all_reduce of sum, " + std::to_string(3 + world.rank()))));
  });
}

// Else it would wait for the other ranks to leave as well.
TEST_F(EmulatedNccl, OnlyAnExceptionOrAFailureAbortsTheCommunicator) {
  for (const bool fails : {false, true}) {
    const std::size_t before = emulation::aborted_communicators();
    const std::string error = error_of([&] {
      test::run_nccl_ranks(1, {std::chrono::seconds(600)}, 0, [&](World& world) {
        world.communicator().barrier({Purpose::kControl, "b"}, world.device().caller_stream());
        if (fails) throw UsageError("the body has failed");
      });
    });
    EXPECT_EQ(error, fails ? "the body has failed" : "no error");
    EXPECT_EQ(emulation::aborted_communicators() - before, fails ? 1u : 0u);
  }
}

// Which dtype the wire has, and that every hop rounds: 256 + 1 is 256 in bf16.
TEST_F(EmulatedNccl, SumsByNcclAreRoundedAtEveryHop) {
  test::run_nccl_ranks(3, {std::chrono::seconds(60), true}, 1 << 12, [](World& world) {
    Stream& stream = world.device().caller_stream();
    Cells send(world.device(), 3, DType::kBFloat16);
    Cells recv(world.device(), 1, DType::kFloat32);
    send.fill([&](std::int64_t) { return world.rank() == 0 ? 256.0f : 1.0f; });
    world.communicator().reduce_scatter(send.data(), DType::kBFloat16, recv.data(), DType::kFloat32,
                                        1, {}, {Purpose::kGradients, "g"}, stream);
    stream.synchronize();
    // Rank r's shard is summed from rank r + 1 on.
    const float expected[] = {258.0f, 256.0f, 256.0f};
    EXPECT_EQ(recv.mismatch([&](std::int64_t) { return expected[world.rank()]; }), -1);
  });
}

}  // namespace
}  // namespace zero::contract
