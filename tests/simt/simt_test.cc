// Tests the emulator's results, and that the emulator finds planted bugs. Every kernel of this file has a correct form
// and wrong forms.
#include <gtest/gtest.h>

#include <simt/device.cuh>

#include "simt/device_buffer.h"
#include "simt/expect_error.h"

namespace quire::simt {
namespace {

using kernels::CudaStream;

struct Ints {
  int* out;
};

/// Runs Kernel with the seeds 1 to 20. With even seeds, threads may also be switched at accesses to shared memory.
template <class Kernel>
void LaunchWithSeeds(int64_t blocks, int threads, int64_t shared_bytes, const typename Kernel::Params& params) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    WithOptions options({.seed = seed, .switch_chance = seed % 2 == 0 ? 0.2 : 0.0});
    Launch<Kernel>({blocks}, threads, shared_bytes, CudaStream{}, params);
  }
}

/// Runs with 96 threads: out[block * 96 + i] = the value that thread 95 - i puts into shared memory.
template <bool kBarrier>
struct Reverse {
  using Params = Ints;
  static void Run(const Ints& p) {
    SharedArena arena;
    const SharedArray<int> box = arena.Take<int>(96);
    box[ThreadX()] = ThreadX() + static_cast<int>(BlockX());
    if (kBarrier) SyncThreads();
    const int got = box[95 - ThreadX()];
    Global<int>(p.out)[BlockX() * 96 + ThreadX()] = got;
  }
};

TEST(SimtTest, ThreadsOfABlock_ExchangeNumbers_ThroughSharedMemory) {
  DeviceBuffer<int> out(3 * 96, -1);
  LaunchWithSeeds<Reverse<true>>(3, 96, 96 * 4, {out.data()});
  for (int i = 0; i < 3 * 96; ++i) EXPECT_EQ(out[i], 95 - i % 96 + i / 96);
}

TEST(SimtTest, Emulator_ReportsAMissingBarrier) {
  DeviceBuffer<int> out(96);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    WithOptions options({.seed = seed});
    try {
      Launch<Reverse<false>>({1}, 96, 96 * 4, CudaStream{}, {out.data()});
      ADD_FAILURE() << "seed " << seed;
    } catch (const SimtError& error) {  // either error may come first: the box is empty, or was filled without order
      const std::string text = error.what();
      EXPECT_TRUE(text.find("race: ") != text.npos || text.find("nobody wrote") != text.npos) << text;
      EXPECT_NE(text.find("simt_test.cc:"), text.npos) << text;
      EXPECT_NE(text.find("Reverse<false>"), text.npos) << text;
    }
  }
}

/// Exchanges values twice through the same array. The second round's writes must wait for the first round's reads. The
/// writes wait only with kBarrier.
template <bool kBarrier>
struct TwoRounds {
  using Params = Ints;
  static void Run(const Ints& p) {
    SharedArena arena;
    const SharedArray<int> box = arena.Take<int>(64);
    int x = ThreadX();
    for (int round = 0; round < 2; ++round) {
      box[ThreadX()] = x;
      SyncThreads();
      x = box[(ThreadX() + 1) % 64];
      if (kBarrier) SyncThreads();
    }
    Global<int>(p.out)[ThreadX()] = x;
  }
};

TEST(SimtTest, Emulator_ReportsReuseOfABufferWithoutABarrier) {
  DeviceBuffer<int> out(64);
  LaunchWithSeeds<TwoRounds<true>>(1, 64, 256, {out.data()});
  for (int i = 0; i < 64; ++i) EXPECT_EQ(out[i], (i + 2) % 64);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    WithOptions options({.seed = seed});
    ExpectError([&] { Launch<TwoRounds<false>>({1}, 64, 256, CudaStream{}, {out.data()}); }, "race: ");
  }
}

/// After a barrier, one thread writes byte 5 of 16 bytes that it wrote before in one access, and a thread of another
/// warp reads element kAt of the same bytes as T.
template <class T, int kAt>
struct OtherSize {
  using Params = Ints;
  static void Run(const Ints& p) {
    SharedArena arena;
    const SharedArray<int> box = arena.Take<int>(4);
    if (ThreadX() == 0) StoreVec<4>(box, 0, Vec<int, 4>{{1, 2, 3, 4}});
    SyncThreads();
    if (ThreadX() == 0) As<int8_t>(box)[5] = int8_t{1};
    if (ThreadX() == 40) Global<int>(p.out)[0] = static_cast<int>(T{As<T>(box)[kAt]});
  }
};

