// Runs tests on this machine's GPU. Exit status 3: there is none, and nothing was run.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
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
  return RUN_ALL_TESTS();
}
