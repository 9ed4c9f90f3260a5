// main() of the GoogleTest binaries. Under ZERO_TEST_DEVICE=cuda without a CUDA device nothing runs
// and the reason is said: exit code 77, which CTest shows as skipped.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/device_access.hpp"
#include "zero/error.hpp"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (zero::test::test_device() == zero::DeviceKind::kCuda) {
    try {
      zero::make_cuda_device();
    } catch (const zero::CudaError& error) {
      std::printf("skipped: %s\n", error.what());
      return 77;
    }
  }
  return RUN_ALL_TESTS();
}
