#include "src/checkpoint_hash.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace zero::checkpoint {

struct Xxh3::State {
  XXH3_state_t xxh;  // aligned to 64 bytes by its type
};

Xxh3::Xxh3() : state_(std::make_unique<State>()) { reset(); }
Xxh3::~Xxh3() = default;

void Xxh3::update(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size());
}
std::uint64_t Xxh3::digest() const { return XXH3_64bits_digest(&state_->xxh); }
void Xxh3::reset() { XXH3_64bits_reset(&state_->xxh); }

std::uint64_t xxh3_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace zero::checkpoint
