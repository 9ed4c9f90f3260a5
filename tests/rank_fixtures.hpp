// A rank's runtime without an optimizer.
#pragma once

#include <string>

#include "src/communicator_stream.hpp"
#include "src/runtime.hpp"
#include "zero/world.hpp"

namespace zero::test {

struct RankRuntime {
  explicit RankRuntime(World& world, const std::string& config = "{}")
      : stream(world.device(), world.rank()),
        rt(Config::parse(config), world.device(), world.communicator(), world.ledger(), stream) {}
  detail::CommStream stream;
  Runtime rt;
};

}  // namespace zero::test