TEST(SimtTest, Emulator_ReportsRaces_BetweenAccessesOfDifferentSizes) {
  DeviceBuffer<int> out(1);
  const auto expect_race = [&]<class T, int kAt>(OtherSize<T, kAt>) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      WithOptions options({.seed = seed});
      ExpectError([&] { Launch<OtherSize<T, kAt>>({1}, 64, 16, CudaStream{}, {out.data()}); }, "race: ");
    }
  };
  expect_race(OtherSize<int8_t, 5>());
  expect_race(OtherSize<int16_t, 2>());
  expect_race(OtherSize<int, 1>());
  expect_race(OtherSize<int64_t, 0>());
  LaunchWithSeeds<OtherSize<int8_t, 4>>(1, 64, 16, {out.data()});
  LaunchWithSeeds<OtherSize<int8_t, 6>>(1, 64, 16, {out.data()});
  LaunchWithSeeds<OtherSize<int16_t, 3>>(1, 64, 16, {out.data()});
  LaunchWithSeeds<OtherSize<int, 2>>(1, 64, 16, {out.data()});
  LaunchWithSeeds<OtherSize<int64_t, 1>>(1, 64, 16, {out.data()});
  EXPECT_EQ(out[0], 3);  // the element that is read last
}

enum class Ordering { kWarpBarrier, kShuffle, kOtherWarp };

/// Lets lanes exchange values through shared memory without a barrier of the block. This is correct only within a warp
/// and after a barrier of the warp. A shuffle orders no accesses, and no barrier of a warp orders two warps.
template <Ordering kOrdering>
struct WarpExchange {
  using Params = Ints;
  static void Run(const Ints& p) {
    SharedArena arena;
    const SharedArray<int> box = arena.Take<int>(64);
    box[ThreadX()] = ThreadX();
    if (kOrdering == Ordering::kShuffle) {
      ShuffleXor(0, 1);
    } else {
      SyncWarp();
    }
    const int got = box[ThreadX() ^ (kOrdering == Ordering::kOtherWarp ? 33 : 1)];
    Global<int>(p.out)[ThreadX()] = got;
  }
};

TEST(SimtTest, WarpBarrier_OrdersOnlyItsOwnWarp) {
  DeviceBuffer<int> out(64);
  LaunchWithSeeds<WarpExchange<Ordering::kWarpBarrier>>(1, 64, 256, {out.data()});
  for (int i = 0; i < 64; ++i) EXPECT_EQ(out[i], i ^ 1);
  ExpectError([&] { Launch<WarpExchange<Ordering::kShuffle>>({1}, 64, 256, CudaStream{}, {out.data()}); }, "race: ");
  WithOptions options({.seed = 3});
  const auto text = ExpectError(
      [&] { Launch<WarpExchange<Ordering::kOtherWarp>>({1}, 64, 256, CudaStream{}, {out.data()}); }, "simt_test.cc:");
  EXPECT_TRUE(text.find("race: ") != text.npos || text.find("nobody wrote") != text.npos) << text;
}

struct Collectives {
  using Params = Ints;
  static void Run(const Ints& p) {
    const int lane = ThreadX();
    const Global<int> out(p.out);
    out[lane] = ShuffleXor(lane, 5);
    out[32 + lane] = ShuffleDown(lane, 3);
    out[64 + lane] = Broadcast(lane * 2, 7);
    out[96 + lane] = static_cast<int>(Ballot(lane % 3 == 0));
    out[128 + lane] = Any(lane == 9) * 2 + All(lane < 32) + 4 * All(lane != 9);
    out[192 + lane] = static_cast<int>(ShuffleXor(int64_t{lane} << 33, 1) >> 33);
    if (lane < 16) out[160 + lane] = static_cast<int>(ShuffleXor(static_cast<float>(lane), 8, 0xffff));
  }
};

TEST(SimtTest, WarpCollectives_GiveTheResultsOfADevice) {
  DeviceBuffer<int> out(224, -1);
  LaunchWithSeeds<Collectives>(1, 32, 0, {out.data()});
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(out[i], i ^ 5);
    EXPECT_EQ(out[32 + i], i + 3 > 31 ? i : i + 3);
    EXPECT_EQ(out[64 + i], 14);
    EXPECT_EQ(out[96 + i], 0x49249249);
    EXPECT_EQ(out[128 + i], 3);
    EXPECT_EQ(out[160 + i], i < 16 ? i ^ 8 : -1);
    EXPECT_EQ(out[192 + i], i ^ 1);
  }
}

enum class Bug {
  kNone,
  kUninitialised,
  kOutOfBounds,
  kBeyondLaunch,
  kBarrierSkipped,
  kBarriersDiverge,
  kLaneMissing,
  kSourceNotInMask,
  kMisaligned,
};

template <Bug kBug>
struct Planted {
  using Params = Ints;
  static void Run(const Ints&) {
    SharedArena arena;
    const SharedArray<float> array = arena.Take<float>(kBug == Bug::kBeyondLaunch ? 200 : 64);
    const SharedArray<float> neighbour = arena.Take<float>(64);
    if (kBug != Bug::kUninitialised || ThreadX() != 5) array[ThreadX()] = 1.0f;
    neighbour[ThreadX()] = 2.0f;
    if (kBug == Bug::kBarrierSkipped && ThreadX() >= 32) return ShuffleForever();
    if (kBug == Bug::kBarriersDiverge && ThreadX() >= 32) {
      SyncThreads();
    } else {
      SyncThreads();
    }
    const float sum = array[ThreadX()] + array[kBug == Bug::kOutOfBounds ? ThreadX() + 1 : ThreadX()];
    if (kBug == Bug::kLaneMissing && ThreadX() == 40) return;
    ShuffleXor(sum, 1);
    if (kBug == Bug::kSourceNotInMask && ThreadX() < 16) ShuffleXor(sum, 16, 0xffff);
    if (kBug == Bug::kMisaligned) LoadVec<4>(neighbour, 2);
  }
  /// Half of the second warp waits for the warp's other half, which never arrives.
  static void ShuffleForever() {
    if (ThreadX() < 48) ShuffleXor(0, 1);
  }
};

