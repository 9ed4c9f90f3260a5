// zero-ckpt inspect: what a checkpoint's manifest says.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "zero/checkpoint.hpp"

namespace ckpt {

// The state of a run beside its tensors, by name: what has to be equal for two runs to go on alike.
std::vector<std::pair<std::string, std::string>> state_rows(const zero::CheckpointManifest& m);

std::string inspect_text(const zero::CheckpointReader& reader);
nlohmann::ordered_json inspect_json(const zero::CheckpointReader& reader);

}  // namespace ckpt
