// Runs tests on this machine's GPU. Exit status 3: there is no GPU, and nothing was run.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

/// After a faulting access, all later requests of this process to the device fail. Therefore the process ends with the
/// test that faulted (exit status 4), and `run` starts another process for the remaining tests.
class EndWithTheDevice final : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& test) override {
    static_cast<void>(cudaDeviceSynchronize());  // clears launch errors that the device survives
    const cudaError_t status = cudaDeviceSynchronize();
    if (status == cudaSuccess) return;
    std::printf("\n%s.%s lost the device: %s\n", test.test_suite_name(), test.name(), cudaGetErrorString(status));
    std::fflush(stdout);
    _exit(4);
  }
};

}  // namespace

int main(int argc, char** argv) {
  // Kernels of ranks wait for each other, each in its own stream. With fewer hardware queues than streams (the default
  // is 8 queues), a kernel could be queued behind a kernel that waits for it.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  if (std::getenv("QUIRE_ASYNCHRONOUS_LAUNCHES") == nullptr) {
    ::setenv("CUDA_LAUNCH_BLOCKING", "1", 1);  // a launch returns when its kernel has run
  } else {
    ::setenv("CUDA_MODULE_LOADING", "EAGER", 1);  // loading a kernel can wait for running kernels, which wait for it
  }
  testing::InitGoogleMock(&argc, argv);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (!GTEST_FLAG_GET(list_tests) && (status != cudaSuccess || count == 0)) {
    std::printf("no GPU: nothing was run (%s)\n", cudaGetErrorString(status));
    return 3;
  }
  testing::UnitTest::GetInstance()->listeners().Append(new EndWithTheDevice);
  return RUN_ALL_TESTS();
}