TEST(SimtTest, Emulator_FindsAndNamesPlantedBugs) {
  const auto run = [](auto kernel) { Launch<decltype(kernel)>({2}, 64, 512, CudaStream{}, {nullptr}); };
  run(Planted<Bug::kNone>{});
  ExpectError([&] { run(Planted<Bug::kUninitialised>{}); }, "thread (5, 0, 0) at simt_test.cc");
  ExpectError([&] { run(Planted<Bug::kUninitialised>{}); }, "reads shared memory that nobody wrote");
  ExpectError([&] { run(Planted<Bug::kOutOfBounds>{}); }, "shared array of 64 accessed at 64");
  ExpectError([&] { run(Planted<Bug::kBeyondLaunch>{}); }, "takes more shared memory than the launch gave");
  ExpectError([&] { run(Planted<Bug::kBarrierSkipped>{}); }, "for a lane that does not come");
  ExpectError([&] { run(Planted<Bug::kBarriersDiverge>{}); }, "divergent barriers");
  ExpectError([&] { run(Planted<Bug::kLaneMissing>{}); }, "thread (40, 0, 0) has left the kernel");
  ExpectError([&] { run(Planted<Bug::kSourceNotInMask>{}); }, "which is not in the mask");
  ExpectError([&] { run(Planted<Bug::kMisaligned>{}); }, "misaligned access to shared memory");
  run(Planted<Bug::kNone>{});  // after all these errors, a right kernel still runs
}

struct Count {
  using Params = Ints;
  static void Run(const Ints& p) {
    SharedArena arena;
    const SharedArray<int> box = arena.Take<int>(2);
    if (ThreadX() < 2) box[ThreadX()] = 0;
    SyncThreads();
    AtomicAdd(box, 0, 2);
    AtomicMax(box, 1, ThreadX());
    SyncThreads();
    if (ThreadX() == 0) AtomicAdd(Global<int>(p.out), 0, static_cast<int>(box[0]) + box[1]);
  }
};

TEST(SimtTest, Atomics_DoNotRace_WithEachOther) {
  DeviceBuffer<int> out(1);
  Launch<Count>({4}, 64, 16, CudaStream{}, {out.data()});
  EXPECT_EQ(out[0], 4 * (128 + 63));
}

struct Fill {
  using Params = Ints;
  static void Run(const Ints& p) { Global<int>(p.out)[BlockX() * 32 + ThreadX()] = 1; }
};

TEST(SimtTest, Emulator_ReportsAccessesBeyondAnAllocation) {
  DeviceBuffer<int> out(70), other(70);
  const auto text = ExpectError([&] { Launch<Fill>({3}, 32, 0, CudaStream{}, {out.data()}); }, "global access out of");
  EXPECT_NE(text.find("block (2, 0, 0)"), text.npos) << text;
  int on_host[96];
  ExpectError([&] { Launch<Fill>({3}, 32, 0, CudaStream{}, {on_host}); }, "global access out of");
}

/// Reads bytes of block number `block` of a pool of more than 2^31 bytes. Blocks are `stride` bytes apart. The block's
/// offset is computed in the type Offset.
template <class Offset>
struct FarBlock {
  struct Params {
    const uint8_t* pool;
    int* out;
    int64_t block, stride;
  };
  static void Run(const Params& p) {
    const Offset offset = static_cast<Offset>(static_cast<uint64_t>(p.block) * static_cast<uint64_t>(p.stride));
    const uint8_t x = (Global<const uint8_t>(p.pool) + offset)[ThreadX()];
    Global<int>(p.out)[ThreadX()] = x;
  }
};

TEST(SimtTest, Emulator_ReportsAnOffsetThatOverflows32Bits) {
  DeviceBuffer<uint8_t> pool(3'000'000'000);
  DeviceBuffer<int> out(32);
  pool[2'999'000'000 + 4] = 77;
  Launch<FarBlock<int64_t>>({1}, 32, 0, CudaStream{}, {pool.data(), out.data(), 2999, 1'000'000});
  EXPECT_EQ(out[4], 77);
  ExpectError(
      [&] {
        Launch<FarBlock<int32_t>>({1}, 32, 0, CudaStream{}, {pool.data(), out.data(), 2999, 1'000'000});
      },
      "global access out of bounds: -");
}

}  // namespace
}  // namespace quire::simt
