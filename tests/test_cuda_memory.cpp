// What the driver says of the memory of a CUDA device.
#include "tests/cuda_fixtures.hpp"

namespace zero::test {
namespace {

std::string refusal(int index) {
  try {
    cuda_memory(index);
    return "(accepted)";
  } catch (const CudaError& error) {
    return error.what();
  }
}

using DriverMemory = OnCuda;

// Other processes may take and give back meanwhile, so much is taken and half of it looked for.
TEST_F(DriverMemory, FallsByWhatADeviceTakesAndStaysWhileItKeepsIt) {
  const CudaMemory before = cuda_memory(0);
  EXPECT_GT(before.free, 0u);
  EXPECT_LE(before.free, before.total);
  const std::size_t bytes = before.free / 16;
  void* const memory = device->allocate(bytes);
  const CudaMemory taken = cuda_memory(0);
  EXPECT_EQ(taken.total, before.total);
  EXPECT_LE(taken.free, before.free - bytes / 2);
  device->deallocate(memory, bytes);
  EXPECT_LE(cuda_memory(0).free, before.free - bytes / 2);
}

TEST_F(DriverMemory, NamesADeviceThatIsNotThere) {
  for (const int index : {-1, cuda_device_count()}) {
    const std::string said = refusal(index);
    EXPECT_NE(said.find("CUDA device " + std::to_string(index) + ": there is no such device"),
              said.npos)
        << said;
  }
}

TEST(DriverMemoryAlone, WithoutADeviceTheErrorSaysSo) {
  if (cuda_device_count() > 0) GTEST_SKIP() << "there is a device";
  const std::string said = refusal(0);
  EXPECT_TRUE(said.find("no CUDA device here: ") != said.npos ||
              said.find("CUDA device 0: this library is built without CUDA") != said.npos)
      << said;
}

}  // namespace
}  // namespace zero::test
