// Makes a stream stand until something else has happened, so that order comes from nothing but
// events: a wait that is missing shows every time, not once in a while.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "zero/device.hpp"

namespace zero::test {

// A stream that it holds stands until another opens it, or, where the right order keeps the other
// from ever getting there, for `patience`. Relaxed on purpose: it must order nothing itself, or
// ThreadSanitizer would not see what is not ordered.
class Gate {
 public:
  explicit Gate(std::chrono::milliseconds patience) : patience_(patience) {}

  void hold(Stream& stream) const {
    stream.enqueue([state = state_, patience = patience_] {
      for (auto left = patience; left.count() > 0; --left) {
        if (state->opened.load(std::memory_order_relaxed)) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      state->gave_up.store(true, std::memory_order_relaxed);
    });
  }
  void open() const { state_->opened.store(true, std::memory_order_relaxed); }
  // When the stream gets there.
  void open_from(Stream& stream) const {
    stream.enqueue([state = state_] { state->opened.store(true, std::memory_order_relaxed); });
  }
  bool gave_up() const { return state_->gave_up.load(std::memory_order_relaxed); }

 private:
  struct State {
    std::atomic<bool> opened{false};
    std::atomic<bool> gave_up{false};
  };
  std::chrono::milliseconds patience_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// A stream whose waits and records tell a test that they were issued.
class SteeredStream final : public Stream {
 public:
  using Hook = std::function<void(Stream& inner)>;

  explicit SteeredStream(Stream& inner) : Stream(inner.kind()), inner_(inner) {}

  Hook after_wait = [](Stream&) {};
  Hook before_record = [](Stream&) {};

  void* native() const override { return inner_.native(); }
  void enqueue(Task task) override { inner_.enqueue(std::move(task)); }
  Event record() override {
    before_record(inner_);
    return inner_.record();
  }
  void wait(const Event& event) override {
    inner_.wait(event);
    after_wait(inner_);
  }
  void synchronize() override { inner_.synchronize(); }
  bool capturing() const override { return inner_.capturing(); }

 private:
  Stream& inner_;
};

// A device whose further streams call `after_wait`.
class SteeredDevice final : public Device {
 public:
  SteeredDevice(std::unique_ptr<Device> inner, SteeredStream::Hook after_wait)
      : inner_(std::move(inner)), after_wait_(std::move(after_wait)) {}

  DeviceKind kind() const override { return inner_->kind(); }
  Stream& caller_stream() override { return inner_->caller_stream(); }
  std::unique_ptr<Stream> create_stream(const std::string& name) override {
    streams_.push_back(inner_->create_stream(name));
    auto steered = std::make_unique<SteeredStream>(*streams_.back());
    steered->after_wait = after_wait_;
    return steered;
  }
  void* allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  void deallocate(void* pointer, std::size_t bytes) noexcept override {
    inner_->deallocate(pointer, bytes);
  }
  void* allocate_staging(std::size_t bytes) override { return inner_->allocate_staging(bytes); }
  void deallocate_staging(void* pointer, std::size_t bytes) noexcept override {
    inner_->deallocate_staging(pointer, bytes);
  }
  std::size_t reserved_bytes() const override { return inner_->reserved_bytes(); }

 private:
  std::unique_ptr<Device> inner_;
  SteeredStream::Hook after_wait_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

}  // namespace zero::test
