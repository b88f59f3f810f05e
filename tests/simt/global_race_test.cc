// Tests two checks of the emulator: it reports data races between blocks of a launch in global memory, and it delivers
// a write to another device's memory late if no release orders the write.
#include <gtest/gtest.h>

#include <simt/device.cuh>
#include <simt/system_sync.cuh>

#include "simt/device_buffer.h"
#include "simt/expect_error.h"

namespace quire::simt {
namespace {

using kernels::CudaStream;

constexpr int kBlocks = 8;

struct RacedBytes {
  uint8_t* out;
};

/// Launches Kernel with up to 20 random orders of its blocks, until a launch fails. Returns the error, or an empty text
/// if none fails.
template <class Kernel>
std::string ErrorInSomeOrder(const typename Kernel::Params& params) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const WithOptions options({.seed = seed});
    try {
      Launch<Kernel>({kBlocks}, 32, 0, CudaStream{}, params);
    } catch (const SimtError& error) {
      return error.what();
    }
  }
  return "";
}

/// Each block writes one byte, reads the byte that is `kAway` bytes further on, and writes what it read into its own
/// byte.
template <int kAway>
struct WriteAndRead {
  using Params = RacedBytes;
  static void Run(const RacedBytes& p) {
    const Global<uint8_t> out(p.out);
    if (ThreadX() != 0) return;
    out[BlockX()] = static_cast<uint8_t>(BlockX());
    const uint8_t read = out[BlockX() + kAway];
    out[BlockX()] = read;
  }
};

TEST(GlobalRaceTest, Emulator_ReportsARead_OfBytesThatAnotherBlockWrote) {
  const DeviceBuffer<uint8_t> out(kBlocks + 1);
  const std::string error = ErrorInSomeOrder<WriteAndRead<1>>({out.data()});
  EXPECT_NE(error.find("reads what another block of this launch wrote"), error.npos) << error;
  EXPECT_NE(error.find("global_race_test.cc:"), error.npos) << error;
}

TEST(GlobalRaceTest, Emulator_AllowsNeighbouringBytes_AndReadsInLaterLaunches) {
  const DeviceBuffer<uint8_t> out(kBlocks + 1);
  EXPECT_EQ(ErrorInSomeOrder<WriteAndRead<0>>({out.data()}), "");
  struct ReadAllBytes {
    using Params = RacedBytes;
    static void Run(const RacedBytes& p) {
      for (int i = 0; i < kBlocks; ++i) {
        const uint8_t read = Global<uint8_t>(p.out)[i];
        if (read != i) Executor::Current().Fail("another number", Where::current());
      }
    }
  };
  EXPECT_EQ(ErrorInSomeOrder<ReadAllBytes>({out.data()}), "");
}

/// Lets all blocks write the same number to one address.
struct WriteAlike {
  using Params = RacedBytes;
  static void Run(const RacedBytes& p) {
    if (ThreadX() == 0) Global<uint8_t>(p.out)[3] = uint8_t{7};
  }
};

TEST(GlobalRaceTest, Emulator_ReportsAWriteOverBytesOfAnotherBlock_EvenWhenTheBytesAreEqual) {
  const DeviceBuffer<uint8_t> out(kBlocks);
  const std::string error = ErrorInSomeOrder<WriteAlike>({out.data()});
  EXPECT_NE(error.find("writes what another block of this launch wrote"), error.npos) << error;
}

struct RacedWords {
  uint32_t* words;
};

/// Counts blocks by atomic operations on word 0. The last block sets this count back to 0 by a plain write, and writes
/// the number of blocks to word 1.
struct CountBlocks {
  using Params = RacedWords;
  static void Run(const RacedWords& p) {
    const Global<uint32_t> words(p.words);
    if (ThreadX() != 0 || AtomicAdd(words, 0, 1u) + 1 != kBlocks) return;
    words[0] = 0u;
    words[1] = kBlocks;
  }
};

TEST(GlobalRaceTest, Emulator_AllowsAtomicCounts_AndAPlainWriteByTheLastBlock) {
  const DeviceBuffer<uint32_t> words(2);
  EXPECT_EQ(ErrorInSomeOrder<CountBlocks>({words.data()}), "");
  EXPECT_EQ(words[0], 0u);
  EXPECT_EQ(words[1], uint32_t{kBlocks});
}

/// Counts blocks by atomic operations, and reads the count by a plain read.
struct ReadCount {
  using Params = RacedWords;
  static void Run(const RacedWords& p) {
    const Global<uint32_t> words(p.words);
    const uint32_t before = words[0];
    if (ThreadX() == 0 && before < 1000) AtomicAdd(words, 0, 1u);
  }
};

TEST(GlobalRaceTest, Emulator_ReportsAPlainRead_OfAnAtomicCount) {
  const DeviceBuffer<uint32_t> words(1);
  EXPECT_NE(ErrorInSomeOrder<ReadCount>({words.data()}), "");
}

struct Message {
  uint32_t *text, *flag;  // text: a word for each of 64 threads, and one for the numbers that arrived before the flag
};

/// Lets 64 threads write to another device. Thread 0 sets a flag on that device, after a barrier or without one, and
/// then counts the words that have arrived.
template <bool kBarrier>
struct SendMessage {
  using Params = Message;
  static void Run(const Message& p) {
    Global<uint32_t>(p.text)[ThreadX()] = 1u;
    if (kBarrier) SyncThreads();
    if (ThreadX() != 0) return;
    StoreReleaseSystem(Global<uint32_t>(p.flag), 0, 1);
    for (int i = 0; i < 64; ++i) p.text[64] += p.text[i];  // what the other device sees now
  }
};

/// Returns how many words have arrived when the flag is set.
template <bool kBarrier>
uint32_t ArrivedWithTheFlag() {
  std::vector<uint32_t> text(65), flag(1);
  const auto begin = reinterpret_cast<uintptr_t>(text.data());
  RegisterGlobal({begin, begin + 65 * sizeof(uint32_t), true});
  const auto word = reinterpret_cast<uintptr_t>(flag.data());
  RegisterGlobal({word, word + sizeof(uint32_t), true});
  Launch<SendMessage<kBarrier>>({1}, 64, 0, CudaStream{}, {text.data(), flag.data()});
  UnregisterGlobal(begin), UnregisterGlobal(word);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(text[static_cast<size_t>(i)], 1u) << "after the launch, word " << i;
  return text[64];
}

TEST(RemoteWriteTest, RemoteWritesOfAllThreads_AreSeenWithTheFlag_BehindABarrier) {
  EXPECT_EQ(ArrivedWithTheFlag<true>(), 64u);
}

TEST(RemoteWriteTest, RemoteWritesOfOtherThreads_MayBeSeenAfterTheFlag_WithoutABarrier) {
  EXPECT_EQ(ArrivedWithTheFlag<false>(), 1u);
}

}  // namespace
}  // namespace quire::simt
