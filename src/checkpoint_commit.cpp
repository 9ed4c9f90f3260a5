#include "src/checkpoint_commit.hpp"

#include <algorithm>
#include <cstdio>
#include <random>
#include <set>
#include <span>
#include <thread>

#include "src/checkpoint_folder.hpp"
#include "src/checkpoint_index.hpp"
#include "src/checkpoint_json.hpp"
#include "src/checkpoint_names.hpp"
#include "zero/error.hpp"

namespace zero::checkpoint {

namespace {

using detail::concat;
using Clock = std::chrono::steady_clock;

// For the files of other ranks when the one that commits leaves on an error.
constexpr std::chrono::seconds kGrace{2};

// So that what a late rank of a save before this one still writes does not get into this one.
std::string nonce() {
  char text[16];
  std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(std::random_device{}()));
  return text;
}

void write_text(FileSystem& files, const std::string& path, const std::string& text) {
  write_file(files, path, std::as_bytes(std::span(text)));
}

void publish(FileSystem& files, const std::string& folder, int rank, const Record& record) {
  const std::string name = record_file(rank);
  // A failure may be that of publishing a record: what is left of that is not in its way.
  const char* what = record.failure.empty() ? "" : "failed-";
  const std::string temporary = join(folder, concat(kTemporary, what, name));
  write_text(files, temporary, record_text(record));
  files.rename(temporary, join(folder, name));
}

// Takes away what crashes left, and finishes the way back of a checkpoint that was to be replaced.
void recover(FileSystem& files, const std::string& root) {
  for (const std::string& name : files.list(root)) {
    if (is_left_over(name)) {
      files.remove_all(join(root, name));
    } else if (const auto step = parse_step_folder(name); step && step->replaced) {
      const std::string plain = step_folder(step->step);
      if (files.exists(join(root, plain))) {
        discard(files, root, name);
      } else {
        files.rename(join(root, name), join(root, plain));
        files.sync_folder(root);
      }
    }
  }
}

std::string list_of(const std::set<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (const int rank : ranks) text += concat(rank == *ranks.begin() ? " " : ", ", rank);
  return text;
}

std::vector<CheckpointFile> collect(FileSystem& files, const std::string& folder, int world_size,
                                    Clock::time_point deadline, const std::atomic<bool>* given_up) {
  std::vector<CheckpointFile> collected(static_cast<std::size_t>(world_size));
  std::set<int> awaited;
  for (int rank = 0; rank < world_size; ++rank) awaited.insert(awaited.end(), rank);
  auto pause = std::chrono::milliseconds(1);
  bool leaving = false;
  for (;;) {
    // Where all ranks leave, each still finishes its file.
    if (!leaving && given_up != nullptr && given_up->load()) {
      leaving = true;
      deadline = std::min(deadline, Clock::now() + kGrace);
    }
    const bool last_look = Clock::now() >= deadline;
    if (!files.exists(folder)) {
      for (const int rank : awaited) {
        if (!files.exists(failed_folder(folder, rank))) continue;
        throw CheckpointError(concat("rank ", rank, " could write neither its file nor why"));
      }
      throw CheckpointError(folder + " is gone; does another job save there?");
    }
    const std::vector<std::string> names = files.list(folder);
    for (auto rank = awaited.begin(); rank != awaited.end();) {
      const std::string name = record_file(*rank);
      if (!std::binary_search(names.begin(), names.end(), name)) {
        ++rank;
        continue;
      }
      const std::string path = join(folder, name);
      Record record = parse_record(read_file(files, path), path);
      if (!record.failure.empty()) {
        throw CheckpointError(
            concat("rank ", *rank, " could not write its file: ", record.failure));
      }
      collected[static_cast<std::size_t>(*rank)] = std::move(record.file);
      rank = awaited.erase(rank);
    }
    if (awaited.empty()) return collected;
    if (last_look && leaving) {
      throw CheckpointError(concat("this rank left on an error, and ", list_of(awaited), " of ",
                                   world_size, " had not written its file"));
    }
    if (last_look) {
      throw CheckpointError(
          concat(list_of(awaited), " of ", world_size, " wrote nothing into ", folder,
                 " by the deadline; is it on a file system that all ranks share?"));
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(pause, deadline - Clock::now()));
    pause = std::min(2 * pause, std::chrono::milliseconds(50));
  }
}

void check_sizes(FileSystem& files, const std::string& folder,
                 const std::vector<CheckpointFile>& expected) {
  for (const CheckpointFile& file : expected) {
    const std::string path = join(folder, file.name);
    const std::int64_t bytes = files.exists(path) ? files.open(path)->size() : -1;
    if (bytes == file.bytes) continue;
    throw CheckpointError(
        concat(path, bytes < 0 ? std::string(" is missing") : concat(" has ", bytes, " bytes here"),
               ", but its rank wrote ", file.bytes,
               " bytes; is it on a file system that all ranks share, and does no other job save "
               "there?"));
  }
}

// Everything up to the moment from which it is a checkpoint.
std::string complete(FileSystem& files, const std::string& root, const std::string& name,
                     CheckpointManifest& manifest, Clock::time_point deadline,
                     const std::atomic<bool>* given_up) {
  const std::string folder = join(root, name);
  manifest.files = collect(files, folder, manifest.world_size, deadline, given_up);
  check_sizes(files, folder, manifest.files);
  make_index(manifest, folder);
  const std::string text = manifest_text(manifest);
  for (int rank = 0; rank < manifest.world_size; ++rank) {
    files.remove(join(folder, record_file(rank)));
  }
  files.sync_folder(folder);
  write_text(files, join(folder, kManifest), text);
  files.sync_folder(folder);

  const std::string step = step_folder(manifest.step);
  const std::string path = join(root, step);
  const std::string replaced = concat(step, kReplaced);
  const bool replaces = files.exists(path);
  if (replaces) files.rename(path, join(root, replaced));
  files.rename(folder, path);
  return path;
}

}  // namespace

