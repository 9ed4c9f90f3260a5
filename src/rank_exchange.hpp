// Short things that every rank tells all others, through the communicator: for start-up checks and
// for errors that all ranks end with.
//
// Collective: all ranks call with the same tag. Blocks. The memory that travels is in the ledger
// (workspace) until the call ends. On the meta device the others are taken to say the same.
// Throws CommError where a rank is missing or calls something else, OutOfMemory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/runtime.hpp"

namespace zero {

// The words of all ranks, one rank after the other. REQUIRES: the same number on all ranks.
// Costs 8 bytes of workspace for each word and rank.
std::vector<std::uint64_t> all_gather_words(Runtime& rt, std::span<const std::uint64_t> mine,
                                            const OpTag& tag);

// The text of each rank, in rank order; they may be of different lengths, and empty. They travel in
// parts, so that the workspace it costs does not depend on them: 512 bytes for each rank, 8 if all
// are empty.
std::vector<std::string> all_gather_text(Runtime& rt, std::string_view mine, const OpTag& tag);

}  // namespace zero
