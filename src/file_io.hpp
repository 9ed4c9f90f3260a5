// Reads and writes that go on where the system stopped: interrupted, or done in part.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

namespace zero {

// More than this in one call the system cuts short anyway (Linux: 2 GiB less a page).
inline constexpr std::size_t kLargestTransfer = std::size_t{1} << 30;

// `write(data, bytes)` is as write(2). Returns false with errno set, if it fails.
template <class Write>
bool write_fully(std::span<const std::byte> bytes, Write write) {
  while (!bytes.empty()) {
    const auto part =
        bytes.first(bytes.size() < kLargestTransfer ? bytes.size() : kLargestTransfer);
    const auto done = write(part.data(), part.size());
    if (done > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(done));
    } else if (done == 0) {  // never of a plain file; do not spin
      errno = EIO;
      return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

// `read(data, bytes, offset)` is as pread(2). Returns how much there was before the end of the file
// (all of `out`, or less), or -1 with errno set.
template <class Read>
std::int64_t read_fully(std::int64_t offset, std::span<std::byte> out, Read read) {
  std::size_t have = 0;
  while (have < out.size()) {
    const std::size_t left = out.size() - have;
    const auto got = read(out.data() + have, left < kLargestTransfer ? left : kLargestTransfer,
                          offset + static_cast<std::int64_t>(have));
    if (got > 0) {
      have += static_cast<std::size_t>(got);
    } else if (got == 0) {
      break;
    } else if (errno != EINTR) {
      return -1;
    }
  }
  return static_cast<std::int64_t>(have);
}

}  // namespace zero
