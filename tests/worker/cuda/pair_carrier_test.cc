// Tests the copying of KV blocks from one emulated device to another, over pairs within this process, and what happens
// when one end is missing or closes.
#include "worker/cuda/device/pair_carrier.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "comm/base/error.h"
#include "comm/collective/block_receiver.h"
#include "comm/collective/block_sender.h"
#include "simt/device_buffer.h"
#include "tests/support/memory_pair.h"

namespace quire {
namespace {

using simt::DeviceBuffer;
using Clock = std::chrono::steady_clock;

constexpr int64_t kBlockBytes = 3 * 4096;
constexpr int kBlocks = 9;

/// A rank's pool; block 0 is the null block.
struct Pool {
  explicit Pool(int64_t bytes_per_block)
      : block_bytes(bytes_per_block), bytes((kBlocks + 1) * bytes_per_block, std::byte{0xee}) {}
  std::span<std::byte> operator[](int block) const {
    return bytes.span().subspan(static_cast<size_t>(block * block_bytes), static_cast<size_t>(block_bytes));
  }
  void Fill(unsigned seed) const {
    for (int64_t i = block_bytes; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>((i * 131 + seed) >> 3);
  }
  BlockMemory Of(const std::vector<int>& blocks) const {
    BlockMemory memory;
    for (const int block : blocks) memory.push_back((*this)[block]);
    return memory;
  }
  bool IsUntouched() const {
    return std::ranges::all_of(bytes.span(), [](std::byte b) { return b == std::byte{0xee}; });
  }

  int64_t block_bytes;
  DeviceBuffer<std::byte> bytes;
};

class PairCarrierTest : public testing::Test {
 protected:
  /// Waits until the link has done `moves` moves. Fails if this takes too long.
  static void WaitFor(DeviceLink& link, int64_t moves) {
    const auto deadline = Clock::now() + std::chrono::seconds(20);
    while (link.num_done() < moves && Clock::now() < deadline) std::this_thread::yield();
    ASSERT_EQ(link.num_done(), moves);
  }
  void Open() {
    const std::string meeting = giver_.NewMeeting();
    gives_ = giver_.Open(meeting, true);
    takes_ = taker_.Open(meeting, false);
  }

  /// Lets the link's thread access the pools. The emulator registers device memory for each thread separately.
  DevicePairing Pairing() {
    DevicePairing pairing = pairs_.Pairing();
    pairing.meet = [this, meet = pairing.meet](const std::string& meeting, bool gives, std::function<bool()> given_up) {
      for (const Pool* pool : {&from_, &to_}) {
        const auto begin = reinterpret_cast<uintptr_t>(pool->bytes.data());
        simt::RegisterGlobal({begin, begin + static_cast<uintptr_t>(pool->bytes.size())});
      }
      return meet(meeting, gives, std::move(given_up));
    };
    return pairing;
  }

