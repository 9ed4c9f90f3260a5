// NCCL under the contract of all communicators, the bits of the thread communicator, and what ends
// a wait. Where the library is built without NCCL, or there are not enough GPUs, the tests are
// skipped.
#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>

#include "tests/communicator_contract.hpp"
#include "tests/nccl_fixtures.hpp"
#include "tests/reduction_bits.hpp"
#include "zero/error.hpp"

namespace zero::contract {
namespace {

using test::run_nccl;
using testing::AllOf;
using testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(Nccl, CommunicatorContract,
                         contract_cases({"nccl",
                                         [](int world_size, const auto& body) {
                                           run_nccl(world_size, body);
                                         },
                                         {1, 2, 3, 5}}),
                         contract_case_name);

TEST(Nccl, GivesTheBitsOfThreads) {
  for (const int size : {1, 2, 3, 4, 5}) {
    std::vector<std::vector<Bits>> expected(static_cast<std::size_t>(size));
    auto found = expected;
    run_ranks(size, [&](World& world) {
      expected[static_cast<std::size_t>(world.rank())] = reduce_all(world);
    });
    run_nccl(size, [&](World& world) {
      found[static_cast<std::size_t>(world.rank())] = reduce_all(world);
    });
    if (testing::Test::IsSkipped()) return;
    for (std::size_t rank = 0; rank < expected.size(); ++rank) {
      expect_same(expected[rank], found[rank], static_cast<int>(rank));
    }
  }
}

// Sums that are exact in any order and in every dtype.
TEST(Nccl, SumsByNccl) {
  for (const int size : {1, 2, 3, 5}) {
    run_nccl(
        size,
        [&](World& world) {
          Rank r(world, false);
          EXPECT_FALSE(r.comm.sums_in_fp32());
          for (const DType dtype : kDTypes) {
            for (const DType recv_dtype : kDTypes) {
              for (const std::int64_t elems : kShardSizes) {
                for (const bool accumulate : {false, true}) {
                  Cells send(r.device, elems * r.size, dtype);
                  Cells recv(r.device, elems, recv_dtype);
                  send.fill([&](std::int64_t i) { return quarter(r.rank, i); });
                  const auto before = [&](std::int64_t i) { return 0.5f * quarter(r.rank, i, 1); };
                  recv.fill(before);
                  r.comm.reduce_scatter(send.data(), dtype, recv.data(), recv_dtype, elems,
                                        {2.0f, accumulate, false}, {Purpose::kGradients, "g"},
                                        r.stream);
                  r.comm.all_reduce(send.data(), dtype, elems, {4.0f, false, false},
                                    {Purpose::kControl, "a"}, r.stream);
                  r.stream.synchronize();
                  const auto sum = [&](std::int64_t i) {
                    float all = 0.0f;
                    for (int rank = 0; rank < r.size; ++rank) all += quarter(rank, i);
                    return all;
                  };
                  EXPECT_EQ(recv.mismatch([&](std::int64_t i) {
                    return (accumulate ? before(i) : 0.0f) + 0.5f * sum(r.rank * elems + i);
                  }),
                            -1)
                      << dtype_name(dtype) << " to " << dtype_name(recv_dtype) << " x " << elems;
                  EXPECT_EQ(send.mismatch([&](std::int64_t i) { return 0.25f * sum(i); }), -1);
                }
              }
            }
          }
        },
        {std::chrono::seconds(60), true});
  }
}

TEST(Nccl, SumsByNcclHaveNoTree) {
  run_nccl(2,
           [](World& world) {
             Rank r(world, false);
             Cells data(r.device, 2, DType::kFloat32);
             for (const bool scatter : {true, false}) {
               EXPECT_THAT(error_of([&] {
                             const Reduction tree{1.0f, false, true};
                             const OpTag tag{Purpose::kGradients, "bucket 3"};
                             if (scatter) {
                               r.comm.reduce_scatter(data.data(), DType::kFloat32, data.data(),
                                                     DType::kFloat32, 1, tree, tag, r.stream);
                             } else {
                               r.comm.all_reduce(data.data(), DType::kFloat32, 1, tree, tag,
                                                 r.stream);
                             }
                           }),
                           AllOf(HasSubstr("UsageError"), HasSubstr("bucket 3"),
                                 HasSubstr("runtime.reproducible"), HasSubstr("nccl_reduction")));
             }
             r.comm.barrier({Purpose::kControl, "still working"}, r.stream);
             r.stream.synchronize();
             r.comm.check();
           },
           {std::chrono::seconds(60), true});
}

TEST(Nccl, RefusesWhatTheWorkspaceDoesNotHold) {
  run_nccl(
      3,
      [](World& world) {
        Rank r(world, false);
        EXPECT_TRUE(r.comm.stages_slices());
        EXPECT_TRUE(r.comm.sums_in_fp32());
        Cells data(r.device, 3 * 9, DType::kFloat32);
        data.fill([](std::int64_t) { return 1.0f; });
        const OpTag tag{Purpose::kGradients, "bucket 3"};
        const auto refused = AllOf(HasSubstr("UsageError"), HasSubstr("bucket 3"), HasSubstr("72"),
                                   HasSubstr("64"), HasSubstr("use_workspace"));
        EXPECT_THAT(error_of([&] {
                      r.comm.reduce_scatter(data.data(), DType::kFloat32, data.data(),
                                            DType::kFloat32, 9, {}, tag, r.stream);
                    }),
                    refused);
        EXPECT_THAT(error_of([&] {
                      r.comm.all_reduce(data.data(), DType::kFloat32, 9, {}, tag, r.stream);
                    }),
                    refused);
        // What it just holds goes on as if nothing had been.
        r.comm.all_reduce(data.data(), DType::kFloat32, 8, {}, tag, r.stream);
        r.stream.synchronize();
        EXPECT_EQ(data.mismatch([](std::int64_t i) { return i < 3 * 8 ? 3.0f : 1.0f; }), -1);
      },
      {std::chrono::seconds(60)}, 64);
}

TEST(Nccl, RefusesStreamsOfTheHostAndSumsInPlaceThatAccumulate) {
  run_nccl(1, [](World& world) {
    const auto host = make_host_device();
    EXPECT_THAT(error_of([&] {
                  world.communicator().barrier({Purpose::kControl, "end"}, host->caller_stream());
                }),
                AllOf(HasSubstr("UsageError"), HasSubstr("end"), HasSubstr("CUDA")));
    EXPECT_THAT(error_of([&] {
                  world.communicator().all_reduce(nullptr, DType::kFloat32, 0, {1.0f, true, false},
                                                  {Purpose::kControl, "votes"},
                                                  world.device().caller_stream());
                }),
                AllOf(HasSubstr("UsageError"), HasSubstr("votes"), HasSubstr("accumulate")));
  });
}

// A collective returns before the others have come.
TEST(Nccl, DoesNotBlockTheIssuingThread) {
  std::atomic<bool> issued{false};
  run_nccl(2, [&](World& world) {
    if (world.rank() == 1) {
      while (!issued.load()) std::this_thread::yield();
    }
    world.communicator().barrier({Purpose::kControl, "here"}, world.device().caller_stream());
    issued = true;
    world.device().caller_stream().synchronize();
    world.communicator().check();
  });
}

TEST(Nccl, AMissingRankEndsByTheDeadline) {
  std::atomic<bool> ended{false};
  run_nccl(3, [&](World& world) {
    Rank r(world, false);
    r.comm.barrier({Purpose::kControl, "begin"}, r.stream);
    r.stream.synchronize();
    r.comm.check();
    if (r.rank == 2) {
      while (!ended.load()) std::this_thread::yield();
      return;
    }
    r.comm.set_timeout(std::chrono::milliseconds(300));
    Cells data(r.device, 3 * 5, DType::kBFloat16);
    r.comm.reduce_scatter(data.data(), DType::kBFloat16, data.at(5 * r.rank), DType::kBFloat16, 5,
                          {}, {Purpose::kGradients, "bucket 7"}, r.stream);
    r.stream.synchronize();
    const auto refused =
        AllOf(HasSubstr("rank " + std::to_string(r.rank) + " of 3"),
              HasSubstr("#2 reduce_scatter of bucket 7, 5 x bf16"), HasSubstr("0.3 s"),
              HasSubstr("which ranks are late is not known to NCCL"));
    EXPECT_THAT(error_of([&] { r.comm.check(); }), refused);
    EXPECT_THAT(error_of([&] { r.comm.barrier({Purpose::kControl, "end"}, r.stream); }), refused);
    if (r.rank == 0) ended = true;
  });
}

// What comes before on the stream is no wait for other ranks.
TEST(Nccl, TheDeadlineRunsFromTheTurnOnTheStream) {
  std::atomic<int> slept{0};
  run_nccl(2,
           [&](World& world) {
             Rank r(world, true);
             r.stream.enqueue([&] {
               std::this_thread::sleep_for(std::chrono::milliseconds(2500));
               ++slept;
               while (slept.load() < 2) std::this_thread::yield();
             });
             r.comm.barrier({Purpose::kControl, "here"}, r.stream);
             r.stream.synchronize();
             EXPECT_EQ(error_of([&] { r.comm.check(); }), "no error");
           },
           {std::chrono::seconds(2)});
}

TEST(Nccl, ARankThatNeverComesEndsConnecting) {
  const std::string why = test::nccl_refusal(2);
  if (!why.empty()) GTEST_SKIP() << why;
  EXPECT_THAT(
      error_of([] { make_nccl_world(make_nccl_id(), 0, 2, 0, {std::chrono::milliseconds(200)}); }),
      AllOf(HasSubstr("rank 0 of 2"), HasSubstr("connecting"), HasSubstr("0.2 s")));
}

TEST(Nccl, AbortEndsTheWaitOfItsRank) {
  std::atomic<bool> ended{false};
  run_nccl(2, [&](World& world) {
    Rank r(world, false);
    if (r.rank == 1) {
      while (!ended.load()) std::this_thread::yield();
      return;
    }
    r.comm.barrier({Purpose::kControl, "here"}, r.stream);
    std::thread([&] { r.comm.abort("the user has had enough"); }).join();
    r.stream.synchronize();
    const auto refused = AllOf(HasSubstr("rank 0 of 2"), HasSubstr("the user has had enough"));
    EXPECT_THAT(error_of([&] { r.comm.check(); }), refused);
    EXPECT_THAT(error_of([&] { r.comm.barrier({Purpose::kControl, "end"}, r.stream); }), refused);
    ended = true;
  });
}

// Work that the caller has not waited for is done before the world goes.
TEST(Nccl, FinishesWhatWasEnqueued) {
  std::atomic<int> late{0};
  run_nccl(2, [&](World& world) {
    const auto stream = world.device().create_stream("comm");
    stream->enqueue([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ++late;
    });
    world.communicator().barrier({Purpose::kControl, "here"}, *stream);
  });
  if (!testing::Test::IsSkipped()) {
    EXPECT_EQ(late.load(), 2);
  }
}

TEST(Nccl, FindsItsRanksByAFile) {
  const std::string why = test::nccl_refusal(3);
  if (!why.empty()) GTEST_SKIP() << why;
  const std::string path = testing::TempDir() + "zero_nccl_by_file";
  std::filesystem::remove(path);
  std::vector<std::thread> threads;
  std::atomic<int> sum{0};
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      World world =
          make_nccl_world_by_file(path, "job 1, attempt 2", rank, 3, 0, {std::chrono::seconds(60)});
      world.communicator().barrier({Purpose::kControl, "b"}, world.device().caller_stream());
      world.device().caller_stream().synchronize();
      sum += 1 << world.rank();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum.load(), 7);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Nccl, RefusesARankThatIsNotInTheWorld) {
  for (const int rank : {-1, 2}) {
    EXPECT_THAT(
        error_of([&] { make_nccl_world(NcclId{}, rank, 2, 0); }),
        AllOf(HasSubstr("UsageError"), HasSubstr("rank " + std::to_string(rank) + " of 2")));
  }
  EXPECT_THAT(error_of([&] { make_nccl_world(nullptr, 0); }), HasSubstr("null"));
}

// One sum reads so many slices; NCCL's own has no such limit. Neither gets far: no one else comes.
TEST(Nccl, RefusesMoreRanksThanASumReads) {
  const std::string why = test::nccl_refusal(1);
  if (!why.empty()) GTEST_SKIP() << why;
  const auto connect = [](int ranks, bool by_nccl) {
    return error_of([&] {
      make_nccl_world(make_nccl_id(), 0, ranks, 0, {std::chrono::milliseconds(50), by_nccl});
    });
  };
  EXPECT_THAT(connect(257, false), AllOf(HasSubstr("UsageError"), HasSubstr("257"),
                                         HasSubstr("256"), HasSubstr("nccl_reduction")));
  EXPECT_THAT(connect(256, false), HasSubstr("connecting"));
  EXPECT_THAT(connect(257, true), HasSubstr("connecting"));
}

TEST(Nccl, RefusesADeadlineThatIsNone) {
  run_nccl(1, [](World& world) {
    for (const double seconds : {0.0, -1.0, std::nan("")}) {
      EXPECT_THAT(error_of([&] {
                    world.communicator().set_timeout(std::chrono::duration<double>(seconds));
                  }),
                  AllOf(HasSubstr("UsageError"), HasSubstr("above 0")));
    }
  });
}

}  // namespace
}  // namespace zero::contract
