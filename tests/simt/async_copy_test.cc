// Tests copies in flight. No thread may touch their bytes before the issuing thread has waited; other threads must also
// wait at a barrier. Also tests that blocks which depend on each other run in order.
#include <gtest/gtest.h>

#include <simt/async_copy.cuh>

#include "simt/device_buffer.h"
#include "simt/expect_error.h"

namespace quire::simt {
namespace {

using kernels::CudaStream;

struct CopiedInts {
  const int* in;
  int* out;
};

/// Runs a pipeline of three stages. Each stage holds 16 bytes for each of 64 threads. The last tile ends at kCount
/// elements. out[t] is the sum over the tiles of the element that the thread's neighbour copied.
struct Pipeline {
  using Params = CopiedInts;
  static constexpr int kStages = 3, kTile = 256, kTiles = 7, kCount = kTile * kTiles - 12;

  static void Fetch(const CopiedInts& p, const SharedArray<int>& stages, int tile) {
    const int at = ThreadX() * 4, from = tile * kTile + at;
    if (tile < kTiles) {
      CopyAsync<16>(stages + tile % kStages * kTile, at, Global<const int>(p.in), from, from < kCount);
    }
    CommitCopies();
  }
  static void Run(const CopiedInts& p) {
    SharedArena arena;
    const SharedArray<int> stages = arena.Take<int>(kStages * kTile);
    for (int tile = 0; tile < kStages - 1; ++tile) Fetch(p, stages, tile);
    int sum = 0;
    for (int tile = 0; tile < kTiles; ++tile) {
      WaitForCopies<kStages - 2>();
      SyncThreads();
      Fetch(p, stages, tile + kStages - 1);
      sum += (stages + tile % kStages * kTile)[(ThreadX() * 4 + 5) % kTile];
    }
    WaitForCopies<0>();
    Global<int>(p.out)[ThreadX()] = sum;
  }
};

TEST(AsyncCopyTest, Pipeline_DeliversCopies_AndFillsUpWithZeros) {
  const DeviceBuffer<int> in(Pipeline::kCount), out(64);
  for (int i = 0; i < in.size(); ++i) in[i] = i * i;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    WithOptions options({.seed = seed, .switch_chance = 0.1});
    Launch<Pipeline>({1}, 64, Pipeline::kStages * 1024, CudaStream{}, {in.data(), out.data()});
    for (int i = 0; i < 64; ++i) {
      int sum = 0;
      for (int at = (i * 4 + 5) % 256; at < Pipeline::kCount; at += 256) sum += at * at;
      EXPECT_EQ(out[i], sum);
    }
  }
}

enum class CopyBug {
  kNone,
  kReadBeforeWait,
  kReadByOther,
  kUncommitted,
  kTooFewGroups,
  kNoBarrier,
  kWriteUnder,
  kCopyUnder,
  kOverReader,
  kNeverWaits,
  kMisalignedTo,
  kMisalignedFrom,
  kSourceOutside,
  kTargetOutside,
};

/// Lets each of 64 threads copy 8 bytes and read the bytes of a thread of the other warp.
template <CopyBug kBug>
struct BadCopy {
  using Params = CopiedInts;
  static void Run(const CopiedInts& p) {
    SharedArena arena;
    const SharedArray<int> box = arena.Take<int>(132);
    const Global<const int> in(p.in);
    const int thread = ThreadX(), at = thread * 2;
    if (kBug == CopyBug::kOverReader) {
      box[at + 1] = thread;
      SyncThreads();
      if (static_cast<int>(box[(at + 65) % 128]) < 0) return;
    }
    CopyAsync<8>(box, at + (kBug == CopyBug::kMisalignedTo) + (kBug == CopyBug::kTargetOutside) * 6, in,
                 at + (kBug == CopyBug::kMisalignedFrom) + (kBug == CopyBug::kSourceOutside) * 2);
    if (kBug == CopyBug::kCopyUnder) CopyAsync<4>(box, at, in, at);
    if (kBug != CopyBug::kUncommitted) CommitCopies();
    if (kBug == CopyBug::kWriteUnder) box[at] = 1;
    if (kBug == CopyBug::kReadByOther) {
      SyncThreads();
      if (thread == 5 && static_cast<int>(box[100]) == 0) return;
    }
    if (kBug == CopyBug::kNeverWaits) return;
    if (kBug != CopyBug::kReadBeforeWait) WaitForCopies<kBug == CopyBug::kTooFewGroups ? 1 : 0>();
    if (kBug != CopyBug::kNoBarrier) SyncThreads();
    Global<int>(p.out)[BlockX() * 64 + thread] = box[(at + 64) % 128];
    WaitForCopies<0>();
  }
};

TEST(AsyncCopyTest, Emulator_ReportsMisuseOfAsyncCopies) {
  const DeviceBuffer<int> in(128), out(2 * 64);
  for (int i = 0; i < 128; ++i) in[i] = i;
  const auto run = [&](auto kernel) { Launch<decltype(kernel)>({2}, 64, 1024, CudaStream{}, {in.data(), out.data()}); };
  run(BadCopy<CopyBug::kNone>{});
  for (int i = 0; i < 2 * 64; ++i) EXPECT_EQ(out[i], (i * 2 + 64) % 128);
  ExpectError([&] { run(BadCopy<CopyBug::kReadBeforeWait>{}); }, "reads what a copy in flight writes, of: thread (");
  ExpectError([&] { run(BadCopy<CopyBug::kReadByOther>{}); },
              "reads what a copy in flight writes, of: thread (50, 0, 0)");
  ExpectError([&] { run(BadCopy<CopyBug::kUncommitted>{}); }, "reads what a copy in flight writes");
  ExpectError([&] { run(BadCopy<CopyBug::kTooFewGroups>{}); }, "reads what a copy in flight writes");
  const auto text = ExpectError([&] { run(BadCopy<CopyBug::kNoBarrier>{}); }, "async_copy_test.cc:");
  EXPECT_TRUE(text.find("race: ") != text.npos || text.find("nobody wrote") != text.npos ||
              text.find("in flight") != text.npos)
      << text;
  ExpectError([&] { run(BadCopy<CopyBug::kWriteUnder>{}); }, "writes under a copy in flight");
  ExpectError([&] { run(BadCopy<CopyBug::kCopyUnder>{}); }, "writes under a copy in flight");
  ExpectError([&] { run(BadCopy<CopyBug::kOverReader>{}); }, "race: ");
  ExpectError([&] { run(BadCopy<CopyBug::kNeverWaits>{}); }, "ends with copies in flight");
  ExpectError([&] { run(BadCopy<CopyBug::kMisalignedTo>{}); }, "misaligned access to shared memory");
  ExpectError([&] { run(BadCopy<CopyBug::kMisalignedFrom>{}); }, "misaligned access to global memory");
  ExpectError([&] { run(BadCopy<CopyBug::kSourceOutside>{}); }, "global access out of bounds");
  ExpectError([&] { run(BadCopy<CopyBug::kTargetOutside>{}); }, "shared array of 132 accessed at 132");
  run(BadCopy<CopyBug::kNone>{});
}

/// Each block appends its number to a list. With kTogether the emulator runs the blocks in ascending order, otherwise
/// in random order. A device promises no order.
template <bool kTogether>
struct Roll {
  using Params = CopiedInts;
  static constexpr bool kNeedsCoResidency = kTogether;
  static void Run(const CopiedInts& p) {
    const Global<int> out(p.out);
    out[1 + AtomicAdd(out, 0, 1)] = static_cast<int>(BlockX());
  }
};

TEST(LaunchTest, Launch_RunsBlocksInOrder_WhenTheyDependOnEachOther) {
  const std::vector<int> ordered{20, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
  for (const bool together : {false, true}) {
    const DeviceBuffer<int> out(21);
    if (together) Launch<Roll<true>>({20}, 1, 0, CudaStream{}, {nullptr, out.data()});
    if (!together) Launch<Roll<false>>({20}, 1, 0, CudaStream{}, {nullptr, out.data()});
    EXPECT_EQ(std::vector<int>(out.span().begin(), out.span().end()) == ordered, together);
  }
}

}  // namespace
}  // namespace quire::simt
