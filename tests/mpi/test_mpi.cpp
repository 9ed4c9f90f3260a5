// MPI under the contract of all communicators, the bits of the thread communicator, and what it
// refuses. Runs under mpirun: every process makes the same tests, and is one rank in each.
#include <gmock/gmock.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "src/communicator_mpi.hpp"
#include "tests/communicator_contract.hpp"
#include "tests/reduction_bits.hpp"
#include "zero/error.hpp"

namespace zero::contract {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kWorkspaceBytes = std::int64_t{1} << 20;

int ranks() { return find_launch().world_size; }

World make_world(std::int64_t most_bytes_at_once = std::int64_t{1} << 30) {
  return {
      make_host_device(),
      detail::make_mpi_communicator({.timeout_s = 60, .most_bytes_at_once = most_bytes_at_once}),
      Launcher::kMpi};
}

void run_in(World world, const std::function<void(World&)>& body) {
  std::vector<std::byte> workspace(kWorkspaceBytes);
  world.communicator().use_workspace(workspace.data(), kWorkspaceBytes);
  body(world);
}

// All ranks of the job take part in every test.
void run_mpi(int world_size, const std::function<void(World&)>& body) {
  ASSERT_EQ(world_size, ranks());
  run_in(World::from_environment({.timeout = std::chrono::seconds(60)}), body);
}

INSTANTIATE_TEST_SUITE_P(Mpi, CommunicatorContract, contract_cases({"mpi", run_mpi, {ranks()}}),
                         contract_case_name);

TEST(Mpi, IsWhatTheEnvironmentSays) {
  const Launch launch = find_launch();
  run_mpi(ranks(), [&](World& world) {
    EXPECT_EQ(world.launcher(), Launcher::kMpi);
    EXPECT_EQ(world.rank(), launch.rank);
    EXPECT_EQ(world.world_size(), launch.world_size);
    EXPECT_EQ(detail::mpi_local_rank(), launch.rank);  // all on this machine
    EXPECT_TRUE(world.communicator().sums_in_fp32());
    EXPECT_TRUE(world.communicator().stages_slices());
  });
}

TEST(Mpi, GivesTheBitsOfThreads) {
  std::vector<std::vector<Bits>> expected(static_cast<std::size_t>(ranks()));
  run_ranks(ranks(), [&](World& world) {
    expected[static_cast<std::size_t>(world.rank())] = reduce_all(world);
  });
  run_mpi(ranks(), [&](World& world) {
    expect_same(expected[static_cast<std::size_t>(world.rank())], reduce_all(world), world.rank());
  });
}

// What is longer than MPI can count goes in parts; here that is 13 bytes, which cut elements.
TEST(Mpi, CutsWhatIsTooLong) {
  std::vector<std::vector<Bits>> expected(static_cast<std::size_t>(ranks()));
  run_ranks(ranks(), [&](World& world) {
    expected[static_cast<std::size_t>(world.rank())] = reduce_all(world);
  });
  run_in(make_world(13), [&](World& world) {
    expect_same(expected[static_cast<std::size_t>(world.rank())], reduce_all(world), world.rank());
    Rank r(world, true);
    constexpr std::int64_t kElems = 1001;
    Cells data(r.device, kElems, DType::kFloat16);
    if (r.rank == 1) data.fill([](std::int64_t i) { return quarter(1, i); });
    r.comm.broadcast(data.data(), kElems, DType::kFloat16, 1, {Purpose::kParams, "b"}, r.stream);
    r.stream.synchronize();
    EXPECT_EQ(data.mismatch([](std::int64_t i) { return quarter(1, i); }), -1);
  });
}

// Larger than any message that MPI sends without asking the receiver first.
TEST(Mpi, MovesLongMessages) {
  run_mpi(ranks(), [](World& world) {
    const std::int64_t elems = 3'000'001;
    std::vector<float> mine(static_cast<std::size_t>(elems), static_cast<float>(world.rank() + 1));
    std::vector<float> all(mine.size() * static_cast<std::size_t>(world.world_size()));
    const auto stream = world.device().create_stream("comm");
    world.communicator().all_gather(mine.data(), all.data(), elems, DType::kFloat32,
                                    {Purpose::kParams, "long"}, *stream);
    stream->synchronize();
    for (std::size_t i = 0; i < all.size(); i += 997) {
      ASSERT_EQ(all[i], static_cast<float>(i / mine.size() + 1)) << i;
    }
  });
}

TEST(Mpi, DoesNotBlockTheIssuingThread) {
  run_mpi(ranks(), [](World& world) {
    std::atomic<bool> issued{false};
    const auto stream = world.device().create_stream("comm");
    stream->enqueue([&] {
      while (!issued.load()) std::this_thread::yield();
    });
    world.communicator().barrier({Purpose::kControl, "here"}, *stream);
    issued = true;
    stream->synchronize();
  });
}

TEST(Mpi, RefusesWhatTheWorkspaceDoesNotHold) {
  run_in(make_world(), [](World& world) {
    Rank r(world, false);
    std::vector<std::byte> workspace(64);
    r.comm.use_workspace(workspace.data(), 64);
    const std::int64_t most = 64 / 4 / (r.size - 1);
    Cells data(r.device, r.size * (most + 1), DType::kFloat32);
    data.fill([](std::int64_t) { return 1.0f; });
    const OpTag tag{Purpose::kGradients, "bucket 3"};
    const auto refused = AllOf(HasSubstr("UsageError"), HasSubstr("bucket 3"), HasSubstr("64"),
                               HasSubstr("use_workspace"));
    EXPECT_THAT(error_of([&] {
                  r.comm.reduce_scatter(data.data(), DType::kFloat32, data.data(), DType::kFloat32,
                                        most + 1, {}, tag, r.stream);
                }),
                refused);
    EXPECT_THAT(error_of([&] {
                  r.comm.all_reduce(data.data(), DType::kFloat32, most + 1, {}, tag, r.stream);
                }),
                refused);
    EXPECT_THAT(
        error_of([&] {
          r.comm.all_reduce(data.data(), DType::kFloat32, 1, {1.0f, true, false}, tag, r.stream);
        }),
        AllOf(HasSubstr("UsageError"), HasSubstr("accumulate")));
    // What it just holds goes on as if nothing had been.
    r.comm.all_reduce(data.data(), DType::kFloat32, most, {}, tag, r.stream);
    EXPECT_EQ(data.mismatch([&](std::int64_t i) {
      return i < r.size * most ? static_cast<float>(r.size) : 1.0f;
    }),
              -1);
  });
}

TEST(Mpi, RefusesASecondWorldAndADeadlineThatIsNone) {
  run_mpi(ranks(), [](World& world) {
    EXPECT_THAT(error_of([] { make_world(); }), AllOf(HasSubstr("UsageError"), HasSubstr("world")));
    for (const double seconds : {0.0, -1.0, std::nan("")}) {
      EXPECT_THAT(error_of([&] {
                    world.communicator().set_timeout(std::chrono::duration<double>(seconds));
                  }),
                  AllOf(HasSubstr("UsageError"), HasSubstr("above 0")));
    }
    world.communicator().barrier({Purpose::kControl, "still working"},
                                 world.device().caller_stream());
  });
}

TEST(Mpi, RefusesStreamsOfOtherDevices) {
  run_mpi(ranks(), [](World& world) {
    const auto meta = make_meta_device();
    EXPECT_THAT(error_of([&] {
                  world.communicator().barrier({Purpose::kControl, "end"}, meta->caller_stream());
                }),
                AllOf(HasSubstr("UsageError"), HasSubstr("end"), HasSubstr("host")));
  });
}

}  // namespace
}  // namespace zero::contract

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const zero::Launch launch = zero::find_launch();
  if (launch.world_size < 2) {
    std::fputs("test_mpi: to be run with 2 or more processes: mpirun -n 2 test_mpi\n", stderr);
    return 1;
  }
  if (launch.rank != 0) GTEST_FLAG_SET(brief, true);
  return RUN_ALL_TESTS();
}
