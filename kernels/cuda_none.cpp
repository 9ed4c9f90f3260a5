// In the place of the CUDA kernels where the library is built without CUDA.
#include "kernels/cuda_kernels.hpp"

namespace zero::kernels {

const CudaKernels* cuda_kernels() { return nullptr; }

}  // namespace zero::kernels
