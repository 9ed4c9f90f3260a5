// A file system that fails on purpose, to be put in front of another. Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "zero/error.hpp"
#include "zero/file_system.hpp"

namespace zero::faults {

// The process is gone: nothing is done from here on. No error of the library, so that nobody tidies
// up.
class Killed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class FaultyFileSystem final : public FileSystem {
 public:
  enum class Fault {
    kNone,
    kError,     // the call fails, later ones do not
    kNoSpace,   // from this call on whatever needs space fails; a write does half of its work
    kReadOnly,  // from this call on whatever changes something fails
    kKilled,    // this call and all later ones throw Killed; a write does half of its work
  };
  explicit FaultyFileSystem(FileSystem& inner) : inner_(inner) {}
  // Counts from 0 anew; call number `at` is the first that goes wrong.
  void arm(Fault fault, int at) {
    fault_ = fault;
    at_ = at;
    calls_ = 0;
  }
  int calls() const { return calls_; }
  // What the call that failed was about: "write PATH".
  const std::string& failed() const { return failed_; }

  FileKind kind(const std::string& path) override {
    look("look at", path);
    return inner_.kind(path);
  }
  std::string resolve(const std::string& path) override {
    look("follow the links of", path);
    return inner_.resolve(path);
  }
  std::unique_ptr<WritableFile> create(const std::string& path) override {
    grow("create", path);
    return std::make_unique<Writer>(*this, inner_.create(path), path);
  }
  std::unique_ptr<ReadableFile> open(const std::string& path) override {
    look("open", path);
    return std::make_unique<Reader>(*this, inner_.open(path), path);
  }
  void create_folders(const std::string& path) override {
    grow("create the folder", path);
    inner_.create_folders(path);
  }
  void create_folder(const std::string& path) override {
    grow("create the folder", path);
    inner_.create_folder(path);
  }
  std::vector<std::string> list(const std::string& path) override {
    look("list", path);
    return inner_.list(path);
  }
  void remove(const std::string& path) override {
    change("remove", path);
    inner_.remove(path);
  }
  // File by file, so that it can be stopped on the way.
  void remove_all(const std::string& path) override {
    const FileKind kind = inner_.kind(path);
    if (kind == FileKind::kMissing) return;
    if (kind != FileKind::kFolder) return remove(path);
    for (const std::string& name : inner_.list(path)) remove_all(path + "/" + name);
    change("remove the folder", path);
    inner_.remove_all(path);
  }
  void rename(const std::string& from, const std::string& to) override {
    change("rename", from);
    inner_.rename(from, to);
  }
  void sync_folder(const std::string& path) override {
    look("sync the folder", path);
    inner_.sync_folder(path);
  }

 private:
  class Writer final : public WritableFile {
   public:
    Writer(FaultyFileSystem& outer, std::unique_ptr<WritableFile> inner, std::string path)
        : outer_(outer), inner_(std::move(inner)), path_(std::move(path)) {}
    void write(std::span<const std::byte> bytes) override {
      try {
        outer_.grow("write", path_);
      } catch (...) {
        if (outer_.calls_ - 1 == outer_.at_) inner_->write(bytes.first(bytes.size() / 2));
        throw;
      }
      inner_->write(bytes);
    }
    void sync() override {
      outer_.grow("sync", path_);
      inner_->sync();
    }
    void close() override {
      outer_.look("close", path_);
      inner_->close();
    }

   private:
    FaultyFileSystem& outer_;
    std::unique_ptr<WritableFile> inner_;
    std::string path_;
  };
  class Reader final : public ReadableFile {
   public:
    Reader(FaultyFileSystem& outer, std::unique_ptr<ReadableFile> inner, std::string path)
        : outer_(outer), inner_(std::move(inner)), path_(std::move(path)) {}
    std::int64_t size() const override { return inner_->size(); }
    void read_at(std::int64_t offset, std::span<std::byte> out) const override {
      outer_.look("read", path_);
      inner_->read_at(offset, out);
    }

   private:
    FaultyFileSystem& outer_;
    std::unique_ptr<ReadableFile> inner_;
    std::string path_;
  };

  // Calls that change nothing; that change names; that need space as well.
  void look(const char* operation, const std::string& path) { count(operation, path, 0); }
  void change(const char* operation, const std::string& path) { count(operation, path, 1); }
  void grow(const char* operation, const std::string& path) { count(operation, path, 2); }
  void count(const char* operation, const std::string& path, int needs) {
    const int call = calls_++;
    if (call == at_ && fault_ != Fault::kNone) failed_ = std::string(operation) + " " + path;
    const auto fail = [&](const char* why) {
      throw CheckpointError(detail::concat("cannot ", operation, " ", path, ": ", why));
    };
    switch (fault_) {
      case Fault::kNone:
        return;
      case Fault::kError:
        if (call == at_) fail("Input/output error");
        return;
      case Fault::kNoSpace:
        if (call >= at_ && needs == 2) fail("No space left on device");
        return;
      case Fault::kReadOnly:
        if (call >= at_ && needs >= 1) fail("Read-only file system");
        return;
      case Fault::kKilled:
        if (call >= at_) throw Killed(detail::concat("killed at call ", at_));
    }
  }

  FileSystem& inner_;
  Fault fault_ = Fault::kNone;
  int at_ = -1;
  std::atomic<int> calls_ = 0;
  std::string failed_;
};

}  // namespace zero::faults
