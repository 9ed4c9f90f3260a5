// Streams and events of the host: order, waiting, and the way of errors.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "zero/device.hpp"

namespace zero {
namespace {

// Holds back the worker until opened, so that a test decides what has run.
class Gate {
 public:
  void open() { open_ = true; }
  Stream::Task task() {
    return [this] {
      while (!open_.load()) std::this_thread::yield();
    };
  }

 private:
  std::atomic<bool> open_{false};
};

class HostDevice : public ::testing::Test {
 protected:
  std::unique_ptr<Device> device = make_host_device();
  std::unique_ptr<Stream> stream = device->create_stream("a stream with quite a long name");
};

TEST_F(HostDevice, SaysWhatItIs) {
  EXPECT_EQ(device->kind(), DeviceKind::kHost);
  EXPECT_EQ(stream->kind(), DeviceKind::kHost);
  EXPECT_EQ(device->caller_stream().kind(), DeviceKind::kHost);
  EXPECT_EQ(&device->caller_stream(), &device->caller_stream());
}

TEST_F(HostDevice, CallerStreamRunsAtOnce) {
  const auto caller = std::this_thread::get_id();
  bool ran = false;
  device->caller_stream().enqueue([&] { ran = std::this_thread::get_id() == caller; });
  EXPECT_TRUE(ran);
  EXPECT_TRUE(device->caller_stream().record().done());
  device->caller_stream().synchronize();
}

TEST_F(HostDevice, CallerStreamThrowsAtOnceAndGoesOn) {
  Stream& caller = device->caller_stream();
  EXPECT_THROW(caller.enqueue([] { throw std::runtime_error("now"); }), std::runtime_error);
  bool ran = false;
  caller.enqueue([&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST_F(HostDevice, TasksRunInOrderOnOneOtherThread) {
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  for (int i = 0; i < 1000; ++i) {
    stream->enqueue([&, i] {
      order.push_back(i);
      threads.push_back(std::this_thread::get_id());
    });
  }
  stream->synchronize();
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(order[static_cast<std::size_t>(i)], i);
    ASSERT_EQ(threads[static_cast<std::size_t>(i)], threads[0]);
  }
  EXPECT_NE(threads[0], std::this_thread::get_id());
}

TEST_F(HostDevice, EnqueueDoesNotWait) {
  Gate gate;
  bool ran = false;
  stream->enqueue(gate.task());
  stream->enqueue([&] { ran = true; });
  const Event event = stream->record();
  EXPECT_FALSE(event.done());
  gate.open();
  event.synchronize();
  EXPECT_TRUE(ran);
  EXPECT_TRUE(event.done());
}

TEST_F(HostDevice, AnEventCoversWhatCameBeforeAndNoMore) {
  Gate gate;
  int value = 0;
  stream->enqueue([&] { value = 1; });
  const Event first = stream->record();
  stream->enqueue(gate.task());
  const Event second = stream->record();
  first.synchronize();  // though the gate is shut
  EXPECT_EQ(value, 1);
  EXPECT_TRUE(first.done());
  EXPECT_FALSE(second.done());
  gate.open();
  stream->synchronize();
  EXPECT_TRUE(second.done());
}

TEST_F(HostDevice, EmptyEventsAndStreamsAreComplete) {
  EXPECT_TRUE(Event().done());
  Event().synchronize();
  EXPECT_TRUE(stream->record().done());
  stream->record().synchronize();
  stream->synchronize();
  stream->wait(Event());
  device->caller_stream().wait(Event());
}

TEST_F(HostDevice, AStreamWaitsForAnother) {
  const auto other = device->create_stream("other");
  Gate gate;
  int value = 0;
  int seen = -1;
  stream->enqueue(gate.task());
  stream->enqueue([&] { value = 7; });
  const Event written = stream->record();
  other->wait(written);
  other->enqueue([&] { seen = value; });
  const Event read = other->record();
  EXPECT_FALSE(read.done());
  gate.open();
  read.synchronize();
  EXPECT_EQ(seen, 7);
}

TEST_F(HostDevice, TheCallerWaitsForAStream) {
  int value = 0;
  stream->enqueue([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    value = 7;
  });
  device->caller_stream().wait(stream->record());
  EXPECT_EQ(value, 7);
}

// Two streams in turns on plain memory: a missing happens-before is a race for ThreadSanitizer.
TEST_F(HostDevice, PingPong) {
  const auto other = device->create_stream("other");
  std::int64_t value = 1;
  for (int i = 0; i < 500; ++i) {
    stream->enqueue([&] { value = value * 3 % 1'000'003; });
    other->wait(stream->record());
    other->enqueue([&] { value += 1; });
    stream->wait(other->record());
  }
  stream->synchronize();
  std::int64_t expected = 1;
  for (int i = 0; i < 500; ++i) expected = expected * 3 % 1'000'003 + 1;
  EXPECT_EQ(value, expected);
}

// The message of what a call throws; empty if nothing.
template <class Call>
std::string thrown(Call call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST_F(HostDevice, TheFirstErrorIsKeptAndLaterTasksAreDropped) {
  int ran = 0;
  stream->enqueue([&] { ++ran; });
  const Event before = stream->record();
  stream->enqueue([] { throw std::runtime_error("first"); });
  const Event at = stream->record();
  stream->enqueue([&] { ++ran; });
  stream->enqueue([] { throw std::runtime_error("second"); });
  const Event after = stream->record();
  EXPECT_EQ(thrown([&] { stream->synchronize(); }), "first");
  EXPECT_EQ(ran, 1);
  // Every wait behind the error tells it, as often as asked; those before it do not.
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(thrown([&] { before.synchronize(); }), "");
    EXPECT_EQ(thrown([&] { at.synchronize(); }), "first");
    EXPECT_EQ(thrown([&] { after.synchronize(); }), "first");
    EXPECT_EQ(thrown([&] { stream->synchronize(); }), "first");
    EXPECT_EQ(thrown([&] { device->caller_stream().wait(after); }), "first");
  }
  stream->enqueue([&] { ++ran; });
  EXPECT_EQ(thrown([&] { stream->record().synchronize(); }), "first");
  EXPECT_EQ(ran, 1);
}

// An error goes along a wait into the waiting stream, whether it happened before the wait or after.
TEST_F(HostDevice, ErrorsPassFromStreamToStream) {
  for (const bool already_failed : {false, true}) {
    SCOPED_TRACE(already_failed);
    const auto source = device->create_stream("source");
    const auto waiting = device->create_stream("waiting");
    Gate gate;
    bool ran = false;
    source->enqueue(gate.task());
    source->enqueue([] { throw std::runtime_error("upstream"); });
    const Event event = source->record();
    if (already_failed) {
      gate.open();
      EXPECT_EQ(thrown([&] { event.synchronize(); }), "upstream");
    }
    waiting->wait(event);
    waiting->enqueue([&] { ran = true; });
    gate.open();
    EXPECT_EQ(thrown([&] { waiting->synchronize(); }), "upstream");
    EXPECT_FALSE(ran);
  }
}

TEST_F(HostDevice, OtherStreamsDoNotSeeAnError) {
  const auto other = device->create_stream("other");
  stream->enqueue([] { throw std::runtime_error("mine"); });
  EXPECT_EQ(thrown([&] { stream->synchronize(); }), "mine");
  bool ran = false;
  other->enqueue([&] { ran = true; });
  other->synchronize();
  EXPECT_TRUE(ran);
}

TEST_F(HostDevice, AnythingMayBeThrown) {
  stream->enqueue([] { throw 42; });
  EXPECT_THROW(stream->synchronize(), int);
}

// What a task captured is gone when the task counts as done: memory it owns may be reused then.
TEST_F(HostDevice, CapturedValuesGoBeforeTheTaskIsDone) {
  auto owned = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = owned;
  stream->enqueue([owned = std::move(owned)] { static_cast<void>(*owned); });
  stream->synchronize();
  EXPECT_TRUE(watched.expired());
}

TEST_F(HostDevice, DestructionFinishesTheWorkAndEventsLiveOn) {
  int ran = 0;
  Event event;
  {
    const auto brief = device->create_stream("brief");
    for (int i = 0; i < 100; ++i) brief->enqueue([&] { ++ran; });
    event = brief->record();
  }
  EXPECT_EQ(ran, 100);
  EXPECT_TRUE(event.done());
  event.synchronize();
}

TEST_F(HostDevice, DestructionAfterAnErrorIsQuiet) {
  const auto brief = device->create_stream("brief");
  brief->enqueue([] { throw std::runtime_error("nobody asks"); });
}

TEST_F(HostDevice, ManyThreadsWaitForOneEvent) {
  Gate gate;
  stream->enqueue(gate.task());
  const Event event = stream->record();
  std::atomic<int> woken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      event.synchronize();
      ++woken;
    });
  }
  gate.open();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(woken.load(), 4);
}

}  // namespace
}  // namespace zero
