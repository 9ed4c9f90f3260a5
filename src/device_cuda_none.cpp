// In the place of the CUDA device where the library is built without CUDA.
#include "zero/device.hpp"
#include "zero/error.hpp"

namespace zero {
namespace {

[[noreturn]] void refuse(int index) {
  throw CudaError(detail::concat("CUDA device ", index,
                                 ": this library is built without CUDA; configure it with "
                                 "-DZERO_CUDA=ON where a CUDA toolkit is installed"));
}

}  // namespace

std::unique_ptr<Device> make_cuda_device(int index) { refuse(index); }
CudaMemory cuda_memory(int index) { refuse(index); }

int cuda_device_count() noexcept { return 0; }
void connect_cuda_devices(int) {}

}  // namespace zero
