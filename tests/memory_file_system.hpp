// A file system in memory that knows what is on the disk: power_loss() takes away what was not
// synced. Paths start with "/". Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "zero/error.hpp"
#include "zero/file_system.hpp"

namespace zero::faults {

class MemoryFileSystem final : public FileSystem {
  struct Node {
    bool folder = false;
    std::vector<std::byte> data, durable_data;
    std::map<std::string, std::shared_ptr<Node>> entries, durable_entries;
  };
  using NodePtr = std::shared_ptr<Node>;

 public:
  MemoryFileSystem() { root_->folder = true; }

  FileKind kind(const std::string& path) override {
    const std::scoped_lock lock(mutex_);
    const NodePtr node = find(path);
    if (node == nullptr) return FileKind::kMissing;
    return node->folder ? FileKind::kFolder : FileKind::kFile;
  }
  std::unique_ptr<WritableFile> create(const std::string& path) override {
    const std::scoped_lock lock(mutex_);
    return std::make_unique<Writer>(mutex_, add(path, false, "create"));
  }
  std::unique_ptr<ReadableFile> open(const std::string& path) override {
    const std::scoped_lock lock(mutex_);
    const NodePtr node = find(path);
    if (node == nullptr || node->folder) fail("open", path, "No such file or directory");
    return std::make_unique<Reader>(mutex_, node, path);
  }
  void create_folders(const std::string& path) override {
    for (std::size_t at = 1; at <= path.size(); at = path.find('/', at), ++at) {
      const std::string above = path.substr(0, path.find('/', at));
      if (kind(above) != FileKind::kFolder) {
        create_folder(above);
        sync_folder(parent_of(above));
      }
      if (path.find('/', at) == std::string::npos) return;
    }
  }
  void create_folder(const std::string& path) override {
    const std::scoped_lock lock(mutex_);
    add(path, true, "create the folder");
  }
  std::vector<std::string> list(const std::string& path) override {
    const std::scoped_lock lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, node] : folder(path, "list")->entries) names.push_back(name);
    return names;
  }
  void remove(const std::string& path) override {
    const std::scoped_lock lock(mutex_);
    const NodePtr node = find(path);
    if (node == nullptr || node->folder) fail("remove", path, "No such file or directory");
    folder(parent_of(path), "remove")->entries.erase(name_of(path));
  }
  void remove_all(const std::string& path) override {
    const std::scoped_lock lock(mutex_);
    if (find(path) != nullptr) folder(parent_of(path), "remove")->entries.erase(name_of(path));
  }
  void rename(const std::string& from, const std::string& to) override {
    const std::scoped_lock lock(mutex_);
    const NodePtr node = find(from), there = find(to);
    if (node == nullptr) fail("rename", from, "No such file or directory");
    if (there != nullptr && (node->folder || there->folder)) fail("rename", to, "File exists");
    folder(parent_of(from), "rename")->entries.erase(name_of(from));
    folder(parent_of(to), "rename")->entries[name_of(to)] = node;
  }
  void sync_folder(const std::string& path) override {
    const std::scoped_lock lock(mutex_);
    const NodePtr node = folder(path, "sync the folder");
    node->durable_entries = node->entries;
  }

  // The machine starts anew. What was not synced is gone; with `chance`, some of it is not.
  void power_loss(std::mt19937* chance = nullptr) {
    const std::scoped_lock lock(mutex_);
    lose(*root_, chance);
  }
  // The bytes of a file, to be changed behind everyone's back.
  std::vector<std::byte>& bytes(const std::string& path) {
    const std::scoped_lock lock(mutex_);
    const NodePtr node = find(path);
    if (node == nullptr) fail("find", path, "No such file or directory");
    return node->data;
  }

 private:
  class Writer final : public WritableFile {
   public:
    Writer(std::mutex& mutex, NodePtr node) : mutex_(mutex), node_(std::move(node)) {}
    void write(std::span<const std::byte> bytes) override {
      const std::scoped_lock lock(mutex_);
      node_->data.insert(node_->data.end(), bytes.begin(), bytes.end());
    }
    void sync() override {
      const std::scoped_lock lock(mutex_);
      node_->durable_data = node_->data;
    }
    void close() override {}

   private:
    std::mutex& mutex_;
    NodePtr node_;
  };
  class Reader final : public ReadableFile {
   public:
    Reader(std::mutex& mutex, NodePtr node, std::string path)
        : mutex_(mutex), node_(std::move(node)), path_(std::move(path)) {}
    std::int64_t size() const override {
      const std::scoped_lock lock(mutex_);
      return static_cast<std::int64_t>(node_->data.size());
    }
    void read_at(std::int64_t offset, std::span<std::byte> out) const override {
      const std::scoped_lock lock(mutex_);
      const auto from = static_cast<std::size_t>(offset);
      if (from + out.size() > node_->data.size()) fail("read", path_, "it ends before");
      std::copy_n(node_->data.begin() + offset, out.size(), out.begin());
    }

   private:
    std::mutex& mutex_;
    NodePtr node_;
    std::string path_;
  };

  [[noreturn]] static void fail(const char* operation, const std::string& path,
                                const std::string& why) {
    throw CheckpointError(detail::concat("cannot ", operation, " ", path, ": ", why));
  }
  static std::string parent_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == 0 ? "/" : path.substr(0, slash);
  }
  static std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

  NodePtr find(const std::string& path) const {
    NodePtr node = root_;
    std::size_t at = 0;
    while (node != nullptr && at < path.size()) {
      const std::size_t end = std::min(path.find('/', at), path.size());
      const std::string name = path.substr(at, end - at);
      at = end + 1;
      if (name.empty()) continue;
      const auto next = node->entries.find(name);
      node = next == node->entries.end() ? nullptr : next->second;
    }
    return node;
  }
  NodePtr folder(const std::string& path, const char* operation) const {
    const NodePtr node = find(path);
    if (node == nullptr || !node->folder) fail(operation, path, "No such file or directory");
    return node;
  }
  NodePtr add(const std::string& path, bool is_folder, const char* operation) {
    if (find(path) != nullptr) fail(operation, path, "File exists");
    const auto node = std::make_shared<Node>();
    node->folder = is_folder;
    folder(parent_of(path), operation)->entries[name_of(path)] = node;
    return node;
  }
  static void lose(Node& node, std::mt19937* chance) {
    const auto lucky = [&] { return chance != nullptr && (*chance)() % 2 == 0; };
    if (!lucky()) node.data = node.durable_data;
    if (!lucky()) node.entries = node.durable_entries;
    node.durable_data = node.data;
    node.durable_entries = node.entries;
    for (auto& [name, entry] : node.entries) lose(*entry, chance);
  }

  std::mutex mutex_;
  NodePtr root_ = std::make_shared<Node>();
};

}  // namespace zero::faults
