// Worlds of NCCL for tests: ranks are threads of one process, each with its own communicator. Real
// NCCL takes that too, with a GPU for each.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda_fixtures.hpp"
#include "zero/nccl.hpp"

namespace zero::test {

// Runs the body once per rank with a workspace of so many bytes; rethrows the first error.
inline void run_nccl_ranks(int world_size, const NcclOptions& options, std::int64_t workspace_bytes,
                           const std::function<void(World&)>& body) {
  const NcclId id = make_nccl_id();
  const int devices = std::max(1, cuda_device_count());  // without any, the first call says so
  std::mutex mutex;
  std::exception_ptr first;
  const auto run = [&](int rank) {
    try {
      World world = make_nccl_world(id, rank, world_size, rank % devices, options);
      const OnDevice<unsigned char> workspace(
          world.device(), std::vector<unsigned char>(static_cast<std::size_t>(workspace_bytes)));
      world.communicator().use_workspace(workspace.data(), workspace_bytes);
      body(world);
      world.device().caller_stream().synchronize();
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (first == nullptr) first = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 1; rank < world_size; ++rank) threads.emplace_back(run, rank);
  run(0);
  for (std::thread& thread : threads) thread.join();
  if (first != nullptr) std::rethrow_exception(first);
}

// Why there can be no such world here; empty: there can.
inline std::string nccl_refusal(int world_size) {
  try {
    run_nccl_ranks(world_size, {std::chrono::seconds(60)}, 0, [](World&) {});
  } catch (const CudaError& error) {
    return error.what();
  } catch (const CommError& error) {
    const std::string text = error.what();
    for (const char* known : {"without NCCL", "Duplicate GPU"}) {
      if (text.find(known) != text.npos) return text;
    }
    throw;
  }
  return {};
}

// The same, and the test is skipped where there can be no such world.
inline void run_nccl(int world_size, const std::function<void(World&)>& body,
                     const NcclOptions& options = {std::chrono::seconds(60)},
                     std::int64_t workspace_bytes = std::int64_t{1} << 20) {
  try {
    const std::string why = nccl_refusal(world_size);
    if (!why.empty()) GTEST_SKIP() << why;
  } catch (const std::exception& error) {
    FAIL() << error.what();
  }
  run_nccl_ranks(world_size, options, workspace_bytes, body);
}

}  // namespace zero::test
