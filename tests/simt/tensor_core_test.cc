// Tests matrix fragments: compares them with plain matrices, and checks that misuse is found.
#include <gtest/gtest.h>

#include <simt/tensor_core.cuh>

#include "simt/device_buffer.h"
#include "simt/expect_error.h"
#include "tests/support/random.h"

namespace quire::simt {
namespace {

using kernels::CudaStream;

constexpr int kRows = 16, kColumns = 24, kDepth = 32;

/// d [16, 24] += a [16, 32] * b [32, 24]. If kBByColumns is set, b is stored as its transpose [24, 32].
template <class T, bool kBByColumns>
struct MatrixProduct {
  struct Params {
    const T *a, *b;
    float* d;
  };
  static constexpr int kThreads = 32;

  static void Run(const Params& p) {
    SharedArena arena;
    const SharedArray<T> a = arena.Take<T>(kRows * kDepth), b = arena.Take<T>(kDepth * kColumns);
    const int lane = ThreadX();
    for (int i = lane; i < kRows * kDepth; i += 32) a[i] = Global<const T>(p.a)[i];
    for (int i = lane; i < kColumns * kDepth; i += 32) b[i] = Global<const T>(p.b)[i];
    SyncThreads();
    const Global<float> d(p.d);
    for (int column = 0; column < kColumns; column += 8) {
      const int at = lane / 4 * kColumns + column + lane % 4 * 2;
      float sum[4] = {d[at], d[at + 1], d[at + 8 * kColumns], d[at + 8 * kColumns + 1]};
      for (int k = 0; k < kDepth; k += 16) {
        uint32_t left[4], right[2];
        LoadMatrix<4>(left, a, (lane % 16) * kDepth + k + lane / 16 * 8);
        if (kBByColumns) {
          LoadMatrix<2>(right, b, (column + lane % 8) * kDepth + k + lane / 8 % 2 * 8);
        } else {
          LoadMatrixTransposed<2>(right, b, (k + lane % 16) * kColumns + column);
        }
        Mma<T>(sum, left, right);
      }
      d[at] = sum[0], d[at + 1] = sum[1], d[at + 8 * kColumns] = sum[2], d[at + 8 * kColumns + 1] = sum[3];
    }
  }
};

template <class T, bool kBByColumns>
void ExpectProduct(uint64_t seed) {
  test::Random random(seed);
  const DeviceBuffer<T> a(kRows * kDepth), b(kDepth * kColumns);
  const DeviceBuffer<float> d(kRows * kColumns);
  for (T& x : a.span()) x = FromFloat<T>(static_cast<float>(random.Signed()));
  for (T& x : b.span()) x = FromFloat<T>(static_cast<float>(random.Signed()));
  for (float& x : d.span()) x = static_cast<float>(random.Signed());
  const std::vector<float> before(d.span().begin(), d.span().end());
  WithOptions options({.seed = seed, .switch_chance = 0.05});
  Launch<MatrixProduct<T, kBByColumns>>({1}, 32, 4096, CudaStream{}, {a.data(), b.data(), d.data()});
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kColumns; ++j) {
      double sum = before[static_cast<size_t>(i * kColumns + j)];
      for (int k = 0; k < kDepth; ++k) {
        sum += double{ToFloat(a[i * kDepth + k])} * ToFloat(b[kBByColumns ? j * kDepth + k : k * kColumns + j]);
      }
      EXPECT_NEAR(d[i * kColumns + j], sum, 1e-5) << i << ", " << j;
    }
  }
}

TEST(TensorCoreTest, Products_EqualProductsOfPlainMatrices) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    ExpectProduct<Half, false>(seed);
    ExpectProduct<Half, true>(seed);
    ExpectProduct<BFloat16, false>(seed);
    ExpectProduct<BFloat16, true>(seed);
  }
}

/// Loads one matrix [8, 8] whose rows are 16 elements apart: out[lane] gets the lane's part of the matrix, and out[32 +
/// lane] the lane's part of its transpose. Lanes after 7 pass addresses that must be ignored.
struct OneMatrix {
  struct Params {
    uint32_t* out;
  };
  static void Run(const Params& p) {
    SharedArena arena;
    const SharedArray<Half> box = arena.Take<Half>(8 * 16);
    for (int i = ThreadX(); i < 8 * 16; i += 32) box[i] = Half{static_cast<uint16_t>(i)};
    SyncThreads();
    uint32_t plain[1], transposed[1];
    const int row = ThreadX() < 8 ? ThreadX() * 16 : -1000;
    LoadMatrix<1>(plain, box, row);
    LoadMatrixTransposed<1>(transposed, box, row);
    Global<uint32_t>(p.out)[ThreadX()] = plain[0];
    Global<uint32_t>(p.out)[32 + ThreadX()] = transposed[0];
  }
};

