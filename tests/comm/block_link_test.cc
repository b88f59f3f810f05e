#include <gtest/gtest.h>
#include <sodium.h>
#include <unistd.h>

#include <deque>
#include <thread>

#include "comm/base/error.h"
#include "comm/base/own_address.h"
#include "comm/collective/block_receiver.h"
#include "comm/collective/block_sender.h"
#include "comm/wire/messages.h"

namespace quire {
namespace {

using Bytes = std::vector<std::byte>;

Bytes Pattern(size_t size, unsigned seed) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 131 + seed) >> 3);
  return bytes;
}

constexpr EpochId kEpoch = 3;

/// Returns the runs of a whole block of this many bytes.
BlockRuns Whole(int64_t bytes) { return {{0, bytes}}; }

class BlockLinkTest : public testing::Test {
 protected:
  BlockLinkTest()
      : endpoint_("ipc:///tmp/quire-link-test." + std::to_string(::getpid())), receiver_(endpoint_, kEpoch) {}

  /// Polls both sides until each has ended `count` transfers.
  void Run(size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while ((taken_.size() < count || given_.size() < count) && std::chrono::steady_clock::now() < deadline) {
      for (auto& end : sender_.Poll()) given_.push_back(end);
      for (auto& end : receiver_.Poll()) taken_.push_back(end);
      std::this_thread::yield();
    }
    ASSERT_EQ(taken_.size(), count);
    ASSERT_EQ(given_.size(), count);
  }

  void Expect(uint64_t ticket, BlockMemory blocks) {
    const auto bytes = static_cast<int64_t>(blocks[0].size());
    receiver_.Expect(ticket, std::move(blocks), {Whole(bytes)});
  }
  void Send(uint64_t ticket, BlockMemory blocks) {
    const auto bytes = blocks.empty() ? 1 : static_cast<int64_t>(blocks[0].size());
    sender_.Send(ticket, kEpoch, std::move(blocks), {{endpoint_, "", Whole(bytes)}});
  }

  std::string endpoint_;
  BlockReceiver receiver_;
  BlockSender sender_{{.identity = "a"}};
  std::vector<BlockTransferEnd> taken_, given_;
};

TEST_F(BlockLinkTest, Blocks_ArriveUnchanged) {
  constexpr size_t kBlock = (700 << 10) + 3;  // three chunks; the last chunk is short
  std::vector<Bytes> sent, got(5, Bytes(kBlock));
  BlockMemory from, to;
  for (unsigned i = 0; i < 4; ++i) sent.push_back(Pattern(kBlock, i));
  for (Bytes& block : sent) from.emplace_back(block);
  for (Bytes& block : got) to.emplace_back(block);
  Expect(3, to);  // room for one block more than is sent
  Send(3, from);
  Run(1);
  EXPECT_EQ(taken_[0].problem, "");
  EXPECT_EQ(taken_[0].bytes, static_cast<int64_t>(4 * kBlock));
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(got[i], sent[i]);
  EXPECT_EQ(got[4], Bytes(kBlock)) << "untouched";
  EXPECT_TRUE(receiver_.idle() && sender_.idle());
}

TEST_F(BlockLinkTest, SimultaneousTransfers_DoNotMixTheirBlocks_AndAnEmptyTransferEnds) {
  Bytes a = Pattern(1000, 1), b = Pattern(1000, 2), to_a(1000), to_b(1000), to_c(1000);
  Expect(1, {to_a});
  Expect(2, {to_b});
  Expect(3, {to_c});
  Send(2, {b});
  Send(3, {});
  Send(1, {a});
  Run(3);
  EXPECT_EQ(to_a, a);
  EXPECT_EQ(to_b, b);
  for (const auto& end : taken_) EXPECT_EQ(end.problem, "");
  EXPECT_EQ(to_c, Bytes(1000));
}

TEST_F(BlockLinkTest, Transfer_Fails_WhenItHasMoreBlocksThanRoom) {
  Bytes a = Pattern(1000, 1), to(1000);
  Expect(1, {to});
  Send(1, {a, a});
  Run(1);
  EXPECT_NE(taken_[0].problem, "");
}

