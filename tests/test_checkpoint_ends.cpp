// Checkpoints of an optimizer whose communicator fails, and of one that ends while a save is under
// way.
#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "tests/checkpoint_trainer.hpp"
#include "tests/failing_communicator.hpp"
#include "tests/faulty_file_system.hpp"
#include "tests/memory_file_system.hpp"

namespace zero::faults {
namespace {

using Fault = FaultyFileSystem::Fault;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class SaveEnds : public CheckpointFaults {};

// At a call of the communicator that fails, this optimizer is through; what is on the disk is not.
TEST_P(SaveEnds, AnyCallOfTheCommunicatorMayFail) {
  const auto save = [](Trainer& trainer, FileSystem& disk, bool beside) {
    trainer.optimizer.save(kRoot, 2, {.async = beside, .file_system = &disk});
    trainer.optimizer.wait_for_save();
  };
  const std::function<void(Trainer&, FileSystem&)> kDeeds[] = {
      [&](Trainer& trainer, FileSystem& disk) { save(trainer, disk, false); },
      [&](Trainer& trainer, FileSystem& disk) { save(trainer, disk, true); },
      [](Trainer& trainer, FileSystem& disk) {
        trainer.optimizer.load(kRoot, {.file_system = &disk});
      }};
  const auto try_deed = [&](const auto& deed, int fail_at, bool on_stream) {
    const int culprit = fail_at % ranks();
    std::pair<int, int> calls;  // before the deed, and after it
    MemoryFileSystem disk;
    const Outcome outcome = run([&](World& outer) {
      const bool fails = outer.rank() == std::max(culprit, 0);
      auto wrapped = std::make_unique<FailingCommunicator>(outer.communicator(),
                                                           fails ? fail_at : -1, on_stream);
      const FailingCommunicator& counter = *wrapped;
      World world(make_host_device(), std::move(wrapped));
      Trainer trainer(world, stage(), kLongS);
      trainer.step();
      trainer.optimizer.save(kRoot, 1, {.file_system = &disk});
      trainer.step();
      if (fails) calls.first = counter.calls();
      deed(trainer, disk);
      if (fails) calls.second = counter.calls();
    });
    if (fail_at < 0) {
      EXPECT_EQ(outcome.whole, nullptr) << message(outcome.whole);
      return calls;
    }
    EXPECT_TRUE(is<Broken>(outcome.whole)) << message(outcome.whole);
    expect_others_name(outcome, culprit, {rank_name(culprit)});
    const Outcome later = run([&](World& world) {
      EXPECT_THAT(loaded_step(world, disk), AnyOf(1, 2));
      Trainer trainer(world, stage(), kLongS);
      trainer.optimizer.load(kRoot, {.file_system = &disk});
      trainer.optimizer.save(kRoot, 3, {.file_system = &disk});
      expect_tidy(world, disk, 3);
    });
    EXPECT_EQ(later.whole, nullptr) << message(later.whole);
    return calls;
  };
  for (const auto& deed : kDeeds) {
    const auto [before, end] = try_deed(deed, -1, false);
    EXPECT_GE(end, before + 3);
    for (int fail_at = before; fail_at < end; ++fail_at) {
      const bool on_stream = ranks() > 2;
      SCOPED_TRACE(detail::concat("deed ", &deed - kDeeds, ", call ", fail_at, " of ", end,
                                  on_stream ? ", on the stream" : ""));
      try_deed(deed, fail_at, on_stream);
      if (HasFailure()) return;
    }
  }
}

// An optimizer's end waits for the save that is under way.
TEST_P(SaveEnds, TheEndOfAnOptimizerCompletesASave) {
  MemoryFileSystem disk;
  const Outcome outcome = run([&](World& world) {
    {
      Trainer trainer(world, stage(), kLongS);
      trainer.step();
      trainer.optimizer.save(kRoot, 1, {.async = true, .file_system = &disk});
    }
    world.communicator().barrier({Purpose::kControl, "all optimizers are gone"},
                                 world.device().caller_stream());
    world.device().caller_stream().synchronize();
    EXPECT_EQ(loaded_step(world, disk), 1);
  });
  EXPECT_EQ(outcome.whole, nullptr) << message(outcome.whole);
}

// The disk of the last rank is gone, so that it cannot even say so: rank 0 would wait for it till
// the deadline, but not when it leaves on an error.
TEST_P(SaveEnds, AnOptimizerThatIsLeftOnAnErrorWaitsForNoOne) {
  MemoryFileSystem disk;
  const int last = ranks() - 1;
  const Outcome outcome = run([&](World& world) {
    const int rank = world.rank();
    FaultyFileSystem files(disk);
    Trainer trainer(world, stage(), kLongS);
    trainer.step();
    trainer.optimizer.save(kRoot, 1, {.file_system = &files});
    trainer.step();
    if (rank == last) files.arm(Fault::kKilled, 3);
    trainer.optimizer.save(kRoot, 2, {.async = true, .file_system = &files});
    if (rank == 0) throw Broken("out of data");
    trainer.optimizer.wait_for_save();
  });
  EXPECT_TRUE(is<Broken>(outcome.whole)) << message(outcome.whole);
  expect_others_name(outcome, 0, {"rank 0"});
  const Outcome later = run([&](World& world) { EXPECT_EQ(loaded_step(world, disk), 1); });
  EXPECT_EQ(later.whole, nullptr) << message(later.whole);
}

// As above, and all wait: what comes first is the verdict of rank 0 about the checkpoint, not the
// deadline of those who wait for rank 0.
TEST(SaveEndsOfADisk, ThatIsGoneAreToldByTheDeadline) {
  MemoryFileSystem disk;
  const Outcome outcome = run_to_the_end(2, [&](World& world) {
    FaultyFileSystem files(disk);
    Trainer trainer(world, 2, 3.0);
    const SaveOptions beside = {.async = true, .file_system = &files};
    if (world.rank() == 1) files.arm(Fault::kNoSpace, 2);
    trainer.optimizer.save(kRoot, 1, beside);
    try {
      trainer.optimizer.wait_for_save();
      ADD_FAILURE() << "saved";
    } catch (const CheckpointError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 1"));
    }
    files.arm(Fault::kNone, 0);
    trainer.optimizer.save(kRoot, 2, beside);
  });
  EXPECT_EQ(outcome.whole, nullptr) << message(outcome.whole);
  EXPECT_EQ(disk.list(kRoot), (std::vector<std::string>{"latest", "step-00000002"}));
}

INSTANTIATE_TEST_SUITE_P(Some, SaveEnds, testing::Values(Where{2, 1}, Where{3, 3}), name_of);

}  // namespace
}  // namespace zero::faults
