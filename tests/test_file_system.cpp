// The real file system, and the loops around calls that stop half-way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "src/file_io.hpp"
#include "tests/memory_file_system.hpp"
#include "tests/temporary_folder.hpp"
#include "zero/error.hpp"
#include "zero/file_system.hpp"

namespace zero {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class Body>
std::string refusal(Body body) {
  try {
    body();
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "";
}

// What every file system does, this machine's and the one that tests have in memory.
void expect_contract(FileSystem& files, const std::string& root) {
  const std::string a = root + "/a", b = root + "/b";
  EXPECT_EQ(files.kind(a), FileKind::kMissing);
  EXPECT_EQ(files.kind(a + "/below"), FileKind::kMissing);
  EXPECT_EQ(files.kind(root), FileKind::kFolder);
  {
    const auto file = files.create(a);
    file->write(bytes_of("12345"));
    file->write({});
    file->write(bytes_of("678"));
    file->sync();
    file->close();
  }
  EXPECT_EQ(files.kind(a), FileKind::kFile);
  EXPECT_EQ(files.kind(a + "/below"), FileKind::kMissing);
  EXPECT_EQ(text_of(read_file(files, a)), "12345678");
  const auto file = files.open(a);
  EXPECT_EQ(file->size(), 8);
  std::vector<std::byte> part(3);
  file->read_at(5, part);
  EXPECT_EQ(text_of(part), "678");
  EXPECT_THAT(refusal([&] { file->read_at(6, part); }), AllOf(HasSubstr("read " + a)));
  EXPECT_THAT(refusal([&] { files.create(a); }), HasSubstr("cannot create " + a + ": File exists"));
  EXPECT_THAT(refusal([&] { files.open(b); }),
              HasSubstr("cannot open " + b + ": No such file or directory"));

  write_file(files, b, bytes_of("new"));
  files.rename(b, a);  // in the place of the old one
  EXPECT_EQ(text_of(read_file(files, a)), "new");
  EXPECT_THAT(files.list(root), ElementsAre("a"));
  EXPECT_NE(refusal([&] { files.rename(b, a); }), "");

  files.create_folder(root + "/f");
  EXPECT_THAT(refusal([&] { files.create_folder(root + "/f"); }), HasSubstr("File exists"));
  files.create_folders(root + "/f/g/h");
  files.create_folders(root + "/f/g/h");
  for (const char* name : {"z", "10", "9"}) write_file(files, root + "/f/" + name, {});
  EXPECT_THAT(files.list(root + "/f"), ElementsAre("10", "9", "g", "z"));
  EXPECT_THAT(files.list(root + "/f/g/h"), IsEmpty());
  files.sync_folder(root + "/f");
  files.rename(root + "/f", root + "/moved");
  files.remove(root + "/moved/9");
  EXPECT_NE(refusal([&] { files.remove(root + "/moved/9"); }), "");
  EXPECT_NE(refusal([&] { files.remove(root + "/moved/g"); }), "");
  files.remove_all(root + "/moved");
  files.remove_all(root + "/moved");
  EXPECT_THAT(files.list(root), ElementsAre("a"));
  EXPECT_NE(refusal([&] { files.list(root + "/moved"); }), "");
  EXPECT_NE(refusal([&] { files.list(a); }), "");
  EXPECT_NE(refusal([&] { files.sync_folder(root + "/moved"); }), "");
  EXPECT_NE(refusal([&] { files.create_folders(a + "/x"); }), "");
  files.remove_all(a);
  EXPECT_THAT(files.list(root), IsEmpty());
}

TEST(FileSystem, ContractOfThisMachine) {
  const test::TemporaryFolder scratch;
  expect_contract(posix_file_system(), scratch.path());
}

TEST(FileSystem, ContractInMemory) {
  faults::MemoryFileSystem files;
  files.create_folder("/root");
  expect_contract(files, "/root");
}

TEST(FileSystem, LinksAreLookedThroughButNotRemovedThrough) {
  const test::TemporaryFolder scratch;
  FileSystem& files = posix_file_system();
  files.create_folders(scratch / "kept/inside");
  files.create_folder(scratch / "gone");
  std::filesystem::create_symlink(scratch / "kept", scratch / "gone/link");
  std::filesystem::create_symlink(scratch / "nowhere", scratch / "dangling");
  EXPECT_EQ(files.kind(scratch / "gone/link"), FileKind::kFolder);
  EXPECT_EQ(files.kind(scratch / "dangling"), FileKind::kMissing);
  files.remove_all(scratch / "gone");
  EXPECT_THAT(files.list(scratch.path()), ElementsAre("dangling", "kept"));
  EXPECT_THAT(files.list(scratch / "kept"), ElementsAre("inside"));
  files.create_folders(scratch / "kept/inside/");  // a slash at the end
  files.create_folders(scratch / "kept/more/");
  EXPECT_THAT(files.list(scratch / "kept"), ElementsAre("inside", "more"));
}

TEST(FileSystem, WhatIsNoPlainFileIsNotOpened) {
  const test::TemporaryFolder scratch;
  FileSystem& files = posix_file_system();
  EXPECT_EQ(files.kind("/dev/null"), FileKind::kOther);
  EXPECT_THAT(refusal([&] { files.open("/dev/null"); }), HasSubstr("no plain file"));
  EXPECT_THAT(refusal([&] { files.open(scratch.path()); }), HasSubstr("no plain file"));
  EXPECT_THAT(refusal([&] { files.create_folders("/dev/null/x"); }), HasSubstr("/dev/null"));
  // A pipe: nobody waits for one who writes.
  ASSERT_EQ(::mkfifo((scratch / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(files.kind(scratch / "pipe"), FileKind::kOther);
  EXPECT_EQ(refusal([&] { files.open(scratch / "pipe"); }),
            "cannot open " + (scratch / "pipe") + ": it is no plain file");
}

TEST(FileSystem, APathWithoutLinks) {
  const test::TemporaryFolder scratch;
  FileSystem& files = posix_file_system();
  // The temporary folder itself may be behind a link.
  const std::string root = std::filesystem::canonical(scratch.path()).string();
  files.create_folders(scratch / "a/b");
  write_file(files, scratch / "a/file", {});
  std::filesystem::create_symlink("a/b", scratch / "to_b");
  std::filesystem::create_symlink("../file", scratch / "a/b/to_file");
  std::filesystem::create_symlink("nowhere", scratch / "dangling");
  std::filesystem::create_symlink("loop", scratch / "loop");
  EXPECT_EQ(files.resolve(scratch / "a/file"), root + "/a/file");
  EXPECT_EQ(files.resolve(scratch / "to_b"), root + "/a/b");
  EXPECT_EQ(files.resolve(scratch / "to_b/to_file"), root + "/a/file");
  EXPECT_EQ(files.resolve(scratch / "to_b/../file"), root + "/a/file");
  EXPECT_EQ(files.resolve(scratch / "to_b/new"), root + "/a/b/new") << "its last name may be new";
  EXPECT_EQ(files.resolve("new-and-not-there"),
            (std::filesystem::canonical(".") / "new-and-not-there").string());
  for (const char* nowhere : {"dangling", "loop", "nowhere/new", "a/file/new"}) {
    EXPECT_THAT(refusal([&] { files.resolve(scratch / nowhere); }), HasSubstr(nowhere));
  }
}

// The system writes up to the limit and says how much that was; the second call fails.
TEST(FileSystem, AWriteThatStopsHalfWayIsToldWithItsReason) {
  const test::TemporaryFolder scratch;
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit limit = before;
  limit.rlim_cur = 100;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto file = posix_file_system().create(scratch / "full");
  const std::string error = refusal([&] { file->write(std::vector<std::byte>(101)); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(error, "cannot write " + (scratch / "full") + ": File too large");
  EXPECT_EQ(std::filesystem::file_size(scratch / "full"), 100u);
}

// What a system call answers: a count, or an error number below zero.
struct Answers {
  std::deque<long> left;
  std::vector<std::size_t> asked;
  long next(std::size_t count) {
    asked.push_back(count);
    const long answer = left.empty() ? static_cast<long>(count) : left.front();
    if (!left.empty()) left.pop_front();
    if (answer >= 0) return answer;
    errno = static_cast<int>(-answer);
    return -1;
  }
};

TEST(FileSystem, WritesGoOnWhereTheyStopped) {
  const std::string text = "abcdefgh";
  const auto write = [&](std::deque<long> left, std::string& written, Answers& answers) {
    answers.left = std::move(left);
    return write_fully(bytes_of(text), [&](const std::byte* data, std::size_t count) {
      const long answer = answers.next(count);
      if (answer > 0) {
        written.append(reinterpret_cast<const char*>(data), static_cast<std::size_t>(answer));
      }
      return answer;
    });
  };
  {
    std::string written;
    Answers answers;
    EXPECT_TRUE(write({-EINTR, 3, -EINTR, -EINTR, 1}, written, answers));
    EXPECT_EQ(written, text);
    EXPECT_THAT(answers.asked, ElementsAre(8, 8, 5, 5, 5, 4));
  }
  for (const int code : {ENOSPC, EIO}) {
    std::string written;
    Answers answers;
    EXPECT_FALSE(write({5, -code}, written, answers));
    EXPECT_EQ(errno, code);
    EXPECT_EQ(written, "abcde");
  }
  std::string written;
  Answers answers;
  EXPECT_FALSE(write({2, 0}, written, answers)) << "a write of nothing is not tried for ever";
  EXPECT_EQ(errno, EIO);
}

TEST(FileSystem, ReadsGoOnWhereTheyStopped) {
  const std::string text = "abcdefgh";
  const auto read = [&](std::deque<long> left, std::int64_t offset, std::string& out) {
    Answers answers{std::move(left), {}};
    return read_fully(offset, std::as_writable_bytes(std::span(out)),
                      [&](std::byte* data, std::size_t count, std::int64_t at) {
                        const auto from = std::min(static_cast<std::size_t>(at), text.size());
                        const long answer = answers.next(std::min(count, text.size() - from));
                        if (answer > 0) {
                          std::memcpy(data, text.data() + from, static_cast<std::size_t>(answer));
                        }
                        return answer;
                      });
  };
  std::string out(6, '.');
  EXPECT_EQ(read({-EINTR, 1, 2, -EINTR}, 2, out), 6);
  EXPECT_EQ(out, "cdefgh");
  out.assign(6, '.');
  EXPECT_EQ(read({1}, 5, out), 3) << "the end of the file";
  EXPECT_EQ(out, "fgh...");
  EXPECT_EQ(read({1, -EIO}, 0, out), -1);
  EXPECT_EQ(errno, EIO);
}

}  // namespace
}  // namespace zero
