// What the fault tests share: running ranks that go wrong on the test's device, with a deadline of
// the test's own.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/device_access.hpp"
#include "zero/communicator.hpp"
#include "zero/error.hpp"
#include "zero/world.hpp"

namespace zero::faults {

// What a rank does wrong by throwing; no error of the library.
class Broken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline constexpr double kDeadlineS = 0.3;
// Until everyone has ended: several waits one after the other, on a machine that is busy.
inline constexpr double kSlackS = 30.0;

// How a run ended: the error of each rank (null: none) and that of run_ranks.
struct Outcome {
  std::vector<std::exception_ptr> ranks;
  std::exception_ptr whole;
  double seconds = 0;
};

inline std::string message(const std::exception_ptr& error) {
  if (error == nullptr) return "(no error)";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "(not a std::exception)";
  }
}

template <class E>
bool is(const std::exception_ptr& error) {
  if (error == nullptr) return false;
  try {
    std::rethrow_exception(error);
  } catch (const E&) {
    return true;
  } catch (...) {
    return false;
  }
}

// Ranks that have ended with an error in the run under way.
inline std::atomic<int>& failed_ranks() {
  static std::atomic<int> count{0};
  return count;
}

// Blocks a rank until so many others have given up: late for sure, however busy the machine is.
inline void wait_until_failed(int ranks) {
  for (int i = 0; failed_ranks() < ranks && i < static_cast<int>(kSlackS * 1000); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

inline Outcome run_to_the_end(int world_size, const std::function<void(World&)>& body,
                              double deadline_s = kDeadlineS) {
  Outcome outcome;
  outcome.ranks.resize(static_cast<std::size_t>(world_size));
  failed_ranks() = 0;
  const auto start = std::chrono::steady_clock::now();
  try {
    test::run_on_device(
        world_size,
        [&](World& world) {
          try {
            body(world);
          } catch (...) {
            outcome.ranks[static_cast<std::size_t>(world.rank())] = std::current_exception();
            ++failed_ranks();
            throw;
          }
        },
        std::chrono::duration<double>(deadline_s));
  } catch (...) {
    outcome.whole = std::current_exception();
  }
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LT(outcome.seconds, kSlackS);
  return outcome;
}

inline void expect_names(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" is not in: " << text;
  }
}

// Every rank but `culprit` ended with a CommError whose message has the parts.
inline void expect_others_name(const Outcome& outcome, int culprit,
                               const std::vector<std::string>& parts) {
  for (std::size_t rank = 0; rank < outcome.ranks.size(); ++rank) {
    if (static_cast<int>(rank) == culprit) continue;
    SCOPED_TRACE(::testing::Message() << "the error of rank " << rank);
    EXPECT_TRUE(is<CommError>(outcome.ranks[rank])) << message(outcome.ranks[rank]);
    expect_names(message(outcome.ranks[rank]), parts);
  }
}

inline std::string rank_name(int rank) { return "rank " + std::to_string(rank); }

}  // namespace zero::faults
