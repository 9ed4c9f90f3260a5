// What every communicator has to do. A backend joins by a file of a few lines:
//
//   INSTANTIATE_TEST_SUITE_P(Mpi, CommunicatorContract, contract_cases({"mpi", run, {2, 3}}),
//                            contract_case_name);
//
// Inputs are small integers times a power of two, so sums are exact in every dtype and compared bit
// for bit. Nothing is shared between the ranks but the communicator: they may be processes. Data is
// in the memory of the world's device.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "tests/cells.hpp"
#include "zero/communicator.hpp"
#include "zero/device.hpp"
#include "zero/error.hpp"
#include "zero/world.hpp"

namespace zero::contract {

struct Backend {
  std::string name;
  // Runs the body once per rank; throws what a rank threw.
  std::function<void(int world_size, const std::function<void(World&)>& body)> run;
  std::vector<int> world_sizes;
};

struct Case {
  Backend backend;
  int world_size = 1;
  bool on_worker = false;  // on a stream of its own, else on the caller stream
  friend void PrintTo(const Case& c, std::ostream* out) {
    *out << c.backend.name << " x " << c.world_size << (c.on_worker ? ", worker" : ", caller");
  }
};

inline auto contract_cases(const Backend& backend) {
  std::vector<Case> cases;
  for (const int world_size : backend.world_sizes) {
    for (const bool on_worker : {false, true}) cases.push_back({backend, world_size, on_worker});
  }
  return ::testing::ValuesIn(cases);
}

inline std::string contract_case_name(const ::testing::TestParamInfo<Case>& info) {
  return info.param.backend.name + "_" + std::to_string(info.param.world_size) +
         (info.param.on_worker ? "_worker" : "_caller");
}

inline constexpr std::int64_t kShardSizes[] = {0, 1, 7, 8, 9, 1000};
inline constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};

// Quarters in [-1, 1]: sums over up to 9 ranks are exact in every dtype.
inline float quarter(int rank, std::int64_t i, int salt = 0) {
  return static_cast<float>((rank * 5 + i * 7 + salt * 3) % 9 - 4) * 0.25f;
}

// Awkward fp32 numbers whose sum depends on the order.
inline float awkward(int rank, std::int64_t i) {
  constexpr float kSwallowed[] = {0x1p24f, 1.0f, 1.0f, -0x1p24f};
  if (i % 2 == 0) return kSwallowed[(rank + i / 2) % 4];
  std::uint32_t bits = static_cast<std::uint32_t>(rank * 7919 + i) * 2654435761u + 12345u;
  bits ^= bits >> 15;
  return std::ldexp(static_cast<float>(bits % 20011) - 10005.0f, static_cast<int>(bits % 25) - 12);
}

inline float sum_in_rank_order(int world_size, std::int64_t i) {
  float sum = awkward(0, i);
  for (int rank = 1; rank < world_size; ++rank) sum += awkward(rank, i);
  return sum;
}

// Sum of ranks [first, first + count) by halves; count a power of two.
inline float sum_by_tree(int first, int count, std::int64_t i) {
  if (count == 1) return awkward(first, i);
  return sum_by_tree(first, count / 2, i) + sum_by_tree(first + count / 2, count / 2, i);
}

// One rank of a test: its communicator, and the stream the case asks for.
struct Rank {
  Rank(World& the_world, bool on_worker)
      : world(the_world),
        device(the_world.device()),
        comm(the_world.communicator()),
        rank(the_world.rank()),
        size(the_world.world_size()),
        worker(on_worker ? the_world.device().create_stream("contract") : nullptr),
        stream(worker != nullptr ? *worker : the_world.device().caller_stream()) {}
  World& world;
  Device& device;
  Communicator& comm;
  int rank;
  int size;
  std::unique_ptr<Stream> worker;
  Stream& stream;
};

class CommunicatorContract : public ::testing::TestWithParam<Case> {
 protected:
  int world_size() const { return GetParam().world_size; }
  bool is_power_of_two() const { return (world_size() & (world_size() - 1)) == 0; }
  void run(const std::function<void(Rank&)>& body) {
    const bool on_worker = GetParam().on_worker;
    GetParam().backend.run(world_size(), [&](World& world) {
      Rank rank(world, on_worker);
      body(rank);
    });
  }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CommunicatorContract);

TEST_P(CommunicatorContract, KnowsItsPlace) {
  run([&](Rank& r) {
    EXPECT_EQ(r.size, world_size());
    EXPECT_GE(r.rank, 0);
    EXPECT_LT(r.rank, r.size);
  });
}

