// In the place of NCCL where the library is built without it.
#include "src/communicator_nccl.hpp"
#include "zero/error.hpp"

namespace zero {
namespace {

[[noreturn]] void refuse(const char* what) {
  throw CommError(detail::concat(what,
                                 ": this library is built without NCCL; configure it with "
                                 "-DZERO_CUDA=ON where CMake finds nccl.h and libnccl. Ranks as "
                                 "threads of one process need neither (zero::run_ranks)"));
}

}  // namespace

NcclId make_nccl_id() { refuse("an id of NCCL"); }

namespace detail {

std::unique_ptr<Communicator> make_nccl_communicator(Device&, const NcclId&, int, int,
                                                     const NcclSettings&) {
  refuse("a world of NCCL");
}
std::unique_ptr<Communicator> make_nccl_communicator(Device&, ncclComm*, const NcclSettings&) {
  refuse("a world of NCCL");
}

}  // namespace detail
}  // namespace zero
