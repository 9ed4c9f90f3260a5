// The communicator of a dry run: one rank of a world of any size, with no one on the other side.
// Calls are counted by the adaptor around it; nothing moves.
#pragma once

#include <memory>

#include "zero/communicator.hpp"

namespace zero::detail {

std::unique_ptr<Communicator> make_meta_communicator(int rank, int world_size, bool stages_slices);

}  // namespace zero::detail