TEST(TensorCoreTest, LoadMatrix_GivesEachLanePairsOfARow_AndLoadMatrixTransposedOfAColumn) {
  const DeviceBuffer<uint32_t> out(64);
  Launch<OneMatrix>({1}, 32, 256, CudaStream{}, {out.data()});
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t plain = lane / 4 * 16 + lane % 4 * 2, transposed = lane % 4 * 32 + lane / 4;
    EXPECT_EQ(out[lane], plain | (plain + 1) << 16);
    EXPECT_EQ(out[32 + lane], transposed | (transposed + 16) << 16);
  }
}

struct Pairs {
  struct Params {
    float* out;
  };
  template <class T>
  static void Put(const Global<float>& out, uint32_t bits) {
    const Vec<float, 2> pair = UnpackPair<T>(bits);
    out[0] = pair.v[0], out[1] = pair.v[1];
  }
  static void Run(const Params& p) {
    const Global<float> out(p.out);
    Put<Half>(out, PackPair<Half>(1.5f, -70000.0f));
    Put<BFloat16>(out + 2, PackPair<BFloat16>(1.00390625f, 3e38f));
    Put<Half>(out + 4, PairFromFp8<Half>(0xb801));
    Put<BFloat16>(out + 6, PairFromFp8<BFloat16>(0x7e38));
    out[8] = Exp2(-3.0f);
  }
};

TEST(TensorCoreTest, PackedPairs_HaveTheFirstNumberInTheLowHalf) {
  const DeviceBuffer<float> out(9);
  Launch<Pairs>({1}, 1, 0, CudaStream{}, {out.data()});
  const std::vector<float> expected{1.5f, -INFINITY, 1.0f, 0x1.c4p127f, 0x1p-9f, -1.0f, 1.0f, 448.0f, 0.125f};
  EXPECT_EQ(std::vector<float>(out.span().begin(), out.span().end()), expected);
}

enum class MatrixBug { kNone, kNoBarrier, kHalfWarp, kMisaligned, kOutside, kUninitialised, kWriteAfter, kTwoKinds };

template <MatrixBug kBug>
struct BadMatrix {
  struct Params {};
  static void Run(const Params&) {
    SharedArena arena;
    const SharedArray<Half> box = arena.Take<Half>(64);
    const int lane = ThreadX();
    box[lane] = Half{0};
    if (kBug != MatrixBug::kUninitialised || lane != 3) box[32 + lane] = Half{0};
    if (kBug != MatrixBug::kNoBarrier) SyncWarp();
    uint32_t pairs[1];
    const int aside = (kBug == MatrixBug::kMisaligned) + (kBug == MatrixBug::kOutside && lane == 7) * 8;
    LoadMatrix<1>(pairs, box, lane % 8 * 8 + aside);
    if (kBug == MatrixBug::kWriteAfter) box[lane] = Half{1};
    if (kBug == MatrixBug::kHalfWarp && lane >= 16) return;
    float d[4] = {};
    const uint32_t a[4] = {}, b[2] = {};
    if (kBug == MatrixBug::kTwoKinds) lane < 16 ? Mma<Half>(d, a, b) : Mma<BFloat16>(d, a, b);
    Mma<Half>(d, a, b);
  }
};

TEST(TensorCoreTest, Emulator_ReportsMisuseOfMatrixLoadsAndProducts) {
  const auto run = [](auto kernel) { Launch<decltype(kernel)>({1}, 32, 128, CudaStream{}, {}); };
  run(BadMatrix<MatrixBug::kNone>{});
  ExpectError([&] { run(BadMatrix<MatrixBug::kNoBarrier>{}); }, "race: reads");
  ExpectError([&] { run(BadMatrix<MatrixBug::kHalfWarp>{}); }, "has left the kernel");
  ExpectError([&] { run(BadMatrix<MatrixBug::kMisaligned>{}); }, "misaligned access to shared memory");
  ExpectError([&] { run(BadMatrix<MatrixBug::kOutside>{}); }, "thread (7, 0, 0) at tensor_core_test.cc");
  ExpectError([&] { run(BadMatrix<MatrixBug::kUninitialised>{}); }, "nobody wrote");
  ExpectError([&] { run(BadMatrix<MatrixBug::kWriteAfter>{}); }, "race: ");
  ExpectError([&] { run(BadMatrix<MatrixBug::kTwoKinds>{}); }, "for a lane that does not come");
  ExpectError([&] { Launch<BadMatrix<MatrixBug::kNone>>({1}, 16, 128, CudaStream{}, {}); }, "lanes that do not exist");
}

}  // namespace
}  // namespace quire::simt
