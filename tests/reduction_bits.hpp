// What tests of single communicators share beside the contract: the bits of reductions of every
// kind, to compare communicators that make the sums themselves, and what a call ends with.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/communicator_contract.hpp"
#include "zero/error.hpp"

namespace zero::contract {

// What a call of a communicator is refused with, or fails with.
template <class Body>
std::string error_of(Body body) {
  try {
    body();
  } catch (const CommError& error) {
    return error.what();
  } catch (const UsageError& error) {
    return std::string("UsageError: ") + error.what();
  }
  return "no error";
}

// Everything that a rank has after reductions of every kind.
using Bits = std::vector<float>;
inline std::vector<Bits> reduce_all(World& world) {
  const int size = world.world_size();
  const bool trees = (size & (size - 1)) == 0;
  Rank r(world, false);
  std::vector<Bits> all;
  for (const DType dtype : kDTypes) {
    for (const std::int64_t elems : {0, 1, 7, 1001}) {
      for (const bool tree : {false, true}) {
        if (tree && !trees) continue;
        Cells send(r.device, elems * size, dtype);
        const auto value = [&](std::int64_t i) { return awkward(r.rank, i); };
        send.fill(value);
        for (const DType recv_dtype : kDTypes) {
          for (const bool accumulate : {false, true}) {
            Cells recv(r.device, elems, recv_dtype);
            recv.fill(value);
            r.comm.reduce_scatter(send.data(), dtype, recv.data(), recv_dtype, elems,
                                  {3.0f, accumulate, tree}, {Purpose::kGradients, "g"}, r.stream);
            r.stream.synchronize();
            all.push_back(recv.values());
          }
        }
        r.comm.all_reduce(send.data(), dtype, elems, {7.0f, false, tree}, {Purpose::kControl, "a"},
                          r.stream);
        r.stream.synchronize();
        all.push_back(send.values());
      }
    }
  }
  return all;
}

inline void expect_same(const std::vector<Bits>& expected, const std::vector<Bits>& found,
                        int rank) {
  ASSERT_EQ(expected.size(), found.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Bits& a = expected[i];
    const Bits& b = found[i];
    ASSERT_EQ(a.size(), b.size());
    EXPECT_TRUE(a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0)
        << "reduction " << i << " of rank " << rank;
  }
}

}  // namespace zero::contract