TEST_P(CommunicatorContract, AllGather) {
  run([](Rank& r) {
    for (const DType dtype : kDTypes) {
      for (const std::int64_t elems : kShardSizes) {
        for (const bool in_place : {false, true}) {
          SCOPED_TRACE(::testing::Message() << dtype_name(dtype) << " x " << elems << ", in place "
                                            << in_place << ", rank " << r.rank);
          Cells send(r.device, elems, dtype);
          Cells recv(r.device, elems * r.size, dtype);
          const auto mine = [&](std::int64_t i) { return quarter(r.rank, i); };
          send.fill(mine);
          if (in_place) {
            for (std::int64_t i = 0; i < elems; ++i) recv.set(r.rank * elems + i, mine(i));
          }
          const void* source = in_place ? recv.at(r.rank * elems) : send.data();
          r.comm.all_gather(source, recv.data(), elems, dtype, {Purpose::kParams, "p"}, r.stream);
          r.stream.synchronize();
          EXPECT_EQ(recv.mismatch([&](std::int64_t i) {
            return quarter(static_cast<int>(i / elems), i % elems);
          }),
                    -1);
          EXPECT_EQ(send.mismatch(mine), -1) << "the source was changed";
        }
      }
    }
  });
}

TEST_P(CommunicatorContract, Broadcast) {
  run([](Rank& r) {
    for (const DType dtype : kDTypes) {
      for (const std::int64_t elems : kShardSizes) {
        for (int root = 0; root < r.size; ++root) {
          Cells data(r.device, elems, dtype);
          if (r.rank == root) data.fill([&](std::int64_t i) { return quarter(root, i); });
          r.comm.broadcast(data.data(), elems, dtype, root, {Purpose::kParams, "b"}, r.stream);
          r.stream.synchronize();
          EXPECT_EQ(data.mismatch([&](std::int64_t i) { return quarter(root, i); }), -1)
              << dtype_name(dtype) << " x " << elems << " from " << root << " at " << r.rank;
        }
      }
    }
  });
}

// Refused before anything is enqueued, so the communicator goes on working.
TEST_P(CommunicatorContract, RefusesARootThatIsNoRank) {
  run([](Rank& r) {
    for (const int root : {-1, r.size, 1 << 30}) {
      float data = 1.0f;
      try {
        r.comm.broadcast(&data, 1, DType::kFloat32, root, {Purpose::kParams, "weights"}, r.stream);
        ADD_FAILURE() << "accepted root " << root;
      } catch (const UsageError& error) {
        const std::string text = error.what();
        for (const std::string& part :
             {std::string("weights"), std::to_string(root), "0 to " + std::to_string(r.size - 1)}) {
          EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
        }
      }
    }
    r.comm.barrier({Purpose::kControl, "still working"}, r.stream);
    r.stream.synchronize();
  });
}

TEST_P(CommunicatorContract, ReduceScatter) {
  run([](Rank& r) {
    for (const DType send_dtype : kDTypes) {
      for (const DType recv_dtype : kDTypes) {
        for (const std::int64_t elems : kShardSizes) {
          for (const int how : {0, 1, 2}) {  // replace, accumulate, in place
            const bool in_place = how == 2;
            if (in_place && send_dtype != recv_dtype) continue;
            SCOPED_TRACE(::testing::Message()
                         << dtype_name(send_dtype) << " to " << dtype_name(recv_dtype) << " x "
                         << elems << ", variant " << how << ", rank " << r.rank);
            Cells send(r.device, elems * r.size, send_dtype);
            Cells recv(r.device, elems, recv_dtype);
            send.fill([&](std::int64_t i) { return quarter(r.rank, i); });
            const auto before = [&](std::int64_t i) { return 0.5f * quarter(r.rank, i, 1); };
            if (how == 1) recv.fill(before);
            const std::int64_t first = r.rank * elems;
            const Reduction reduction{2.0f, how == 1, false};
            r.comm.reduce_scatter(send.data(), send_dtype, in_place ? send.at(first) : recv.data(),
                                  recv_dtype, elems, reduction, {Purpose::kGradients, "g"},
                                  r.stream);
            r.stream.synchronize();
            const auto expected = [&](std::int64_t i) {
              float sum = 0.0f;
              for (int rank = 0; rank < r.size; ++rank) sum += quarter(rank, first + i);
              return (how == 1 ? before(i) : 0.0f) + sum * 0.5f;
            };
            const auto sent = [&](std::int64_t i) { return quarter(r.rank, i); };
            if (in_place) {
              EXPECT_EQ(send.mismatch(first, first + elems,
                                      [&](std::int64_t i) { return expected(i - first); }),
                        -1);
            } else {
              EXPECT_EQ(recv.mismatch(expected), -1);
              EXPECT_EQ(send.mismatch(first, first + elems, sent), -1) << "own shard changed";
            }
            EXPECT_EQ(send.mismatch(0, first, sent), -1) << "the source was changed";
            EXPECT_EQ(send.mismatch(first + elems, elems * r.size, sent), -1)
                << "the source was changed";
          }
        }
      }
    }
  });
}

