// The checksum of checkpoints: XXH3, 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace zero::checkpoint {

class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  void update(std::span<const std::byte> bytes);
  std::uint64_t digest() const;
  void reset();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::uint64_t xxh3_of(std::span<const std::byte> bytes);

}  // namespace zero::checkpoint
