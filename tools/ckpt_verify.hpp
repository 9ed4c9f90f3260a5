// zero-ckpt verify: every byte of one checkpoint, or of all in a folder.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "zero/checkpoint.hpp"

namespace ckpt {

struct Verdict {
  std::string folder;
  std::vector<std::string> problems;  // empty: whole
  std::int64_t bytes = 0, files = 0;  // looked at; 0 if that could not be begun
};
struct Verified {
  std::vector<Verdict> checkpoints;  // oldest first; last the folder itself if it is one as well
  std::string taken;                 // by a resume; empty if there is none
  std::string why_none;              // `taken` is empty
  std::string note;                  // why not the one that `latest` names

  bool whole() const;  // every one of them
  bool all_is_well() const { return whole() && !taken.empty(); }
};

// Throws CheckpointError where there is no checkpoint at all.
Verified verify(zero::FileSystem& files, const std::string& path);

std::string verify_text(const Verified& verified);
nlohmann::ordered_json verify_json(const Verified& verified);

}  // namespace ckpt
