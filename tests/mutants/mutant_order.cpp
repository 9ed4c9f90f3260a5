// Order between streams that comes from events alone. A gate keeps one stream back at the place
// where the other would overtake it, so that each test fails every time its wait is missing.
#include <gtest/gtest.h>

#include <barrier>

#include "src/local_group.hpp"
#include "tests/cuda/gate.hpp"
#include "tests/cuda/staged_model.hpp"
#include "tests/cuda_fixtures.hpp"

namespace zero::test {
namespace {

using std::chrono::milliseconds;

// In the right order the gate is never opened: the test takes so long.
constexpr milliseconds kPatience{300};
// A device begins when all is issued. The host's locks would put in order what is not, if it went
// on issuing meanwhile: ThreadSanitizer would find nothing.
constexpr milliseconds kLong{20000};
constexpr std::int64_t kShard = 300;

std::vector<float> ramp(int rank) {
  std::vector<float> values(2 * kShard);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i) + 1000.0f * static_cast<float>(rank + 1);
  }
  return values;
}

// Two ranks sum their ramps. `before`, `after`: around the collective, with the gradients that are
// sent, which `values` gives, and the rank's ramp, which lies ready.
using Steps = std::function<void(int rank, SteeredStream& stream, OnDevice<float>& send,
                                 const OnDevice<float>& ready)>;
void sum_ramps(const std::function<std::vector<float>(int rank)>& values, const Steps& before,
               const Steps& after) {
  RunOptions options;
  options.device = DeviceKind::kCuda;
  Gate start(kLong);
  std::barrier issued(2);
  run_ranks(
      2,
      [&](World& world) {
        const int rank = world.rank();
        OnDevice<float> send(world.device(), values(rank));
        const OnDevice<float> ready(world.device(), ramp(rank));
        const OnDevice<float> received(world.device(), std::vector<float>(kShard));
        SteeredStream stream(world.device().caller_stream());
        start.hold(stream);
        before(rank, stream, send, ready);
        world.communicator().reduce_scatter(send.data(), DType::kFloat32, received.data(),
                                            DType::kFloat32, kShard, {},
                                            {Purpose::kGradients, "ramps"}, stream);
        after(rank, stream, send, ready);
        issued.arrive_and_wait();
        start.open();
        const std::vector<float> sums = received.read();
        for (std::size_t i = 0; i < sums.size(); ++i) {
          const float want =
              2 * static_cast<float>(i + kShard * static_cast<std::size_t>(rank)) + 3000;
          ASSERT_EQ(sums[i], want) << "wrong bits on rank " << rank << " at " << i;
        }
        world.drain();
      },
      options);
}

// Rank 1 is slow to sum, and rank 0 overwrites what it sent.
TEST(Order, ABufferIsTheOwnersAgainWhenThePeersAreDone) {
  Gate gate(kPatience);
  bool held = false;
  sum_ramps(
      ramp,
      [&](int rank, SteeredStream& stream, OnDevice<float>&, const OnDevice<float>&) {
        if (rank == 0) return;
        stream.after_wait = [&](Stream& inner) {  // first for the other's gradients
          if (!std::exchange(held, true)) gate.hold(inner);
        };
      },
      [&](int rank, SteeredStream& stream, OnDevice<float>& send, const OnDevice<float>&) {
        if (rank == 1) return;
        kernels::fill_bytes(send.data(), 0x40, 2 * kShard * 4, stream);
        gate.open_from(stream);
      });
  EXPECT_TRUE(held);
}

// Rank 1 is slow to write its gradients, and rank 0 sums.
TEST(Order, AGradientIsReadWhenItIsThere) {
  Gate gate(kPatience);
  int records = 0;
  sum_ramps(
      [](int rank) { return rank == 0 ? ramp(0) : std::vector<float>(2 * kShard); },
      [&](int rank, SteeredStream& stream, OnDevice<float>& send, const OnDevice<float>& ready) {
        if (rank == 0) {
          stream.before_record = [&](Stream& inner) {  // the second: the sum was enqueued
            if (++records == 2) gate.open_from(inner);
          };
          return;
        }
        gate.hold(stream);
        kernels::copy(send.data(), ready.data(), 2 * kShard * 4, stream);
      },
      [](int, SteeredStream&, OnDevice<float>&, const OnDevice<float>&) {});
  EXPECT_EQ(records, 2);
}

// One rank trains; in the second step its communication stream stands from its first wait on.
std::map<std::string, std::vector<float>> train(DeviceKind kind, int stage,
                                                std::size_t open_after) {
  Gate start(kLong);
  Gate gate(kPatience);
  bool armed = false;
  auto device = kind == DeviceKind::kHost ? make_host_device() : make_cuda_device();
  World world(std::make_unique<SteeredDevice>(std::move(device),
                                              [&](Stream& inner) {
                                                if (std::exchange(armed, false)) gate.hold(inner);
                                              }),
              detail::make_local_communicator(
                  std::make_shared<detail::LocalGroup>(1, std::chrono::seconds(60)), 0));
  ZeroOptimizer optimizer(
      staged_config(stage, R"({"zero_optimization": {"overlap_comm": true, "reduce_bucket_size": 1,
                                                     "stage3_prefetch_bucket_size": 300}})"),
      world);
  StagedModel model(optimizer, world, DType::kFloat32, {{256}, {256}, {256}, {256}, {256}});
  model.prepare();
  model.step(0);
  optimizer.synchronize();
  model.forward();
  if (kind == DeviceKind::kCuda) start.hold(world.device().caller_stream());
  armed = kind == DeviceKind::kCuda;
  for (std::size_t unit = 5; unit-- > 0;) {
    model.backward_of(unit, 1);
    if (unit == open_after) gate.open_from(world.device().caller_stream());
  }
  EXPECT_FALSE(armed);
  optimizer.step();
  model.step(2);
  start.open();
  optimizer.synchronize();
  return model.read();
}

// What comes out without the order that a mutant lacks: stage 0 has no memory in passing and
// gathers nothing, so that the fault is not in the oracle.
std::map<std::string, std::vector<float>> oracle() { return train(DeviceKind::kHost, 0, 0); }

TEST(Order, PassingMemoryIsUsedAgainWhenItsReductionIsDone) {
  EXPECT_TRUE(train(DeviceKind::kCuda, 2, 0) == oracle()) << "wrong bits";
}

TEST(Order, AParameterIsUsedWhenItIsGathered) {
  EXPECT_TRUE(train(DeviceKind::kCuda, 3, 4) == oracle()) << "wrong bits";
}

}  // namespace
}  // namespace zero::test