TEST_P(CommunicatorContract, AllReduce) {
  run([](Rank& r) {
    for (const DType dtype : kDTypes) {
      for (const std::int64_t elems : kShardSizes) {
        Cells data(r.device, elems * r.size, dtype);
        data.fill([&](std::int64_t i) { return quarter(r.rank, i); });
        r.comm.all_reduce(data.data(), dtype, elems, {4.0f, false, false}, {Purpose::kControl, "r"},
                          r.stream);
        r.stream.synchronize();
        EXPECT_EQ(data.mismatch([&](std::int64_t i) {
          float sum = 0.0f;
          for (int rank = 0; rank < r.size; ++rank) sum += quarter(rank, i);
          return sum * 0.25f;
        }),
                  -1)
            << dtype_name(dtype) << " x " << elems << " at rank " << r.rank;
      }
    }
  });
}

// The sum is divided, not multiplied by an inverse, and rounded once.
TEST_P(CommunicatorContract, DividesAndRoundsOnce) {
  run([](Rank& r) {
    constexpr std::int64_t kElems = 33;
    for (const DType dtype : kDTypes) {
      Cells send(r.device, kElems * r.size, DType::kFloat32);
      Cells recv(r.device, kElems, dtype);
      send.fill([&](std::int64_t i) { return static_cast<float>((r.rank + 1) * (i + 1)); });
      r.comm.reduce_scatter(send.data(), DType::kFloat32, recv.data(), dtype, kElems,
                            {3.0f, false, false}, {Purpose::kGradients, "thirds"}, r.stream);
      r.stream.synchronize();
      EXPECT_EQ(recv.mismatch([&](std::int64_t i) {
        const auto ranks = static_cast<float>(r.size * (r.size + 1) / 2);
        const float mean = ranks * static_cast<float>(r.rank * kElems + i + 1) / 3.0f;
        return with_dtype(dtype,
                          [&](auto tag) { return to_float(from_float<decltype(tag)>(mean)); });
      }),
                -1)
          << dtype_name(dtype);
    }
  });
}

TEST_P(CommunicatorContract, SumsInRankOrder) {
  run([&](Rank& r) {
    constexpr std::int64_t kElems = 1001;
    for (const bool tree : {false, true}) {
      if (tree && !is_power_of_two()) continue;
      const auto expected = [&](std::int64_t i) {
        return tree ? sum_by_tree(0, r.size, i) : sum_in_rank_order(r.size, i);
      };
      Cells send(r.device, kElems * r.size, DType::kFloat32);
      Cells recv(r.device, kElems, DType::kFloat32);
      send.fill([&](std::int64_t i) { return awkward(r.rank, i); });
      r.comm.reduce_scatter(send.data(), DType::kFloat32, recv.data(), DType::kFloat32, kElems,
                            {1.0f, false, tree}, {Purpose::kGradients, "order"}, r.stream);
      r.stream.synchronize();
      const std::int64_t first = r.rank * kElems;
      EXPECT_EQ(recv.mismatch([&](std::int64_t i) { return expected(first + i); }), -1)
          << "reduce_scatter, tree " << tree << ", rank " << r.rank;
      r.comm.all_reduce(send.data(), DType::kFloat32, kElems, {1.0f, false, tree},
                        {Purpose::kGradients, "order"}, r.stream);
      r.stream.synchronize();
      EXPECT_EQ(send.mismatch(expected), -1) << "all_reduce, tree " << tree << ", rank " << r.rank;
    }
  });
}

// The order is decided by what is enqueued, whatever runs when: each operation takes the result of
// the one before, and no one waits in between.
TEST_P(CommunicatorContract, ManySmallOperationsBackToBack) {
  const int rounds = world_size() == 4 ? 500 : 20;  // of four operations
  run([&](Rank& r) {
    constexpr std::int64_t kElems = 5;
    Cells whole(r.device, kElems * r.size, DType::kFloat32);
    Cells shard(r.device, kElems, DType::kFloat32);
    const auto value = [&](std::int64_t i) { return quarter(static_cast<int>(i / kElems), i); };
    whole.fill(value);
    for (int round = 0; round < rounds; ++round) {
      const OpTag tag{Purpose::kGradients, "round " + std::to_string(round)};
      const auto size = static_cast<float>(r.size);
      r.comm.reduce_scatter(whole.data(), DType::kFloat32, shard.data(), DType::kFloat32, kElems,
                            {size, false, false}, tag, r.stream);
      r.comm.broadcast(whole.data(), kElems, DType::kFloat32, round % r.size, tag, r.stream);
      r.comm.all_gather(shard.data(), whole.data(), kElems, DType::kFloat32, tag, r.stream);
      r.comm.all_reduce(whole.data(), DType::kFloat32, kElems, {size, false, false}, tag, r.stream);
    }
    r.comm.barrier({Purpose::kControl, "end"}, r.stream);
    r.stream.synchronize();
    // The mean of equal values is the value: N of them sum and divide exactly.
    EXPECT_EQ(whole.mismatch(value), -1) << "rank " << r.rank;
  });
}

}  // namespace zero::contract