std::string begin(FileSystem& files, const std::string& root, std::int64_t step) {
  if (step < 0) throw UsageError(concat("a checkpoint of step ", step, ", valid: 0 or more"));
  make_root(files, root);
  recover(files, root);
  const std::string name = concat(kTemporary, step_folder(step), "-", nonce());
  files.create_folder(join(root, name));
  return name;
}

void publish_record(FileSystem& files, const std::string& folder, int rank,
                    const CheckpointFile& file) {
  publish(files, folder, rank, {file, {}});
}

void publish_failure(FileSystem& files, const std::string& folder, int rank,
                     std::string_view message) {
  try {
    publish(files, folder, rank,
            {{}, message.empty() ? "(no reason given)" : std::string(message)});
  } catch (const CheckpointError&) {
    files.rename(folder, failed_folder(folder, rank));
  }
}

std::string commit(FileSystem& files, const std::string& root, const std::string& name,
                   CheckpointManifest manifest, Clock::time_point deadline, int keep,
                   const std::atomic<bool>* given_up) {
  std::string path;
  try {
    path = complete(files, root, name, manifest, deadline, given_up);
  } catch (const Error& error) {
    abandon(files, root, name);
    throw CheckpointError(concat("the checkpoint of step ", manifest.step, " in ", root,
                                 " is given up: ", error.what()));
  }
  try {
    const std::string step = step_folder(manifest.step);
    const std::string replaced = concat(step, kReplaced);
    files.sync_folder(root);
    if (files.exists(join(root, replaced))) discard(files, root, replaced);
    write_latest(files, root, step);
    if (keep > 0) prune(files, root, keep, step);
  } catch (const CheckpointError& error) {
    throw CheckpointError(
        concat(path, " is complete, but what comes after it failed: ", error.what()));
  }
  return path;
}

void abandon(FileSystem& files, const std::string& root, const std::string& name) noexcept {
  try {
    for (const std::string& there : files.list(root)) {  // also if it is a failed_folder()
      if (there.starts_with(name)) files.remove_all(join(root, there));
    }
  } catch (...) {  // The next save tries again.
  }
}

}  // namespace zero::checkpoint