/// Sends chunks by hand: in transfer 1 a chunk is missing, in 2 repeated, in 3 damaged; transfer 4 is correct.
TEST_F(BlockLinkTest, Transfer_Fails_WhenAChunkIsMissingRepeatedOrDamaged) {
  Channel channel = Channel::Connect(endpoint_, "b");
  Bytes block = Pattern(3000, 1);
  const auto chunk = [&](uint64_t ticket, uint64_t number) {
    const std::span<const std::byte> data[] = {std::span(block).subspan((number - 1) * 1000, 1000)};
    return EncodeChunk({ticket, number, kEpoch, 0, 1, 0, (number - 1) * 1000}, data);
  };
  Bytes lost(3000), repeated(3000), damaged(3000), right(3000);
  Expect(1, {lost});
  Expect(2, {repeated});
  Expect(3, {damaged});
  Expect(4, {right});
  std::vector<Frame> frames = {chunk(1, 1), chunk(1, 3), chunk(2, 1), chunk(2, 1), chunk(3, 1), chunk(3, 2),
                               chunk(3, 3), chunk(9, 1), chunk(4, 1), chunk(4, 2), chunk(4, 3)};
  frames[5].body[100] ^= std::byte{1};
  for (const Frame& frame : frames) {
    while (!channel.Send("", frame)) std::this_thread::yield();
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(4);
  while (taken_.size() < 4 && std::chrono::steady_clock::now() < deadline) {
    for (auto& end : receiver_.Poll()) taken_.push_back(end);
  }
  ASSERT_EQ(taken_.size(), 4u);
  for (const auto& end : taken_) EXPECT_EQ(end.problem.empty(), end.ticket == 4) << end.ticket;
  EXPECT_EQ(right, block);
}

TEST_F(BlockLinkTest, Chunks_AreIgnored_WhenTheyAreOfOtherEpochsOrRanks) {
  Channel channel = Channel::Connect(endpoint_, "b");
  Bytes block = Pattern(1000, 1), wrong = Pattern(1000, 2), to(1000);
  Expect(1, {to});
  const auto chunk = [&](const Bytes& bytes, EpochId epoch, uint32_t giver) {
    const std::span<const std::byte> data[] = {bytes};
    return EncodeChunk({1, 1, epoch, giver, 1, 0, 0}, data);
  };
  for (const Frame& frame : {chunk(wrong, kEpoch - 1, 0), chunk(wrong, kEpoch, 1), chunk(block, kEpoch, 0)}) {
    while (!channel.Send("", frame)) std::this_thread::yield();
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(4);
  while (taken_.empty() && std::chrono::steady_clock::now() < deadline) {
    for (auto& end : receiver_.Poll()) taken_.push_back(end);
  }
  ASSERT_EQ(taken_.size(), 1u);
  EXPECT_EQ(taken_[0].problem, "");
  EXPECT_EQ(to, block);
}

/// Sends chunks with impossible numbers, offsets or sizes. Each chunk must make its transfer fail, and nothing may be
/// written outside a block.
TEST_F(BlockLinkTest, Transfer_Fails_WhenAChunkNamesAWrongBlockOrOffset) {
  Channel channel = Channel::Connect(endpoint_, "b");
  const Bytes data = Pattern(1000, 1);
  const std::vector<ChunkPlace> places = {{1, 1, kEpoch, 0, 2, 1, 0},     {2, 1, kEpoch, 0, 1, 0, 1},
                                          {3, 1, kEpoch, 0, 1, 0, ~0ull}, {4, 1, kEpoch, 0, 1, ~0u, 0},
                                          {5, 0, kEpoch, 0, 1, 0, 0},     {6, 1, kEpoch, 0, 3, 0, 0}};
  std::vector<Bytes> memory(places.size() * 2, Bytes(900));
  for (size_t i = 0; i < places.size(); ++i) Expect(places[i].ticket, {memory[2 * i], memory[2 * i + 1]});
  for (const ChunkPlace& place : places) {
    const std::span<const std::byte> parts[] = {std::span(data).subspan(0, place.ticket == 2 ? 900 : 500)};
    while (!channel.Send("", EncodeChunk(place, parts))) std::this_thread::yield();
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(4);
  while (taken_.size() < places.size() && std::chrono::steady_clock::now() < deadline) {
    for (auto& end : receiver_.Poll()) taken_.push_back(end);
  }
  ASSERT_EQ(taken_.size(), places.size());
  for (const auto& end : taken_) EXPECT_NE(end.problem, "") << end.ticket;
  for (const Bytes& block : memory) EXPECT_EQ(block, Bytes(900));
}

TEST_F(BlockLinkTest, StoppedTransfer_EndsOnBothSides) {
  Bytes a = Pattern(1000, 1), to_a(1000), b = Pattern(1000, 2), to_b(1000);
  Expect(1, {to_a});
  Expect(2, {to_b});
  Send(1, {a});
  Send(2, {b});
  sender_.Stop(1);
  receiver_.Stop(1);
  receiver_.Stop(9);
  Run(2);
  EXPECT_EQ(to_a, Bytes(1000));
  EXPECT_EQ(to_b, b);
  for (const auto* ends : {&taken_, &given_}) {
    for (const auto& end : *ends) EXPECT_EQ(end.problem.empty(), end.ticket == 2);
  }
}

/// Two sending ranks give parts of their blocks to three receiving ranks, by TCP, with keys or without.
class BlockExchangeTest : public testing::TestWithParam<bool> {
 protected:
  static constexpr size_t kGivers = 2, kTakers = 3, kBlocks = 3;
  static constexpr int64_t kPart = (300 << 10) + 7;  // bytes from each sending to each receiving rank: two chunks

  BlockExchangeTest() {
    if (::sodium_init() < 0) ADD_FAILURE();
    for (size_t g = 0; g < kGivers; ++g) {
      keys_.push_back({MakeCurveKeyPair(), ""});
      public_keys_.push_back(keys_.back().own.public_key);
    }
    for (size_t t = 0; t < kTakers; ++t) {
      std::shared_ptr<CurveServer> curve;
      CurveKeyPair own = MakeCurveKeyPair();
      taker_keys_.push_back(GetParam() ? own.public_key : "");
      if (GetParam()) curve = std::make_shared<CurveServer>(CoordinatorKeys{std::move(own), public_keys_});
      takers_.emplace_back(OwnTcp(), kEpoch, curve);
    }
  }
  static std::string OwnTcp() { return "tcp://" + OwnAddressTowards("tcp://127.0.0.1:1") + ":0"; }
  BlockSender::Self Giver(Rank rank) const {
    return {"giver" + std::to_string(rank), rank, GetParam() ? &keys_[static_cast<size_t>(rank)] : nullptr};
  }
  /// The bytes that rank g sends to rank t start at t * kPart. Rank t stores the bytes of rank g in two pieces, in
  /// swapped order.
  static BlockRuns Given(size_t t) { return {{static_cast<int64_t>(t) * kPart, kPart}}; }
  static BlockRuns Taken(size_t g) {
    const int64_t at = static_cast<int64_t>(g) * kPart;
    return {{at + 1000, kPart - 1000}, {at, 1000}};
  }
  std::vector<BlockDestination> Destinations() const {
    std::vector<BlockDestination> all;
    for (size_t t = 0; t < kTakers; ++t) all.push_back({takers_[t].endpoint(), taker_keys_[t], Given(t)});
    return all;
  }
  void Poll(std::deque<BlockSender>& givers) {
    for (BlockSender& giver : givers) {
      for (auto& end : giver.Poll()) given_.push_back(end);
    }
    for (BlockReceiver& taker : takers_) {
      for (auto& end : taker.Poll()) taken_.push_back(end);
    }
    std::this_thread::yield();
  }

  std::vector<WorkerKeys> keys_;
  std::vector<std::string> public_keys_, taker_keys_;
  std::vector<BlockReceiver> takers_;
  std::vector<BlockTransferEnd> taken_, given_;
};

TEST_P(BlockExchangeTest, EveryRank_GetsItsPartOfEveryBlock) {
  std::vector<std::vector<Bytes>> from(kGivers), to(kTakers);
  std::deque<BlockSender> givers;
  for (size_t t = 0; t < kTakers; ++t) {
    to[t].assign(kBlocks, Bytes(kGivers * kPart));
    std::vector<BlockRuns> runs;
    for (size_t g = 0; g < kGivers; ++g) runs.push_back(Taken(g));
    takers_[t].Expect(7, BlockMemory(to[t].begin(), to[t].end()), runs);
  }
  for (size_t g = 0; g < kGivers; ++g) {
    for (size_t b = 0; b < kBlocks; ++b)
      from[g].push_back(Pattern(kTakers * kPart, static_cast<unsigned>(g * 100 + b * 7)));
    givers.emplace_back(Giver(static_cast<Rank>(g)));
    givers[g].Send(7, kEpoch, BlockMemory(from[g].begin(), from[g].end()), Destinations());
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while ((taken_.size() < kTakers || given_.size() < kGivers) && std::chrono::steady_clock::now() < deadline)
    Poll(givers);
  ASSERT_EQ(taken_.size(), kTakers);
  ASSERT_EQ(given_.size(), kGivers);
  for (const auto& end : taken_) {
    EXPECT_EQ(end.problem, "");
    EXPECT_EQ(end.bytes, static_cast<int64_t>(kGivers * kBlocks) * kPart);
  }
  for (size_t t = 0; t < kTakers; ++t) {
    for (size_t b = 0; b < kBlocks; ++b) {
      Bytes right;
      for (size_t g = 0; g < kGivers; ++g) {
        const auto part = from[g][b].begin() + static_cast<int64_t>(t) * kPart;
        right.insert(right.end(), part + kPart - 1000, part + kPart);
        right.insert(right.end(), part, part + kPart - 1000);
      }
      EXPECT_EQ(to[t][b], right) << "taker " << t << " block " << b;
    }
  }
}

/// With keys, a rank cannot pose as another rank. Without keys, a receiver cannot tell ranks apart.
TEST_P(BlockExchangeTest, Transfer_IsRefused_WhenTheKeyBelongsToAnotherRank) {
  Bytes to(kGivers * kPart), forged = Pattern(kTakers * kPart, 1);
  takers_[0].Expect(7, {to}, {Taken(0), {}});
  std::deque<BlockSender> givers;
  givers.emplace_back(BlockSender::Self{"forger", 0, GetParam() ? &keys_[1] : nullptr});  // rank 1's key
  givers[0].Send(7, kEpoch, {forged}, {Destinations()[0]});
  const auto begin = std::chrono::steady_clock::now();
  while (taken_.empty() && std::chrono::steady_clock::now() < begin + std::chrono::seconds(10)) Poll(givers);
  ASSERT_EQ(taken_.size(), 1u);
  EXPECT_EQ(taken_[0].problem.empty(), !GetParam()) << taken_[0].problem;
  EXPECT_EQ(to == Bytes(kGivers * kPart), GetParam());
}

TEST_P(BlockExchangeTest, Send_Fails_WhenOnlyOneSideHasKeys) {
  Bytes from = Pattern(kTakers * kPart, 1);
  BlockSender giver({"odd", 0, GetParam() ? nullptr : &keys_[0]});
  giver.Send(7, kEpoch, {from}, {Destinations()[0]});
  const std::vector<BlockTransferEnd> ends = giver.Poll();
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_NE(ends[0].problem, "");
}

INSTANTIATE_TEST_SUITE_P(Tcp, BlockExchangeTest, testing::Bool(),
                         [](const auto& with) { return with.param ? "WithKeys" : "InClearText"; });

TEST(OwnAddressTest, OwnAddressTowards_ReturnsTheAddressThatReachesTheEndpoint) {
  EXPECT_EQ(OwnAddressTowards("tcp://127.0.0.1:80"), "127.0.0.1");
  EXPECT_THROW(OwnAddressTowards("ipc:///tmp/x"), Error);
  EXPECT_THROW(OwnAddressTowards("tcp://"), Error);
}

TEST_F(BlockLinkTest, Transfer_Fails_AfterFiveSecondsOfSilence) {
  Bytes to(1000);
  Expect(1, {to});
  const auto begin = std::chrono::steady_clock::now();
  while (taken_.empty() && std::chrono::steady_clock::now() < begin + std::chrono::seconds(10)) {
    for (auto& end : receiver_.Poll()) taken_.push_back(end);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ASSERT_EQ(taken_.size(), 1u);
  EXPECT_NE(taken_[0].problem, "");
}

}  // namespace
}  // namespace quire
