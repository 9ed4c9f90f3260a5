// Ranks that go wrong in a collective: everyone ends, soon, with an error that says who and where.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "tests/fault_fixtures.hpp"

namespace zero::faults {
namespace {

constexpr Verb kVerbs[] = {Verb::kReduceScatter, Verb::kAllGather, Verb::kAllReduce,
                           Verb::kBroadcast, Verb::kBarrier};

struct Call {
  Verb verb = Verb::kBarrier;
  std::string name;
  std::int64_t elems = 4;
  DType dtype = DType::kFloat32;
  int root = 0;
  std::optional<DType> recv_dtype = {};  // of a reduce_scatter; none: the same
  Reduction reduction = {};
};

// One rank with buffers large enough for every call, and the stream of the case.
class Caller {
 public:
  Caller(World& world, bool on_worker)
      : world_(world),
        data_(world.device(), 8 * static_cast<std::size_t>(world.world_size()) * sizeof(float)),
        shard_(world.device(), 8 * sizeof(float)),
        worker_(on_worker ? world.device().create_stream("faults") : nullptr) {}
  ~Caller() { worker_.reset(); }  // before the buffers

  void issue(const Call& call) {
    Communicator& comm = world_.communicator();
    const OpTag tag{Purpose::kGradients, call.name};
    Stream& s = stream();
    switch (call.verb) {
      case Verb::kReduceScatter:
        return comm.reduce_scatter(data_.data(), call.dtype, shard_.data(),
                                   call.recv_dtype.value_or(call.dtype), call.elems, call.reduction,
                                   tag, s);
      case Verb::kAllGather:
        return comm.all_gather(shard_.data(), data_.data(), call.elems, call.dtype, tag, s);
      case Verb::kAllReduce:
        return comm.all_reduce(data_.data(), call.dtype, call.elems, call.reduction, tag, s);
      case Verb::kBroadcast:
        return comm.broadcast(data_.data(), call.elems, call.dtype, call.root, tag, s);
      case Verb::kBarrier:
        return comm.barrier(tag, s);
    }
  }
  void call(const Call& c) {
    issue(c);
    stream().synchronize();
  }
  void abort_group(const std::string& reason) { world_.communicator().abort(reason); }
  Stream& stream() { return worker_ != nullptr ? *worker_ : world_.device().caller_stream(); }

 private:
  World& world_;
  test::Room data_;
  test::Room shard_;
  std::unique_ptr<Stream> worker_;
};

class Faults : public ::testing::TestWithParam<std::tuple<Verb, int, bool>> {
 protected:
  Verb verb() const { return std::get<0>(GetParam()); }
  int world_size() const { return std::get<1>(GetParam()); }
  std::string verb_text() const { return std::string(verb_name(verb())); }
  Call usual(const std::string& name = "usual") const { return {verb(), name}; }

