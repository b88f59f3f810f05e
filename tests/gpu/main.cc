// Runs tests on this machine's GPU. Exit status 3: there is none, and nothing was run.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

/// After an access that faults, everything that this process asks of the device fails. So the process ends with the
/// test that did it, and `run` starts another one for the tests that are left. Exit status 4.
class EndWithTheDevice final : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& test) override {
    static_cast<void>(cudaDeviceSynchronize());  // errors of launches that can be outlived
    const cudaError_t status = cudaDeviceSynchronize();
    if (status == cudaSuccess) return;
    std::printf("\n%s.%s lost the device: %s\n", test.test_suite_name(), test.name(), cudaGetErrorString(status));
    std::fflush(stdout);
    _exit(4);
  }
};

}  // namespace

int main(int argc, char** argv) {
  // A rank's kernel waits for those of other ranks, each in a stream: with fewer queues in hardware than streams, one
  // could stand behind the kernel that waits for it. The default is 8.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  if (std::getenv("QUIRE_ASYNCHRONOUS_LAUNCHES") == nullptr) {
    ::setenv("CUDA_LAUNCH_BLOCKING", "1", 1);  // launches return when they have run
  } else {
    ::setenv("CUDA_MODULE_LOADING", "EAGER", 1);  // loading a kernel can wait for those that run, which wait for it
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
