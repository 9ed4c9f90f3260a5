#include "tools/ckpt_verify.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/mem_format.hpp"
#include "zero/error.hpp"

namespace ckpt {

using zero::detail::concat;

namespace {

Verdict verdict_on(zero::FileSystem& files, const std::string& folder) {
  Verdict verdict{folder, {}};
  try {
    zero::CheckpointReader reader(files, folder);
    for (const zero::CheckpointFile& file : reader.manifest().files) {
      ++verdict.files;
      verdict.bytes += file.bytes;
    }
    std::vector<std::byte> scratch(static_cast<std::size_t>(reader.scratch_bytes()));
    verdict.problems = reader.verify(scratch);
  } catch (const zero::CheckpointError& error) {
    verdict.problems.push_back(error.what());
  }
  return verdict;
}

bool has_files_of_one(zero::FileSystem& files, const std::string& path) {
  if (files.kind(path) != zero::FileKind::kFolder) return false;
  const std::vector<std::string> names = files.list(path);
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name == "manifest.json" || name.ends_with(".safetensors");
  });
}

}  // namespace

bool Verified::whole() const {
  return std::all_of(checkpoints.begin(), checkpoints.end(),
                     [](const Verdict& v) { return v.problems.empty(); });
}

Verified verify(zero::FileSystem& files, const std::string& path) {
  Verified verified;
  std::vector<std::string> names;
  if (files.kind(path) == zero::FileKind::kFolder) names = zero::list_checkpoints(files, path);
  for (const std::string& name : names) {
    verified.checkpoints.push_back(
        verdict_on(files, concat(path, path.ends_with('/') ? "" : "/", name)));
  }
  try {
    const zero::CheckpointPlace place = zero::find_checkpoint(files, path);
    verified.taken = place.folder;
    verified.note = place.note;
  } catch (const zero::CheckpointError& error) {
    if (names.empty() && !has_files_of_one(files, path)) throw;
    verified.why_none = error.what();
  }
  const std::string manifest = concat(path, path.ends_with('/') ? "" : "/", "manifest.json");
  if (names.empty() || files.exists(manifest)) {
    verified.checkpoints.push_back(verdict_on(files, path));
  }
  return verified;
}

std::string verify_text(const Verified& verified) {
  std::string text;
  for (const Verdict& v : verified.checkpoints) {
    if (v.problems.empty()) {
      text += concat(v.folder, ": whole: ", mem::counted(v.bytes, "byte"), " in ",
                     mem::counted(v.files, "file"), "\n");
    } else {
      text += concat(v.folder, ": DAMAGED\n");
      for (const std::string& problem : v.problems) text += concat("  ", problem, "\n");
    }
  }
  if (!verified.taken.empty()) return text + concat("a resume takes ", verified.taken, "\n");
  text += "there is none that a resume could take";
  const bool told =
      std::any_of(verified.checkpoints.begin(), verified.checkpoints.end(), [&](const Verdict& v) {
        return std::count(v.problems.begin(), v.problems.end(), verified.why_none) > 0;
      });
  return text + (told ? "\n" : concat(": ", verified.why_none, "\n"));
}

nlohmann::ordered_json verify_json(const Verified& verified) {
  nlohmann::ordered_json checkpoints = nlohmann::ordered_json::array();
  for (const Verdict& v : verified.checkpoints) {
    checkpoints.push_back({{"folder", v.folder},
                           {"whole", v.problems.empty()},
                           {"files", v.files},
                           {"bytes", v.bytes},
                           {"problems", v.problems}});
  }
  return {{"whole", verified.whole()},
          {"taken", verified.taken},
          {"why_none", verified.why_none},
          {"note", verified.note},
          {"checkpoints", std::move(checkpoints)}};
}

}  // namespace ckpt
