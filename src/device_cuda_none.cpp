// In the place of the CUDA device where the library is built without CUDA.
#include "zero/device.hpp"
#include "zero/error.hpp"

namespace zero {

std::unique_ptr<Device> make_cuda_device(int index) {
  throw CudaError(detail::concat("CUDA device ", index,
                                 ": this library is built without CUDA; configure it with "
                                 "-DZERO_CUDA=ON where a CUDA toolkit is installed"));
}

int cuda_device_count() noexcept { return 0; }
void connect_cuda_devices(int) {}

}  // namespace zero
