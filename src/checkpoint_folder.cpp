#include "src/checkpoint_folder.hpp"

#include <algorithm>
#include <span>

#include "src/checkpoint_index.hpp"
#include "src/checkpoint_json.hpp"
#include "src/checkpoint_names.hpp"
#include "zero/checkpoint_tools.hpp"
#include "zero/error.hpp"

namespace zero {

namespace checkpoint {

using detail::concat;

void make_root(FileSystem& files, const std::string& root) {
  const FileKind kind = files.kind(root);
  if (named_as_checkpoint(root)) {
    throw CheckpointError(root +
                          " has the name of a checkpoint: a resume would take it for one, not for "
                          "the folder with checkpoints in it; give the folder above, or another "
                          "name");
  }
  if (kind == FileKind::kMissing) {
    files.create_folders(root);
  } else if (kind != FileKind::kFolder) {
    throw CheckpointError(root + " is no folder; checkpoints need one to be in");
  } else if (files.exists(join(root, kManifest))) {
    throw CheckpointError(concat(root, " is a checkpoint itself (it has a ", kManifest,
                                 "): a resume would take it, not one in it; give another folder"));
  }
}

std::optional<std::string> read_latest(FileSystem& files, const std::string& root) {
  const std::string path = join(root, kLatest);
  const FileKind kind = files.kind(path);
  if (kind == FileKind::kMissing) return std::nullopt;
  if (kind != FileKind::kFile) return "";
  const std::vector<std::byte> bytes = read_file(files, path);
  std::string name(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

void write_latest(FileSystem& files, const std::string& root, const std::string& name) {
  const std::string temporary = join(root, concat(kTemporary, kLatest));
  const std::string text = name + "\n";
  write_file(files, temporary, std::as_bytes(std::span(text)));
  files.rename(temporary, join(root, kLatest));
  files.sync_folder(root);
}

void discard(FileSystem& files, const std::string& root, const std::string& name) {
  const std::string leaving = join(root, concat(kLeaving, name));
  files.remove_all(leaving);
  files.rename(join(root, name), leaving);
  files.remove_all(leaving);
}

namespace {

bool is_whole(FileSystem& files, const std::string& folder) {
  try {
    read_whole(files, folder);
    return true;
  } catch (const CheckpointError&) {
    return false;
  }
}

}  // namespace

std::vector<std::string> prune(FileSystem& files, const std::string& root, int keep,
                               const std::string& also) {
  std::vector<std::string> all = list_checkpoints(files, root);
  const std::optional<std::string> latest = read_latest(files, root);
  // Newest first: what is damaged takes the place of none that could be loaded.
  int kept = 0;
  const auto stays = [&](const std::string& name) {
    if (kept < keep) {
      if (is_whole(files, join(root, name))) ++kept;
      return true;
    }
    return name == also || name == latest;
  };
  std::vector<std::string> removed;
  for (auto name = all.rbegin(); name != all.rend(); ++name) {
    if (!stays(*name)) removed.push_back(*name);
  }
  std::reverse(removed.begin(), removed.end());
  for (const std::string& name : removed) discard(files, root, name);
  return removed;
}

CheckpointManifest read_whole(FileSystem& files, const std::string& folder) {
  const std::string path = join(folder, kManifest);
  if (!files.exists(path)) {
    throw CheckpointError(path + " is missing: without it the folder is no checkpoint");
  }
  CheckpointManifest manifest = parse_manifest(read_file(files, path), path);
  make_index(manifest, path);
  std::string wrong;
  for (const CheckpointFile& file : manifest.files) {
    const std::string shard = join(folder, file.name);
    if (files.kind(shard) != FileKind::kFile) {
      wrong += concat(wrong.empty() ? "" : "; ", shard, " is missing");
    } else if (const std::int64_t bytes = files.open(shard)->size(); bytes != file.bytes) {
      wrong +=
          concat(wrong.empty() ? "" : "; ", shard, " has ", bytes, " bytes, expected ", file.bytes);
    }
  }
  if (!wrong.empty()) throw CheckpointError(wrong);
  return manifest;
}

namespace {

CheckpointPlace find_in_root(FileSystem& files, const std::string& root) {
  const std::optional<std::string> latest = read_latest(files, root);
  std::vector<std::string> names = list_checkpoints(files, root);
  if (!latest && names.empty()) {
    throw CheckpointError(concat("there is no checkpoint in ", root, ": neither ", kManifest,
                                 " nor ", kLatest, " nor a folder ", step_folder(0)));
  }
  // In the order in which they are tried.
  std::reverse(names.begin(), names.end());
  const auto prefer = [&](const std::string& name) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at != names.end()) std::rotate(names.begin(), at, at + 1);
  };
  std::string note = concat(join(root, kLatest), " is missing");
  if (latest && !parse_step_folder(*latest)) {
    note = concat(join(root, kLatest), " names no checkpoint");
  } else if (latest) {
    note.clear();
    prefer(concat(*latest, kReplaced));
    prefer(*latest);
    if (names.empty() || names.front() != *latest) {
      note = concat(join(root, *latest), ", which ", kLatest, " names, is missing");
    }
  }
  for (const std::string& name : names) {
    const std::string folder = join(root, name);
    try {
      read_whole(files, folder);
      return {folder, note.empty() ? "" : concat(note, "; taken is ", folder)};
    } catch (const CheckpointError& error) {
      note += concat(note.empty() ? "" : "; ", error.what());
    }
  }
  throw CheckpointError(concat("no checkpoint in ", root, " is whole: ", note));
}

}  // namespace

}  // namespace checkpoint

CheckpointPlace find_checkpoint(FileSystem& files, const std::string& path) {
  using namespace checkpoint;
  if (files.kind(path) != FileKind::kFolder) {
    throw CheckpointError(path +
                          " is no folder; give that of a checkpoint, or one with some in it");
  }
  // A folder that is named as a checkpoint is meant as one, whatever is left of it.
  if (named_as_checkpoint(path) || files.exists(join(path, kManifest))) {
    read_whole(files, path);
    return {path, ""};
  }
  return find_in_root(files, path);
}

std::vector<std::string> list_checkpoints(FileSystem& files, const std::string& root) {
  using namespace checkpoint;
  std::vector<std::string> names;
  if (files.kind(root) == FileKind::kMissing) return names;
  for (const std::string& name : files.list(root)) {
    if (!parse_step_folder(name)) continue;
    if (files.kind(join(root, name)) == FileKind::kFolder) names.push_back(name);
  }
  // What is about to be replaced is older than what replaces it.
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    const StepName x = *parse_step_folder(a), y = *parse_step_folder(b);
    return x.step != y.step ? x.step < y.step : x.replaced > y.replaced;
  });
  return names;
}

void prepare_checkpoint_folder(FileSystem& files, const std::string& root) {
  using namespace checkpoint;
  make_root(files, root);
  const std::string trial = join(root, std::string(kLeaving) + "trial");
  files.remove_all(trial);
  files.create_folder(trial);
  files.remove_all(trial);
}

std::vector<std::string> prune_checkpoints(FileSystem& files, const std::string& root, int keep) {
  if (keep < 1) throw UsageError(detail::concat("prune: keep is ", keep, ", valid: 1 or more"));
  if (files.kind(root) != FileKind::kFolder) {
    throw CheckpointError(root + " is no folder; there is nothing in it to prune");
  }
  if (list_checkpoints(files, root).empty()) return {};
  // That stays on which a run can go on, also where `latest` does not name it.
  const std::string taken = find_checkpoint(files, root).folder;
  return checkpoint::prune(files, root, keep, taken.substr(taken.rfind('/') + 1));
}

}  // namespace zero
