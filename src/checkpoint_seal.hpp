// Text that tells whether it is as it was written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace zero::checkpoint {

// 16 digits, lower case.
std::string hex(std::uint64_t value);
// The inverse, for exactly 16 such digits; throws CheckpointError with `where`.
std::uint64_t parse_hex(std::string_view digits, const std::string& where);

// Closes a JSON object left open after a comma: adds the line `"xxh3": "..."}`, the checksum of all
// bytes before that line. REQUIRES: body ends in ",\n".
std::string sealed(std::string body);
// The text. Throws CheckpointError naming `where` if any byte is not as sealed() gave it.
std::string_view unsealed(std::span<const std::byte> text, const std::string& where);

}  // namespace zero::checkpoint
