// Tests how the emulator checks a kernel that may start before its predecessor ends: which memory the kernel may touch
// before it waits for the predecessor.
#include <gtest/gtest.h>

#include <simt/device.cuh>

#include "simt/device_buffer.h"
#include "simt/expect_error.h"

namespace quire::simt {
namespace {

enum class Wait { kFirst, kAfterTheWeight, kAfterTheInput, kAfterTheOutput, kNever };

struct Arrays {
  const int* weight;
  const int* input;
  int* output;
};

template <Wait kWait>
struct Scale {
  using Params = Arrays;
  static constexpr bool kOverlapsPrevious = true;
  static void Run(const Arrays& p) {
    if (kWait == Wait::kFirst) WaitForPrerequisites();
    const int weight = Global<const int>(p.weight)[0];
    if (kWait == Wait::kAfterTheWeight) WaitForPrerequisites();
    if (kWait == Wait::kNever) return;
    const int product = kWait == Wait::kAfterTheOutput ? weight : weight * Global<const int>(p.input)[ThreadX()];
    if (kWait == Wait::kAfterTheInput) WaitForPrerequisites();
    Global<int>(p.output)[ThreadX()] = product;
    WaitForPrerequisites();
  }
};

class OverlapTest : public testing::Test {
 protected:
  OverlapTest() { MarkWritten(input_.data()); }
  template <class Kernel>
  void Run() {
    Launch<Kernel>({1}, 4, 0, kernels::CudaStream{}, {weight_.data(), input_.data(), output_.data()});
  }
  const DeviceBuffer<int> weight_{1, 3}, input_{4, 5}, output_{4}, other_{4};
};

TEST_F(OverlapTest, Kernel_MayReadWeights_BeforeItWaitsForItsPredecessor) {
  Run<Scale<Wait::kFirst>>();
  Run<Scale<Wait::kAfterTheWeight>>();
  EXPECT_EQ(output_[3], 15);
}

TEST_F(OverlapTest, Emulator_ReportsReadsOfInputsAndWrites_BeforeAKernelWaitsForItsPredecessor) {
  ExpectError([&] { Run<Scale<Wait::kAfterTheInput>>(); }, "reads what another kernel wrote before it has waited");
  ExpectError([&] { Run<Scale<Wait::kAfterTheOutput>>(); }, "writes before it has waited");
  ExpectError([&] { Run<Scale<Wait::kNever>>(); }, "ends before it has waited");
}

TEST_F(OverlapTest, Emulator_ReportsReadsOfAnotherKernelsOutput_BeforeTheWait) {
  const auto read_output = [&] {
    Launch<Scale<Wait::kAfterTheWeight>>({1}, 4, 0, kernels::CudaStream{},
                                         {output_.data(), input_.data(), other_.data()});
  };
  read_output();
  Run<Scale<Wait::kFirst>>();
  ExpectError(read_output, "reads what another kernel wrote before it has waited");
}

}  // namespace
}  // namespace quire::simt
