// How ranks that are processes find each other through NCCL: rank 0 makes an id, and every rank
// connects with it. The id travels by whatever the caller has, or by a file that all ranks see.
//
// Thread-safety: free functions, callable from any thread.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <string>

namespace zero {

// An ncclUniqueId: 128 bytes that mean something to NCCL only.
struct NcclId {
  std::array<std::byte, 128> bytes{};
  friend bool operator==(const NcclId&, const NcclId&) = default;
};

// A new id, to be handed to all ranks of one world and used once. The process that makes it takes
// part in connecting, so it has to be rank 0. Throws CommError where NCCL fails (no network
// interface, ...) or the library is built without NCCL.
NcclId make_nccl_id();

// Every rank calls it, in any order: rank 0 makes the id and puts it into the file, complete or not
// at all (a temporary name in the same folder, fsync, rename), and returns; the others block until
// the file is there. `job_token` tells one start of the job from another: it must be new for each
// start and the same on all ranks, e.g. the scheduler's job id and attempt. A file with another
// token is left over from another start and is never taken. The file stays; remove it on rank 0
// when all have connected (make_nccl_world_by_file does).
// Throws UsageError for a token that is empty or more than one line, a rank that is not in the
// world, or a timeout that is not above 0; CommError where the file cannot be written, is of this
// job but of another world size, or is not there after the timeout: then with the path, what was
// found there and what was waited for.
NcclId exchange_nccl_id(const std::string& path, const std::string& job_token, int rank,
                        int world_size, std::chrono::duration<double> timeout);

}  // namespace zero
