#include "comm/collective/block_link.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "comm/wire/messages.h"

namespace quire {
namespace {

using Bytes = std::vector<std::byte>;

Bytes Pattern(size_t size, unsigned seed) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 131 + seed) >> 3);
  return bytes;
}

class BlockLinkTest : public testing::Test {
 protected:
  BlockLinkTest() : endpoint_("ipc:///tmp/quire-link-test." + std::to_string(::getpid())), receiver_(endpoint_) {}

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

  std::string endpoint_;
  BlockReceiver receiver_;
  BlockSender sender_{"a"};
  std::vector<BlockTransferEnd> taken_, given_;
};

TEST_F(BlockLinkTest, BlocksArriveAsTheyWere) {
  constexpr size_t kBlock = (700 << 10) + 3;  // three chunks, the last a short one
  std::vector<Bytes> sent, got(5, Bytes(kBlock));
  BlockMemory from, to;
  for (unsigned i = 0; i < 4; ++i) sent.push_back(Pattern(kBlock, i));
  for (Bytes& block : sent) from.emplace_back(block);
  for (Bytes& block : got) to.emplace_back(block);
  receiver_.Expect(3, to);  // room for one more than comes
  sender_.Send(3, endpoint_, from);
  Run(1);
  EXPECT_EQ(taken_[0].problem, "");
  EXPECT_EQ(taken_[0].bytes, static_cast<int64_t>(4 * kBlock));
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(got[i], sent[i]);
  EXPECT_EQ(got[4], Bytes(kBlock)) << "untouched";
  EXPECT_TRUE(receiver_.idle() && sender_.idle());
}

TEST_F(BlockLinkTest, TransfersDoNotMixAndNothingIsSentToo) {
  Bytes a = Pattern(1000, 1), b = Pattern(1000, 2), to_a(1000), to_b(1000), to_c(1000);
  receiver_.Expect(1, {to_a});
  receiver_.Expect(2, {to_b});
  receiver_.Expect(3, {to_c});
  sender_.Send(2, endpoint_, {b});
  sender_.Send(3, endpoint_, {});
  sender_.Send(1, endpoint_, {a});
  Run(3);
  EXPECT_EQ(to_a, a);
  EXPECT_EQ(to_b, b);
  for (const auto& end : taken_) EXPECT_EQ(end.problem, "");
  EXPECT_EQ(to_c, Bytes(1000));
}

TEST_F(BlockLinkTest, MoreThanThereIsRoomForIsRefused) {
  Bytes a = Pattern(1000, 1), to(1000);
  receiver_.Expect(1, {to});
  sender_.Send(1, endpoint_, {a, a});
  Run(1);
  EXPECT_NE(taken_[0].problem, "");
}

/// Chunks as they come, one of them lost, repeated or damaged.
TEST_F(BlockLinkTest, AGapARepetitionOrDamageFailsTheTransfer) {
  Channel channel = Channel::Connect(endpoint_, "b");
  Bytes block = Pattern(3000, 1);
  const auto chunk = [&](uint64_t ticket, uint64_t number) {
    return EncodeChunk(
        {ticket, number, 1, 0, (number - 1) * 1000, std::span(block).subspan((number - 1) * 1000, 1000)});
  };
  Bytes lost(3000), repeated(3000), damaged(3000), right(3000);
  receiver_.Expect(1, {lost});
  receiver_.Expect(2, {repeated});
  receiver_.Expect(3, {damaged});
  receiver_.Expect(4, {right});
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

TEST_F(BlockLinkTest, NothingForFiveSecondsIsTheEnd) {
  Bytes to(1000);
  receiver_.Expect(1, {to});
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
