// The id by file. The file is text, so that a person can see what is there:
//   zero nccl id 1 / job TOKEN / world_size N / id HEX / end
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "src/communicator_deadline.hpp"
#include "zero/error.hpp"
#include "zero/nccl_id.hpp"

namespace zero {
namespace {

constexpr const char* kFirstLine = "zero nccl id 1";

std::string to_hex(const NcclId& id) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const std::byte byte : id.bytes) {
    hex += kDigits[std::to_integer<int>(byte >> 4)];
    hex += kDigits[std::to_integer<int>(byte & std::byte{15})];
  }
  return hex;
}

std::optional<NcclId> from_hex(const std::string& hex) {
  NcclId id;
  if (hex.size() != 2 * id.bytes.size()) return std::nullopt;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  for (std::size_t i = 0; i < id.bytes.size(); ++i) {
    const int high = digit(hex[2 * i]);
    const int low = digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    id.bytes[i] = static_cast<std::byte>(16 * high + low);
  }
  return id;
}

struct IdFile {
  std::string token;
  int world_size = 0;
  NcclId id;
};

std::string text_of(const IdFile& file) {
  return detail::concat(kFirstLine, "\njob ", file.token, "\nworld_size ", file.world_size, "\nid ",
                        to_hex(file.id), "\nend\n");
}

// What is at the path; where it is no whole file of ours, what it is instead is in `found`.
std::optional<IdFile> read_file(const std::string& path, std::string& found) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    found = detail::concat("no file that can be read (", std::strerror(errno), ")");
    return std::nullopt;
  }
  std::string text(4096, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  std::istringstream lines(text);
  std::string first, job, size, hex;
  std::getline(lines, first);
  std::getline(lines, job);
  std::getline(lines, size);
  std::getline(lines, hex);
  IdFile file;
  found = "a file that is no id of NCCL";
  if (first != kFirstLine || !job.starts_with("job ") || !hex.starts_with("id ")) {
    return std::nullopt;
  }
  file.token = job.substr(4);
  if (std::sscanf(size.c_str(), "world_size %d", &file.world_size) != 1) return std::nullopt;
  const std::optional<NcclId> id = from_hex(hex.substr(3));
  if (!id) return std::nullopt;
  file.id = *id;
  if (text != text_of(file)) return std::nullopt;
  found = detail::concat("the file of job '", file.token, "'");
  return file;
}

// Under a name of its own first: who sees the file under its own sees all of it.
void write_file(const std::string& path, const std::string& text) {
  const std::string draft = detail::concat(path, ".", ::getpid(), ".tmp");
  const auto refuse = [&](const char* what, const std::string& which) {
    const int error = errno;
    ::unlink(draft.c_str());
    throw CommError(detail::concat("the id of NCCL cannot be put into ", path, ": ", what, " ",
                                   which, ": ", std::strerror(error)));
  };
  const int file = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) refuse("opening", draft);
  bool good = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  good = good && ::fsync(file) == 0;
  if (::close(file) != 0 || !good) refuse("writing", draft);
  if (::rename(draft.c_str(), path.c_str()) != 0) refuse("renaming", draft);
}

NcclId wait_for_file(const std::string& path, const std::string& token, int rank, int world_size,
                     double timeout_s) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  for (;;) {
    std::string found;
    const std::optional<IdFile> file = read_file(path, found);
    if (file && file->token == token) {
      if (file->world_size == world_size) return file->id;
      throw CommError(detail::concat("rank ", rank, ": ", path, " is for ", file->world_size,
                                     " ranks of job '", token, "', and this rank is one of ",
                                     world_size));
    }
    if (std::chrono::duration<double>(Clock::now() - start).count() > timeout_s) {
      throw CommError(detail::concat("rank ", rank, ": no id of NCCL after ", timeout_s, " s: at ",
                                     path, " there is ", found,
                                     "; waited for rank 0 to put there that of job '", token, "'"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

NcclId exchange_nccl_id(const std::string& path, const std::string& job_token, int rank,
                        int world_size, std::chrono::duration<double> timeout) {
  if (rank < 0 || rank >= world_size) {
    throw UsageError(detail::concat("exchange_nccl_id: rank ", rank, " of ", world_size,
                                    "; ranks are 0 to world_size - 1"));
  }
  if (job_token.empty() || job_token.size() > 1024 ||
      job_token.find_first_of("\r\n") != std::string::npos) {
    throw UsageError(detail::concat("exchange_nccl_id: the job token is '", job_token,
                                    "'; it must be one line of 1 to 1024 characters"));
  }
  const double timeout_s = detail::checked_seconds(timeout);
  if (rank != 0) return wait_for_file(path, job_token, rank, world_size, timeout_s);
  const NcclId id = make_nccl_id();
  write_file(path, text_of({job_token, world_size, id}));
  return id;
}

}  // namespace zero
