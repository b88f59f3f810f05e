// Tests packing runs of bytes of KV blocks into contiguous memory, and unpacking them again.
#include "kernels/cuda/elementwise/pack_runs.h"

#include <gtest/gtest.h>

#include <vector>

#include "simt/device_buffer.h"

namespace quire::kernels {
namespace {

using simt::DeviceBuffer;

constexpr int64_t kBlocks = 6, kBlockBytes = 200'000;

std::byte Pattern(int64_t i) { return static_cast<std::byte>((i * 131) >> 4); }

struct Case {
  const char* name;
  std::vector<PackedRun> runs;
};

class PackRunsTest : public testing::TestWithParam<Case> {
 protected:
  int64_t packed_bytes() const { return GetParam().runs.back().packed_at + GetParam().runs.back().bytes; }
  void Run(bool unpacks) {
    const std::vector<PackedRun>& runs = GetParam().runs;
    PackRuns(CudaStream{}, {blocks_.data(), runs_.data(), packed_.data(), static_cast<int64_t>(kOrder.size()),
                            static_cast<int64_t>(runs.size()), packed_bytes(), unpacks});
  }

  const std::vector<int64_t> kOrder = {4, 1, 5};
  DeviceBuffer<std::byte> pool_{kBlocks * kBlockBytes, std::byte{0xee}};
  DeviceBuffer<std::byte> packed_{static_cast<int64_t>(kOrder.size()) * packed_bytes()};
  DeviceBuffer<std::byte*> blocks_{std::vector<std::byte*>{
      pool_.data() + 4 * kBlockBytes, pool_.data() + 1 * kBlockBytes, pool_.data() + 5 * kBlockBytes}};
  DeviceBuffer<PackedRun> runs_{GetParam().runs};
};

TEST_P(PackRunsTest, PackRuns_PutsEveryRunOfEveryBlockInItsPlace) {
  for (int64_t i = 0; i < pool_.size(); ++i) pool_[i] = Pattern(i);
  Run(false);
  for (size_t b = 0; b < kOrder.size(); ++b) {
    for (const PackedRun& run : GetParam().runs) {
      for (int64_t i = 0; i < run.bytes; ++i) {
        const int64_t at = static_cast<int64_t>(b) * packed_bytes() + run.packed_at + i;
        ASSERT_EQ(packed_[at], Pattern(kOrder[b] * kBlockBytes + run.at + i))
            << "block " << b << ", byte " << run.at + i;
      }
    }
  }
}

TEST_P(PackRunsTest, PackRuns_UnpacksRuns_WithoutTouchingOtherBytes) {
  for (int64_t i = 0; i < packed_.size(); ++i) packed_[i] = Pattern(7 * i);
  std::vector<std::byte> expected(static_cast<size_t>(pool_.size()), std::byte{0xee});
  for (size_t b = 0; b < kOrder.size(); ++b) {
    for (const PackedRun& run : GetParam().runs) {
      for (int64_t i = 0; i < run.bytes; ++i) {
        expected[static_cast<size_t>(kOrder[b] * kBlockBytes + run.at + i)] =
            Pattern(7 * (static_cast<int64_t>(b) * packed_bytes() + run.packed_at + i));
      }
    }
  }
  Run(true);
  for (int64_t i = 0; i < pool_.size(); ++i) ASSERT_EQ(pool_[i], expected[static_cast<size_t>(i)]) << i;
}

// A whole KV block needs several thread blocks. One round of a thread block moves several short runs.
INSTANTIATE_TEST_SUITE_P(
    All, PackRunsTest,
    testing::Values(Case{"whole", {{0, kBlockBytes, 0}}},
                    Case{"some", {{16, 48, 0}, {4096, 16, 48}, {8192, 131'072, 64}, {160'000, 32, 131'136}}}),
    [](const auto& test) { return test.param.name; });

TEST(PackRunsTest, PackRuns_AcceptsNullPointers_WhenThereAreNoBlocks) {
  PackRuns(CudaStream{}, {nullptr, nullptr, nullptr, 0, 1, 16, false});
}

}  // namespace
}  // namespace quire::kernels
