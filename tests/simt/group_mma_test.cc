// Tests products of warpgroups: compares them with plain matrices, and checks that misuse is found.
#include <gtest/gtest.h>

#include <simt/group_mma.cuh>

#include "simt/device_buffer.h"
#include "simt/expect_error.h"
#include "tests/support/random.h"

namespace quire::simt {
namespace {

using kernels::CudaStream;

constexpr int kGroupRows = 128, kGroupDepth = 48, kPad = 4;  // two warpgroups

enum class Slip { kNone, kNotShared, kNoBarrier, kReadEarly, kNotBegun, kWrittenEarly, kLeavesEarly, kOneWarpLess };

/// Adds a * b^T to d with two warpgroups, and makes the mistake `slip`. The shapes are d [128, kColumns], a [128, 48]
/// and b [kColumns, 48].
template <class T, int kColumns>
struct GroupProduct {
  struct Params {
    const T *a, *b;
    float* d;
    Slip slip;
  };
  static constexpr int kThreads = 256, kStride = (kColumns + kPad) * 8;

  static void Run(const Params& p) {
    SharedArena arena;
    const SharedArray<T> b = arena.Take<T>(kGroupDepth / 8 * kStride);
    const int thread = ThreadX(), lane = thread % 32;
    for (int i = thread; i < kColumns * kGroupDepth; i += kThreads) {
      const int column = i / kGroupDepth, k = i % kGroupDepth;
      b[k / 8 * kStride + column * 8 + k % 8] = Global<const T>(p.b)[i];
    }
    if (p.slip != Slip::kNotShared) ShareWithGroupMmas();
    if (p.slip != Slip::kNoBarrier) SyncThreads();
    const int row = thread / 32 * 16 + lane / 4;
    const Global<const T> from(p.a);
    uint32_t a[kGroupDepth / 16][4];
    for (int k = 0; k < kGroupDepth / 16; ++k) {
      for (int i = 0; i < 4; ++i) {
        const int64_t at = (row + i % 2 * 8) * kGroupDepth + k * 16 + i / 2 * 8 + lane % 4 * 2;
        a[k][i] = PackPair<T>(ToFloat(T(from[at])), ToFloat(T(from[at + 1])));
      }
    }
    float sums[kColumns / 8][4] = {};
    const Global<float> d(p.d);
    const auto at = [&](int i, int j) { return (row + j / 2 * 8) * kColumns + i * 8 + lane % 4 * 2 + j % 2; };
    for (int i = 0; i < kColumns / 8; ++i) {
      for (int j = 0; j < 4; ++j) sums[i][j] = d[at(i, j)];
    }
    if (p.slip != Slip::kNotBegun) BeginGroupMmas(sums, a);
    for (int k = 0; k < kGroupDepth / 16; ++k) {
      if (p.slip == Slip::kOneWarpLess && k == 1 && thread / 32 == 6) continue;
      GroupMma<T, kColumns>(sums, a[k], {b, k * 2 * kStride, kStride}, true);
    }
    if (p.slip == Slip::kWrittenEarly) {
      SyncThreads();
      if (thread == 0) b[0] = FromFloat<T>(100.0f);
    }
    if (p.slip != Slip::kReadEarly && p.slip != Slip::kLeavesEarly) WaitForGroupMmas(sums, a);
    for (int i = 0; i < kColumns / 8; ++i) {
      for (int j = 0; j < 4; ++j) d[at(i, j)] = sums[i][j];
    }
    if (p.slip == Slip::kReadEarly) WaitForGroupMmas(sums, a);
  }
};

template <class T, int kColumns>
class Product {
 public:
  using Kernel = GroupProduct<T, kColumns>;
  Product() {
    test::Random random(kColumns);
    for (T& x : a_.span()) x = FromFloat<T>(random.Signed());
    for (T& x : b_.span()) x = FromFloat<T>(random.Signed());
    for (float& x : d_.span()) x = random.Signed();
    for (int64_t row = 0; row < kGroupRows; ++row) {
      for (int64_t column = 0; column < kColumns; ++column) {
        double sum = d_[row * kColumns + column];
        for (int64_t k = 0; k < kGroupDepth; ++k)
          sum += double{ToFloat(a_[row * kGroupDepth + k])} * double{ToFloat(b_[column * kGroupDepth + k])};
        right_.push_back(sum);
      }
    }
  }
  void Run(Slip slip = Slip::kNone) {
    const int64_t shared = kGroupDepth / 8 * Kernel::kStride * static_cast<int64_t>(sizeof(T));
    Launch<Kernel>({1}, Kernel::kThreads, shared, CudaStream{}, {a_.data(), b_.data(), d_.data(), slip});
  }
  bool IsRight() const {
    for (size_t i = 0; i < right_.size(); ++i) {
      if (std::abs(d_.data()[i] - right_[i]) > 1e-4) return false;
    }
    return true;
  }

 private:
  DeviceBuffer<T> a_{kGroupRows * kGroupDepth}, b_{kColumns * kGroupDepth};
  DeviceBuffer<float> d_{kGroupRows * kColumns};
  std::vector<double> right_;
};

TEST(GroupMmaTest, WarpgroupProduct_EqualsThePlainProduct) {
  Product<Half, 64> halves;
  halves.Run();
  EXPECT_TRUE(halves.IsRight());
  Product<BFloat16, 128> bfloats;
  bfloats.Run();
  EXPECT_TRUE(bfloats.IsRight());
}

TEST(GroupMmaTest, Emulator_ReportsMisuseOfWarpgroupProducts) {
  const auto expect = [](Slip slip, const std::string& words) {
    ExpectError([&] { Product<Half, 64>().Run(slip); }, words);
  };
  expect(Slip::kNotShared, "has written and not shared");
  expect(Slip::kNoBarrier, "race");
  expect(Slip::kNotBegun, "without BeginGroupMmas");
  expect(Slip::kLeavesEarly, "ends with products of its warpgroup in flight");
  expect(Slip::kOneWarpLess, "not multiplied together");
  for (const Slip slip : {Slip::kReadEarly, Slip::kWrittenEarly}) {
    Product<Half, 64> product;
    try {
      product.Run(slip);
      EXPECT_FALSE(product.IsRight()) << static_cast<int>(slip);
    } catch (const SimtError&) {  // an error also shows the mistake
    }
  }
}

}  // namespace
}  // namespace quire::simt