  // All make a first call; then the culprit does `wrong` while the others go on with "second" and
  // "third". Culprits are the first and the last rank.
  template <class Wrong, class Check>
  void each_culprit(Wrong wrong, Check check, double deadline_s = kDeadlineS) {
    for (const int culprit : {0, world_size() - 1}) {
      SCOPED_TRACE(::testing::Message() << "culprit " << culprit);
      const bool on_worker = std::get<2>(GetParam());
      const Outcome outcome = run_to_the_end(
          world_size(),
          [&](World& world) {
            Caller rank(world, on_worker);
            rank.call(usual("first"));
            // Only now: threads may take long to start on a machine that is busy.
            world.communicator().set_timeout(std::chrono::duration<double>(deadline_s));
            if (world.rank() == culprit) {
              wrong(rank);
            } else {
              rank.call(usual("second"));
              rank.call(usual("third"));
            }
          },
          60.0);
      check(outcome, culprit);
    }
  }
};

TEST_P(Faults, ARankThrows) {
  each_culprit([](Caller&) { throw Broken("the model broke"); },
               [&](const Outcome& outcome, int culprit) {
                 EXPECT_TRUE(is<Broken>(outcome.whole)) << message(outcome.whole);
                 expect_others_name(outcome, culprit,
                                    {rank_name(culprit), "the model broke", verb_text(), "second"});
               },
               60.0);
}

TEST_P(Faults, ARankReturnsEarly) {
  each_culprit(
      [](Caller&) {},
      [&](const Outcome& outcome, int culprit) {
        EXPECT_TRUE(is<CommError>(outcome.whole)) << message(outcome.whole);
        EXPECT_EQ(message(outcome.ranks[static_cast<std::size_t>(culprit)]), "(no error)");
        // What the late one did last, and what the others wait in.
        expect_others_name(outcome, culprit, {rank_name(culprit), verb_text(), "first", "second"});
        expect_names(message(outcome.whole), {rank_name(culprit), "first", "second"});
      },
      60.0);
}

TEST_P(Faults, ARankSkipsOne) {
  each_culprit([&](Caller& rank) { rank.call(usual("third")); },
               [&](const Outcome& outcome, int culprit) {
                 const int other = culprit == 0 ? 1 : 0;
                 expect_others_name(
                     outcome, -1,
                     {rank_name(culprit), rank_name(other), verb_text(), "second", "third"});
                 EXPECT_TRUE(is<CommError>(outcome.whole));
               },
               60.0);
}

TEST_P(Faults, ARankPassesSomethingElse) {
  const std::vector<std::pair<Call, std::string>> wrong_calls = [&] {
    std::vector<std::pair<Call, std::string>> calls;
    Call call = usual("another bucket");
    calls.push_back({call, "another bucket"});
    call = usual("second");
    call.verb = kVerbs[(static_cast<int>(verb()) + 1) % kVerbCount];
    calls.push_back({call, std::string(verb_name(call.verb))});
    if (verb() == Verb::kBarrier) return calls;
    call = usual("second");
    call.elems = 5;
    calls.push_back({call, "5 x fp32"});
    call = usual("second");
    call.dtype = DType::kBFloat16;
    calls.push_back({call, "4 x bf16"});
    call = usual("second");
    if (verb() == Verb::kBroadcast) {
      call.root = 1;
      calls.push_back({call, "from rank 1"});
    }
    if (verb() == Verb::kReduceScatter) {
      call.recv_dtype = DType::kBFloat16;
      calls.push_back({call, "4 x fp32 to bf16"});
      call.recv_dtype.reset();
    }
    if (verb() != Verb::kReduceScatter && verb() != Verb::kAllReduce) return calls;
    call.reduction = {.divisor = 100.0f};
    calls.push_back({call, "4 x fp32, divided by 100"});
    call.reduction = {.divisor = 1.0000001f};
    calls.push_back({call, "4 x fp32, divided by 1.0000001"});
    call.reduction = {.accumulate = true};
    calls.push_back({call, "4 x fp32, accumulated"});
    call.reduction = {.tree = true};
    calls.push_back({call, "4 x fp32, in tree order"});
    return calls;
  }();
  for (const auto& [wrong_call, text] : wrong_calls) {
    SCOPED_TRACE(text);
    each_culprit([&, &wrong = wrong_call](Caller& rank) { rank.call(wrong); },
                 [&, &shown = text](const Outcome& outcome, int culprit) {
                   const int other = culprit == 0 ? 1 : 0;
                   expect_others_name(
                       outcome, -1,
                       {rank_name(culprit), rank_name(other), verb_text(), shown, "second"});
                   EXPECT_TRUE(is<CommError>(outcome.whole));
                 },
                 60.0);
  }
}

TEST_P(Faults, ARankIsLate) {
  each_culprit(
      [&](Caller& rank) {
        wait_until_failed(world_size() - 1);
        rank.call(usual("second"));
      },
      [&](const Outcome& outcome, int culprit) {
        EXPECT_TRUE(is<CommError>(outcome.whole));
        expect_others_name(outcome, culprit,
                           {rank_name(culprit), verb_text(), "first", "second", "0.3 s"});
        // It hears of it as well.
        const std::exception_ptr& late = outcome.ranks[static_cast<std::size_t>(culprit)];
        EXPECT_TRUE(is<CommError>(late)) << message(late);
        expect_names(message(late), {rank_name(culprit), "0.3 s", "second"});
      });
}

// A rank that comes just in time is no error, nor is one that waits long between collectives.
TEST_P(Faults, LateButInTime) {
  each_culprit(
      [&](Caller& rank) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        rank.call(usual("second"));
        rank.call(usual("third"));
      },
      [](const Outcome& outcome, int) {
        EXPECT_EQ(outcome.whole, nullptr) << message(outcome.whole);
      },
      60.0);
}

TEST_P(Faults, AbortEndsEveryWait) {
  each_culprit(
      [&](Caller& rank) {
        rank.abort_group("the operator pulled the plug");
        rank.call(usual("second"));
      },
      [&](const Outcome& outcome, int) {
        expect_others_name(outcome, -1, {"the operator pulled the plug", verb_text(), "second"});
      },
      60.0);
}

// After an error nothing works any more, and nothing hangs.
TEST_P(Faults, TheCommunicatorIsUnusableAfterwards) {
  std::vector<int> refused(static_cast<std::size_t>(world_size()), 0);
  run_to_the_end(
      world_size(),
      [&](World& world) {
        Caller rank(world, std::get<2>(GetParam()));
        rank.call(usual("first"));
        int& count = refused[static_cast<std::size_t>(world.rank())];
        for (int i = 0; i < 3; ++i) {
          try {
            rank.call(usual(i == 0 ? "from " + rank_name(world.rank()) : "again"));
          } catch (const CommError&) {
            ++count;
          }
        }
      },
      60.0);
  EXPECT_EQ(refused, std::vector<int>(refused.size(), 3));
}

INSTANTIATE_TEST_SUITE_P(Threads, Faults,
                         ::testing::Combine(::testing::ValuesIn(kVerbs), ::testing::Values(2, 3, 8),
                                            ::testing::Bool()),
                         [](const auto& the_case) {
                           return std::string(verb_name(std::get<0>(the_case.param))) + "_" +
                                  std::to_string(std::get<1>(the_case.param)) +
                                  (std::get<2>(the_case.param) ? "_worker" : "_caller");
                         });

// With one rank there is nobody to wait for, but abort and errors hold.
TEST(FaultsAlone, OneRankThrows) {
  const Outcome outcome = run_to_the_end(1, [](World&) { throw Broken("alone"); });
  EXPECT_TRUE(is<Broken>(outcome.whole));
}

TEST(FaultsAlone, OneRankAborts) {
  const Outcome outcome = run_to_the_end(1, [](World& world) {
    Caller rank(world, false);
    rank.call({Verb::kBarrier, "fine"});
    world.communicator().abort("enough");
    rank.call({Verb::kBarrier, "refused"});
  });
  EXPECT_TRUE(is<CommError>(outcome.whole));
  expect_names(message(outcome.whole), {"enough", "refused"});
}

TEST(FaultsAlone, WhatIsThrownNeedNotBeAnException) {
  const Outcome outcome = run_to_the_end(3, [](World& world) {
    if (world.rank() == 1) throw 42;
    Caller(world, false).call({Verb::kBarrier, "others"});
  });
  EXPECT_TRUE(is<int>(outcome.whole));
  expect_others_name(outcome, 1, {"rank 1", "others"});
}

// A rank may end as soon as its last collective is over, while slower ones are still on their way
// out of it: that is no error.
TEST(FaultsAlone, EndingAfterTheLastCollectiveIsFine) {
  for (int round = 0; round < 200; ++round) {
    const Outcome outcome = run_to_the_end(
        4,
        [](World& world) {
          Caller(world, false).call({Verb::kAllReduce, "last"});
        },
        60.0);
    ASSERT_EQ(outcome.whole, nullptr) << message(outcome.whole);
  }
}

TEST(FaultsAlone, TheDeadlineOfTheRunHolds) {
  const Outcome outcome = run_to_the_end(2, [](World& world) {
    if (world.rank() == 1) wait_until_failed(1);
    Caller(world, false).call({Verb::kBarrier, "short"});
  });
  EXPECT_TRUE(is<CommError>(outcome.whole));
  expect_names(message(outcome.whole), {"rank 1", "0.3 s", "short", "none yet"});
}

TEST(FaultsAlone, SetTimeoutHoldsFromNowOn) {
  const Outcome outcome = run_to_the_end(
      2,
      [](World& world) {
        if (world.rank() == 1) {
          wait_until_failed(1);
          return;
        }
        world.communicator().set_timeout(std::chrono::duration<double>(0.1));
        Caller(world, false).call({Verb::kBarrier, "impatient"});
      },
      600.0);
  EXPECT_TRUE(is<CommError>(outcome.whole));
  expect_names(message(outcome.whole), {"rank 1", "0.1 s", "impatient", "none yet"});
}

// Has anyone written near `address` yet? Asks the system, so it is no race with the writer.
bool is_resident(const void* address) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t start = reinterpret_cast<std::uintptr_t>(address) / page * page;
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(start), page, &resident) == 0 && (resident & 1) != 0;
}

