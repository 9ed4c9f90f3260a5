// save() and load() of an optimizer whose file system fails at any call of any rank: every rank
// ends with an error that names the one that failed, and what it failed at; the checkpoint before
// is there with all its bits; and training goes on, if it can.
#include <deque>
#include <regex>

#include "tests/checkpoint_trainer.hpp"
#include "tests/faulty_file_system.hpp"
#include "tests/memory_file_system.hpp"

namespace zero::faults {
namespace {

using Fault = FaultyFileSystem::Fault;
using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

class DiskFaults : public CheckpointFaults {
 protected:
  // What ranks came to, one after the other or at once.
  class Ends {
   public:
    explicit Ends(int ranks) : errors_(static_cast<std::size_t>(ranks)) {}
    // The message of the CheckpointError of `call`; empty: there was none.
    template <class Call>
    std::string of(int rank, const Call& call) {
      std::string& error = errors_[static_cast<std::size_t>(rank)];
      try {
        call();
      } catch (const CheckpointError& e) {
        error = e.what();
      }
      return error;
    }
    // All ranks are told the same: of the rank and, where one call fails, of that. A save may find
    // no fault in what it cannot read of an older checkpoint: that does not count among those kept.
    void expect(int culprit, Fault fault, const FaultyFileSystem& files, bool is_save) const {
      static const std::regex kInsideAnOlderOne("(look at|open|read) /run/step-[0-9]+/.*");
      if (is_save && std::regex_match(files.failed(), kInsideAnOlderOne)) return;
      for (const std::string& error : errors_) {
        EXPECT_EQ(error, errors_[0]);
        if (fault != Fault::kError && error.empty()) continue;  // it needed no space any more
        EXPECT_EQ(error.empty(), files.failed().empty());
        if (error.empty()) continue;
        EXPECT_THAT(error, HasSubstr(rank_name(culprit)));
        EXPECT_THAT(error, HasSubstr(fault == Fault::kError ? files.failed() : "No space left"));
      }
    }

   private:
    std::vector<std::string> errors_;
  };

  // For every call of every rank: `body` on all ranks with a disk, the file systems of the ranks,
  // of which that of the culprit fails at call k of what comes after arm(), and what they end with.
  struct Case {
    MemoryFileSystem disk;
    std::deque<FaultyFileSystem> files;
    Ends ends;
    int culprit = 0, k = 0;
    Fault fault = Fault::kError;
    FaultyFileSystem& of(int rank) { return files[static_cast<std::size_t>(rank)]; }
    void arm(int rank) {
      if (rank == culprit) of(rank).arm(fault, k);
    }
    void disarm(int rank) { of(rank).arm(Fault::kNone, 0); }
  };
  template <class Body>
  void for_every_call(Fault fault, bool is_save, const Body& body) {
    for (const int culprit : {0, ranks() - 1}) {
      int fired = 0;
      for (int k = 0;; ++k) {
        SCOPED_TRACE(detail::concat("rank ", culprit, ", call ", k));
        Case on{.disk = {},
                .files = {},
                .ends = Ends(ranks()),
                .culprit = culprit,
                .k = k,
                .fault = fault};
        for (int rank = 0; rank < ranks(); ++rank) on.files.emplace_back(on.disk);
        const Outcome outcome = run([&](World& world) { body(world, on); });
        EXPECT_EQ(outcome.whole, nullptr) << message(outcome.whole);
        on.ends.expect(culprit, fault, on.of(culprit), is_save);
        if (HasFailure()) return;
        if (on.of(culprit).failed().empty()) break;
        ++fired;
      }
      EXPECT_GE(fired, 4);
    }
  }
  template <class Body>
  void for_every_call_of_a_save(const Body& body) {
    for_every_call(Fault::kError, true, body);
    if (HasFailure() || ranks() > 2) return;  // much the same
    for_every_call(Fault::kNoSpace, true, body);
  }
};

TEST_P(DiskFaults, SavesMayFailAtAnyCallOfAnyRank) {
  for_every_call_of_a_save([&](World& world, Case& on) {
    const int rank = world.rank();
    FaultyFileSystem& files = on.of(rank);
    Trainer trainer(world, stage(), kLongS);
    const auto save = [&](int step) {
      trainer.optimizer.save(kRoot, step, {.keep = 1, .file_system = &files});
    };
    trainer.step();
    save(1);
    trainer.step();
    on.arm(rank);
    const std::string error = on.ends.of(rank, [&] { save(2); });
    on.disarm(rank);
    if (rank == 0) {
      EXPECT_THAT(saved_step(on.disk), AllOf(Ge(error.empty() ? 2 : 1), Le(2)));
    }
    // Training goes on, and the next save is as any other.
    trainer.step();
    save(3);
    EXPECT_EQ(trainer.state(), after(3));
    expect_tidy(world, on.disk, 3);
  });
}

// An error is told by what comes next: wait_for_save(), or another save, which then is not begun.
TEST_P(DiskFaults, SavesBesideTheTrainingMayFailAtAnyCallOfAnyRank) {
  const bool waits = ranks() > 2;
  for_every_call_of_a_save([&](World& world, Case& on) {
    const int rank = world.rank();
    FaultyFileSystem& files = on.of(rank);
    Trainer trainer(world, stage(), kLongS);
    const auto save = [&](int step) {
      trainer.optimizer.save(kRoot, step, {.keep = 2, .async = true, .file_system = &files});
    };
    trainer.step();
    save(1);
    trainer.optimizer.wait_for_save();
    trainer.step();
    on.arm(rank);
    const std::string error = on.ends.of(rank, [&] {
      save(2);
      trainer.step();
      if (waits) return trainer.optimizer.wait_for_save();
      // How often rank 0 looks is not the same each time, so that the call may be in this one.
      save(3);
      trainer.optimizer.wait_for_save();
    });
    on.disarm(rank);
    if (rank == 0) {
      const std::int64_t last = waits ? 2 : 3;
      EXPECT_THAT(saved_step(on.disk), AllOf(Ge(error.empty() ? last : 1), Le(last)));
    }
    while (trainer.optimizer.applied_steps() < 4) trainer.step();
    save(4);
    trainer.optimizer.wait_for_save();
    trainer.optimizer.wait_for_save();  // nothing is left to tell
    EXPECT_EQ(trainer.state(), after(4));
    expect_tidy(world, on.disk, 4);
  });
}

// A load that fails before anything has changed leaves the optimizer as it was; later it is of no
// more use, on any rank, and says so.
TEST_P(DiskFaults, LoadsMayFailAtAnyCallOfAnyRank) {
  for_every_call(Fault::kError, false, [&](World& world, Case& on) {
    const int rank = world.rank();
    Trainer trainer(world, stage(), kLongS);
    trainer.step();
    trainer.optimizer.save(kRoot, 1, {.file_system = &on.disk});
    trainer.step();
    on.arm(rank);
    const std::string error =
        on.ends.of(rank, [&] { trainer.optimizer.load(kRoot, {.file_system = &on.of(rank)}); });
    on.disarm(rank);
    bool broken = false;
    try {
      trainer.step();
    } catch (const UsageError& e) {
      broken = true;
      EXPECT_THAT(e.what(), HasSubstr("ended half-way"));
    }
    if (!broken) {
      EXPECT_EQ(trainer.state(), after(error.empty() ? 2 : 3));
    }
    EXPECT_FALSE(broken && error.empty());
    if (rank == 0) {
      EXPECT_EQ(saved_step(on.disk), 1);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Some, DiskFaults, testing::Values(Where{2, 3}, Where{3, 1}), name_of);

}  // namespace
}  // namespace zero::faults
