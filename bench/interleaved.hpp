// Timing by interleaved rounds, for ratios that hold on a machine whose speed drifts.
//
// All variants run once per round, in reverse order every other round, on threads that meet before
// and after each. A sample is clean when the process had its processors nearly all the time. The
// result is the median, over rounds, of the ratio of two variants' speeds in that round.
//
// Thread-safety: `add` first; then every thread calls `run`; then print from one.
#pragma once

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace zero::bench {

inline double seconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

inline double median(std::vector<double> v) {
  if (v.empty()) return NAN;
  std::sort(v.begin(), v.end());
  const std::size_t half = v.size() / 2;
  return v.size() % 2 == 1 ? v[half] : (v[half - 1] + v[half]) / 2;
}

class Meeting {
 public:
  explicit Meeting(int threads) : threads_(threads) {}
  void wait() {
    const unsigned generation = generation_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      arrived_.store(0, std::memory_order_relaxed);
      generation_.store(generation + 1, std::memory_order_release);
      return;
    }
    for (int spins = 0; generation_.load(std::memory_order_acquire) == generation; ++spins) {
      if (spins > 4000) std::this_thread::yield();
    }
  }

 private:
  const int threads_;
  std::atomic<int> arrived_{0};
  std::atomic<unsigned> generation_{0};
};

class Interleaved {
 public:
  using Body = std::function<void(int thread)>;

  Interleaved(int threads, int rounds, double max_seconds)
      : threads_(threads), rounds_(rounds), max_seconds_(max_seconds), meeting_(threads) {}

  // `bytes` and `elems` of all threads together. `reference`: the variant to compare with, and
  // `target` the least ratio of bytes per second wanted (0: none). `prepare` is not timed.
  void add(std::string name, double bytes, double elems, std::string reference, double target,
           Body body, Body prepare = nullptr) {
    variants_.push_back({std::move(name),
                         std::move(reference),
                         bytes,
                         elems,
                         target,
                         std::move(body),
                         std::move(prepare),
                         {}});
  }

  // Called by each of the threads. Ends when every variant has `rounds` clean samples, or in time.
  void run(int thread) {
    for (const Variant& v : variants_) sample(v, thread);  // warm-up
    const double start = seconds(CLOCK_MONOTONIC);
    for (int round = 0; !done_; ++round) {
      for (std::size_t i = 0; i < variants_.size(); ++i) {
        Variant& v = variants_[round % 2 == 0 ? i : variants_.size() - 1 - i];
        const Sample s = sample(v, thread);
        if (thread == 0) v.samples.push_back(s);
      }
      if (thread == 0) {
        done_ = round + 1 >= 3 && (seconds(CLOCK_MONOTONIC) - start > max_seconds_ || enough());
      }
      meeting_.wait();
    }
  }

  // Runs on threads of its own.
  void run() {
    std::vector<std::thread> others;
    for (int t = 1; t < threads_; ++t) others.emplace_back([this, t] { run(t); });
    run(0);
    for (std::thread& t : others) t.join();
  }

  // Median ratio of bytes per second; from clean pairs where there are three.
  double ratio(const std::string& name, const std::string& reference) const {
    const Variant& a = find(name);
    const Variant& b = find(reference);
    std::vector<double> clean, all;
    for (std::size_t i = 0; i < a.samples.size(); ++i) {
      const double r = (b.samples[i].seconds / b.bytes) / (a.samples[i].seconds / a.bytes);
      all.push_back(r);
      if (a.samples[i].clean && b.samples[i].clean) clean.push_back(r);
    }
    return median(clean.size() >= 3 ? clean : all);
  }

  // Prints the table; returns how many targets were missed.
  int print(const std::string& title) const {
    int missed = 0;
    std::printf("\n%s\n%-38s %9s %9s %9s %7s %7s  %s\n", title.c_str(), "variant", "GB/s",
                "ns/elem", "clean", "ratio", "target", "of");
    for (const Variant& v : variants_) {
      std::vector<double> times;
      long clean = 0;
      for (const Sample& s : v.samples) {
        times.push_back(s.seconds);
        clean += s.clean;
      }
      const double t = median(times);
      std::printf("%-38s %9.2f %9.3f %5ld/%-3zu", v.name.c_str(), v.bytes / t * 1e-9,
                  t / v.elems * 1e9, clean, v.samples.size());
      if (!v.reference.empty()) {
        const double r = ratio(v.name, v.reference);
        const bool miss = v.target > 0 && r < v.target;
        missed += miss;
        if (v.target > 0) {
          std::printf(" %7.3f %7.2f  %s%s", r, v.target, v.reference.c_str(),
                      miss ? "  MISSED" : "");
        } else {
          std::printf(" %7.3f %7s  %s", r, "", v.reference.c_str());
        }
      }
      std::printf("\n");
    }
    std::fflush(stdout);
    return missed;
  }

 private:
  struct Sample {
    double seconds = 0;
    bool clean = false;
  };
  struct Variant {
    std::string name, reference;
    double bytes, elems, target;
    Body body, prepare;
    std::vector<Sample> samples;
  };

  Sample sample(const Variant& v, int thread) {
    if (v.prepare) v.prepare(thread);
    meeting_.wait();
    const double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
    v.body(thread);
    meeting_.wait();
    const double taken = seconds(CLOCK_MONOTONIC) - wall;
    const double used = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    return {taken, used >= 0.95 * threads_ * taken};
  }

  bool enough() const {
    return std::all_of(variants_.begin(), variants_.end(), [this](const Variant& v) {
      return std::count_if(v.samples.begin(), v.samples.end(),
                           [](const Sample& s) { return s.clean; }) >= rounds_;
    });
  }

  const Variant& find(const std::string& name) const {
    return *std::find_if(variants_.begin(), variants_.end(),
                         [&](const Variant& v) { return v.name == name; });
  }

  const int threads_;
  const int rounds_;
  const double max_seconds_;
  Meeting meeting_;
  std::vector<Variant> variants_;
  std::atomic<bool> done_{false};
};

}  // namespace zero::bench
