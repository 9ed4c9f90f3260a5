#include "zero/file_system.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "src/file_io.hpp"
#include "zero/error.hpp"

namespace zero {

namespace {

namespace fs = std::filesystem;

CheckpointError failure(const char* operation, const std::string& path, const std::string& why) {
  return CheckpointError(detail::concat("cannot ", operation, " ", path, ": ", why));
}

CheckpointError failure(const char* operation, const std::string& path, int code) {
  return failure(operation, path, std::generic_category().message(code));
}

// Calls again what a signal interrupted.
template <class Call>
int unless_interrupted(Call call) {
  int result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

class Descriptor {
 public:
  Descriptor(const char* operation, const std::string& path, int flags)
      : number_(unless_interrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); })) {
    if (number_ < 0) throw failure(operation, path, errno);
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }
  // An error of the close is the last chance to hear of a write that failed (NFS). Interrupted or
  // not, the descriptor is gone.
  bool close() { return ::close(std::exchange(number_, -1)) == 0 || errno == EINTR; }

 private:
  int number_;
};

class PosixWritable final : public WritableFile {
 public:
  explicit PosixWritable(const std::string& path)
      : path_(path), file_("create", path, O_WRONLY | O_CREAT | O_EXCL) {}
  void write(std::span<const std::byte> bytes) override {
    const bool done = write_fully(bytes, [&](const std::byte* data, std::size_t count) {
      return ::write(file_.number(), data, count);
    });
    if (!done) throw failure("write", path_, errno);
  }
  void sync() override {
    if (unless_interrupted([&] { return ::fsync(file_.number()); }) != 0) {
      throw failure("sync", path_, errno);
    }
  }
  void close() override {
    if (!file_.close()) throw failure("close", path_, errno);
  }

 private:
  std::string path_;
  Descriptor file_;
};

class PosixReadable final : public ReadableFile {
 public:
  // Where it is no plain file, open() is not to wait for anyone; where it is, that says nothing.
  explicit PosixReadable(const std::string& path)
      : path_(path), file_("open", path, O_RDONLY | O_NONBLOCK | O_NOCTTY) {
    struct stat status {};
    if (::fstat(file_.number(), &status) != 0) throw failure("look at", path, errno);
    if (!S_ISREG(status.st_mode)) throw failure("open", path, "it is no plain file");
    size_ = status.st_size;
  }
  std::int64_t size() const override { return size_; }
  void read_at(std::int64_t offset, std::span<std::byte> out) const override {
    const std::int64_t got =
        read_fully(offset, out, [&](std::byte* data, std::size_t count, std::int64_t at) {
          return ::pread(file_.number(), data, count, at);
        });
    if (got < 0) throw failure("read", path_, errno);
    if (got != static_cast<std::int64_t>(out.size())) {
      throw failure("read", path_,
                    detail::concat("it ends after ", offset + got, " bytes, wanted ", out.size(),
                                   " from ", offset, " on"));
    }
  }

 private:
  std::string path_;
  Descriptor file_;
  std::int64_t size_ = 0;
};

class PosixFileSystem final : public FileSystem {
 public:
  FileKind kind(const std::string& path) override {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return FileKind::kMissing;
      throw failure("look at", path, errno);
    }
    if (S_ISREG(status.st_mode)) return FileKind::kFile;
    return S_ISDIR(status.st_mode) ? FileKind::kFolder : FileKind::kOther;
  }

  std::string resolve(const std::string& path) override {
    std::error_code error;
    const fs::path there = fs::canonical(path, error);
    if (!error) return there.string();
    const fs::path name = fs::path(path).filename();
    const bool is_link = fs::is_symlink(fs::symlink_status(path));
    if (error != std::errc::no_such_file_or_directory || is_link || name.empty()) {
      throw failure("follow the links of", path, error.value());
    }
    const fs::path parent = fs::path(path).parent_path();
    const fs::path above = fs::canonical(parent.empty() ? "." : parent, error);
    if (error) throw failure("find the folder of", path, error.value());
    return (above / name).string();
  }
  std::unique_ptr<WritableFile> create(const std::string& path) override {
    return std::make_unique<PosixWritable>(path);
  }
  std::unique_ptr<ReadableFile> open(const std::string& path) override {
    return std::make_unique<PosixReadable>(path);
  }

  void create_folders(const std::string& path) override {
    if (kind(path) == FileKind::kFolder) return;
    const fs::path above = fs::path(path).has_filename()
                               ? fs::path(path).parent_path()
                               : fs::path(path).parent_path().parent_path();
    const std::string parent = above.empty() ? "." : above.string();
    create_folders(parent);
    if (::mkdir(path.c_str(), 0777) != 0) {
      // Another process may have been faster.
      if (errno == EEXIST && kind(path) == FileKind::kFolder) return;
      throw failure("create the folder", path, errno == EEXIST ? ENOTDIR : errno);
    }
    sync_folder(parent);
  }
  void create_folder(const std::string& path) override {
    if (::mkdir(path.c_str(), 0777) != 0) throw failure("create the folder", path, errno);
  }

  std::vector<std::string> list(const std::string& path) override {
    std::vector<std::string> names;
    std::error_code error;
    fs::directory_iterator at(path, error);
    while (!error && at != fs::directory_iterator()) {
      names.push_back(at->path().filename().string());
      at.increment(error);
    }
    if (error) throw failure("list", path, error.value());
    std::sort(names.begin(), names.end());
    return names;
  }

  void remove(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) throw failure("remove", path, errno);
  }
  void remove_all(const std::string& path) override {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) throw failure("remove", path, error.value());
  }
  void rename(const std::string& from, const std::string& to) override {
    if (std::rename(from.c_str(), to.c_str()) != 0) {
      throw failure("rename", detail::concat(from, " to ", to), errno);
    }
  }

  void sync_folder(const std::string& path) override {
    const Descriptor folder("open the folder", path, O_RDONLY | O_DIRECTORY);
    // EINVAL: of a file system that writes its folders without being asked.
    if (unless_interrupted([&] { return ::fsync(folder.number()); }) != 0 && errno != EINVAL) {
      throw failure("sync the folder", path, errno);
    }
  }
};

}  // namespace

FileSystem& posix_file_system() {
  static PosixFileSystem files;
  return files;
}

std::vector<std::byte> read_file(FileSystem& files, const std::string& path) {
  const auto file = files.open(path);
  std::vector<std::byte> bytes(static_cast<std::size_t>(file->size()));
  file->read_at(0, bytes);
  return bytes;
}

void write_file(FileSystem& files, const std::string& path, std::span<const std::byte> bytes) {
  const auto file = files.create(path);
  file->write(bytes);
  file->sync();
  file->close();
}

}  // namespace zero
