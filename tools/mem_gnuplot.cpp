// Runs gnuplot without a shell and without files: script, picture and messages go through memory.
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "tools/mem_plot.hpp"
#include "zero/error.hpp"

extern char** environ;

namespace mem {

using zero::detail::concat;

namespace {

// A file without a name. Unlike a pipe it takes any amount, so neither side waits for the other.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& content = "")
      : fd_(memfd_create("zero-mem", MFD_CLOEXEC)) {
    if (fd_ < 0) fail("memfd_create");
    for (std::size_t done = 0; done < content.size();) {
      const ssize_t n = ::write(fd_, content.data() + done, content.size() - done);
      if (n < 0) fail("write");
      done += static_cast<std::size_t>(n);
    }
    ::lseek(fd_, 0, SEEK_SET);
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int fd() const { return fd_; }
  std::string content() const {
    std::string all;
    std::array<char, 65536> block;
    for (::lseek(fd_, 0, SEEK_SET);;) {
      const ssize_t n = ::read(fd_, block.data(), block.size());
      if (n < 0) fail("read");
      if (n == 0) return all;
      all.append(block.data(), static_cast<std::size_t>(n));
    }
  }

 private:
  [[noreturn]] static void fail(const char* call) {
    throw std::runtime_error(concat("--plot: ", call, ": ", std::strerror(errno)));
  }
  int fd_;
};

// Returns the exit status as of waitpid.
int run_gnuplot(const MemoryFile& in, const MemoryFile& out, const MemoryFile& errors) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.fd(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.fd(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors.fd(), STDERR_FILENO);
  std::string name = "gnuplot";
  std::string settings = "-d";  // not what the user's ~/.gnuplot says
  const std::array<char*, 3> argv = {name.data(), settings.data(), nullptr};
  pid_t pid = 0;
  const int failure = posix_spawnp(&pid, "gnuplot", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure == ENOENT) {
    throw std::runtime_error("--plot: gnuplot is not installed: apt-get install gnuplot-nox");
  }
  if (failure != 0) {
    throw std::runtime_error(concat("--plot: gnuplot cannot be run: ", std::strerror(failure)));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) throw std::runtime_error(concat("waitpid: ", std::strerror(errno)));
  }
  return status;
}

}  // namespace

void plot(const Chart& chart, const std::string& path) {
  const MemoryFile script(gnuplot_script(chart, image_format(path)));
  const MemoryFile picture;
  const MemoryFile errors;
  const int status = run_gnuplot(script, picture, errors);
  const std::string image = picture.content();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || image.empty()) {
    throw std::runtime_error("--plot: gnuplot failed: " + errors.content());
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << image;
  file.close();
  if (!file) throw std::runtime_error("--plot " + path + ": cannot be written");
}

}  // namespace mem