// The memory of a collective is in use until its call has ended, also when it ends with an error:
// who unwinds frees it. The root has nothing to do in a broadcast and waits for the reader. An
// abort comes when the reader has copied an eighth; the rest must not be what the root writes to
// its memory once its own call has ended. Of the host: it asks which pages have been written.
TEST(FaultsAlone, NobodyReadsTheMemoryOfARankThatHasGivenUp) {
  constexpr std::int64_t kElems = 16 << 20;
  const std::unique_ptr<float[]> memory[] = {
      std::unique_ptr<float[]>(new float[kElems]),
      std::unique_ptr<float[]>(new float[kElems])};  // not touched yet
  run_to_the_end(
      2,
      [&](World& world) {
        float* const data = memory[world.rank()].get();
        float* const half = data + kElems / 2;
        float* const end = data + kElems;
        if (world.rank() == 0) std::fill(data, end, 1.0f);
        const auto stream = world.device().create_stream("comm");
        world.communicator().broadcast(data, kElems, DType::kFloat32, 0, {Purpose::kParams, "b"},
                                       *stream);
        if (world.rank() == 1) {
          while (!is_resident(data + kElems / 8)) std::this_thread::yield();
          world.communicator().abort("enough");
        }
        try {
          stream->synchronize();
        } catch (const CommError&) {  // or the abort came too late, on a machine that is busy
        }
        if (world.rank() == 0) {
          std::fill(half, end, -1.0f);  // as if freed and used by others
        } else {
          EXPECT_EQ(std::count(half, end, -1.0f), 0);
        }
      },
      60.0);
}

}  // namespace
}  // namespace zero::faults
