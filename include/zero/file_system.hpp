// Files and folders as checkpoints need them. Passed in where it is used, so that a test can count
// the calls, break them, or let the power fail between two of them.
//
// Every call blocks. What fails throws CheckpointError with the operation, the path and the
// system's words. Interrupted calls (EINTR) and short reads and writes go on where they stopped.
//
// Thread-safety: a FileSystem may be used by many threads at once, a file by one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace zero {

// A new file, written from front to back.
class WritableFile {
 public:
  virtual ~WritableFile() = default;  // closes the file, if close() did not; errors are lost
  // Appends all of it. There is no buffer in between.
  virtual void write(std::span<const std::byte> bytes) = 0;
  // Returns when what was written is on the disk. After an error the file is lost: a second try
  // may say that all is well where it is not.
  virtual void sync() = 0;
  virtual void close() = 0;  // once, and the last call
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual std::int64_t size() const = 0;  // bytes, when it was opened
  // Fills all of `out` from `offset` bytes on. A file that ends before is an error.
  virtual void read_at(std::int64_t offset, std::span<std::byte> out) const = 0;
};

enum class FileKind : std::uint8_t { kMissing, kFile, kFolder, kOther };

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // What a path names; links are followed.
  virtual FileKind kind(const std::string& path) = 0;
  // The path as it is without links, for what is there or, its last name being free, could be
  // created. A link that leads nowhere is an error. As given in a file system without links.
  virtual std::string resolve(const std::string& path) { return path; }
  // The path must not be there yet.
  virtual std::unique_ptr<WritableFile> create(const std::string& path) = 0;
  // A plain file; anything else is an error at once, also a pipe into which nobody writes.
  virtual std::unique_ptr<ReadableFile> open(const std::string& path) = 0;
  // The folder and all above it, which may be there already; each new one is synced into the one
  // above it.
  virtual void create_folders(const std::string& path) = 0;
  // The folder must not be there yet.
  virtual void create_folder(const std::string& path) = 0;
  // Names in a folder, sorted, without "." and "..".
  virtual std::vector<std::string> list(const std::string& path) = 0;
  // A file.
  virtual void remove(const std::string& path) = 0;
  // A folder with all that is in it; links are not followed. Does nothing if it is not there.
  virtual void remove_all(const std::string& path) = 0;
  // At once for everyone who looks: a file takes the place of a file of that name; a folder must
  // find its new name free.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  // Returns when the names in the folder (created, renamed, removed) are on the disk.
  virtual void sync_folder(const std::string& path) = 0;

  bool exists(const std::string& path) { return kind(path) != FileKind::kMissing; }
};

// The file system of this machine. Without state.
FileSystem& posix_file_system();

// A whole file at once, for small ones. write_file() syncs it and closes it.
std::vector<std::byte> read_file(FileSystem& files, const std::string& path);
void write_file(FileSystem& files, const std::string& path, std::span<const std::byte> bytes);

}  // namespace zero