  Pool from_{kBlockBytes}, to_{kBlockBytes};
  test::MemoryPairs pairs_;
  PairCarrier giver_{0, Pairing(), 2 * kBlockBytes}, taker_{0, Pairing(), 2 * kBlockBytes};
  std::unique_ptr<DeviceLink> gives_, takes_;
};

TEST_F(PairCarrierTest, Move_CopiesWholeBlocks_WhenTheyNeedSeveralPieces) {
  from_.Fill(1);
  Open();
  gives_->Move(from_.Of({3, 1, 7, 2, 9}), {{0, kBlockBytes}});
  takes_->Move(to_.Of({2, 4, 6, 8, 1}), {{0, kBlockBytes}});
  WaitFor(*gives_, 1);
  WaitFor(*takes_, 1);
  const int sources[] = {3, 1, 7, 2, 9}, targets[] = {2, 4, 6, 8, 1};
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(std::ranges::equal(from_[sources[i]], to_[targets[i]])) << i;
  for (const int other : {0, 3, 5, 7, 9})
    EXPECT_TRUE(std::ranges::all_of(to_[other], [](std::byte b) { return b == std::byte{0xee}; })) << other;
}

TEST_F(PairCarrierTest, Move_CopiesRangesToOtherPlacesInABlock_InSeveralMoves) {
  from_.Fill(2);
  Open();
  // Moves two ranges of bytes to other offsets in the receiver's block, like heads that have other positions in it.
  const BlockRuns given = {{2048, 2048}, {6144, 1024}}, taken = {{0, 2048}, {4096, 1024}};
  for (const int block : {1, 2, 3}) {
    gives_->Move(from_.Of({block}), given);
    takes_->Move(to_.Of({block + 3}), taken);
  }
  WaitFor(*takes_, 3);
  WaitFor(*gives_, 3);
  for (const int block : {1, 2, 3}) {
    EXPECT_TRUE(std::ranges::equal(from_[block].subspan(2048, 2048), to_[block + 3].subspan(0, 2048)));
    EXPECT_TRUE(std::ranges::equal(from_[block].subspan(6144, 1024), to_[block + 3].subspan(4096, 1024)));
    EXPECT_EQ(to_[block + 3][2048], std::byte{0xee});
    EXPECT_EQ(to_[block + 3][5120], std::byte{0xee});
  }
  EXPECT_EQ(pairs_.met, 2) << "both ends, once";
}

TEST_F(PairCarrierTest, BlocksOfTheReceiver_AreNotWritten_OnceItsLinkIsClosed) {
  from_.Fill(3);
  pairs_.stuck = true;
  Open();
  gives_->Move(from_.Of({1}), {{0, kBlockBytes}});
  takes_->Move(to_.Of({1}), {{0, kBlockBytes}});
  WaitFor(*gives_, 1);
  takes_.reset();
  pairs_.stuck = false;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(to_.IsUntouched());
}

TEST_F(PairCarrierTest, ReceivingEnd_Throws_WhenTheSenderIsGone) {
  Open();
  takes_->Move(to_.Of({1, 2}), {{0, kBlockBytes}});
  while (pairs_.met < 2) std::this_thread::yield();
  gives_.reset();
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  EXPECT_THROW(
      {
        while (Clock::now() < deadline) takes_->num_done();
      },
      Error);
}

TEST_F(PairCarrierTest, SendingEnd_ClosesWithoutWaiting_WhenNoReceiverConnects) {
  std::unique_ptr<DeviceLink> alone = giver_.Open(giver_.NewMeeting(), true);
  alone->Move(from_.Of({1}), {{0, kBlockBytes}});
  EXPECT_EQ(alone->num_done(), 0);
  alone.reset();
  EXPECT_EQ(pairs_.met, 0);
}

TEST_F(PairCarrierTest, BlockSender_SendsFromDeviceToDevice_OverOneLink) {
  const std::string endpoint = "ipc:///tmp/quire-pair-test." + std::to_string(::getpid());
  constexpr EpochId kEpoch = 3;
  BlockReceiver receiver(endpoint, kEpoch);
  BlockSender sender({.identity = "a"});
  from_.Fill(4);
  for (const uint64_t ticket : {5, 6}) {
    const int first = ticket == 5 ? 1 : 4;
    receiver.Expect(ticket, to_.Of({first, first + 1, first + 2}), {{{0, kBlockBytes}}}, &taker_);
    sender.Send(ticket, kEpoch, from_.Of({first, first + 1}), {{endpoint, "", {{0, kBlockBytes}}}}, &giver_);
  }
  std::vector<BlockTransferEnd> given, taken;
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  while ((given.size() < 2 || taken.size() < 2) && Clock::now() < deadline) {
    for (auto& end : sender.Poll()) given.push_back(end);
    for (auto& end : receiver.Poll()) taken.push_back(end);
  }
  ASSERT_EQ(given.size(), 2u);
  ASSERT_EQ(taken.size(), 2u);
  for (const auto& end : {given[0], given[1], taken[0], taken[1]}) {
    EXPECT_EQ(end.problem, "");
    EXPECT_EQ(end.bytes, 2 * kBlockBytes);
  }
  for (const int block : {1, 2, 4, 5}) EXPECT_TRUE(std::ranges::equal(from_[block], to_[block])) << block;
  EXPECT_EQ(to_[3][0], std::byte{0xee}) << "room that was not needed";
  EXPECT_EQ(pairs_.met, 2) << "one link for both";
}

}  // namespace
}  // namespace quire
