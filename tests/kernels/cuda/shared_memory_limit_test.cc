#include "kernels/cuda/shared_memory_limit.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/support/random.h"

namespace quire::kernels {
namespace {

TEST(SharedMemoryLimit, Allow_CallsTheDriver_OnlyWhenALaunchNeedsMoreThanBefore) {
  SharedMemoryLimit limit;
  std::vector<int> told;
  const auto allow = [&](int device, int bytes) { limit.Allow(device, bytes, [&] { told.push_back(bytes); }); };
  for (const int bytes : {50, 50, 40, 60, 55, 60}) allow(0, bytes);
  EXPECT_EQ(told, (std::vector<int>{50, 60}));
  allow(1, 45);  // a limit set on device 0 does not hold for device 1
  allow(1, 45);
  allow(0, 60);
  EXPECT_EQ(told, (std::vector<int>{50, 60, 45}));
}

TEST(SharedMemoryLimit, Allow_CallsTheDriverAgain_AfterARefusal) {
  SharedMemoryLimit limit;
  EXPECT_THROW(limit.Allow(0, 50, [] { throw std::runtime_error("refused"); }), std::runtime_error);
  bool told = false;
  limit.Allow(0, 50, [&] { told = true; });
  EXPECT_TRUE(told);
}

TEST(SharedMemoryLimit, Allow_GrantsEachThreadsBytes_WhenSeveralThreadsLaunch) {
  SharedMemoryLimit limit;
  std::atomic<int> driver{0}, too_little{0};
  const auto launch = [&](uint64_t seed) {
    test::Random random(seed);
    for (int i = 0; i < 20'000; ++i) {
      const auto bytes = static_cast<int>(random.Below(i + 1));
      limit.Allow(0, bytes, [&] { driver = bytes; });
      if (driver < bytes) ++too_little;
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= 4; ++seed) threads.emplace_back(launch, seed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(too_little, 0);
}

}  // namespace
}  // namespace quire::kernels
