// Tests transfers of KV blocks by a DeviceLink (device to device): announcements, failures, and the end of a link.
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <thread>

#include "comm/base/error.h"
#include "comm/collective/block_receiver.h"
#include "comm/collective/block_sender.h"
#include "comm/wire/messages.h"

namespace quire {
namespace {

using Bytes = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;

constexpr EpochId kLinkEpoch = 3;
constexpr size_t kBlock = 1000;

Bytes Pattern(unsigned seed) {
  Bytes bytes(kBlock);
  for (size_t i = 0; i < kBlock; ++i) bytes[i] = static_cast<std::byte>((i * 131 + seed) >> 3);
  return bytes;
}

/// A carrier inside the test: a move is done once both ends have requested it and `moves` is true.
class Carrier final : public DeviceCarrier {
 public:
  struct Wire {
    std::vector<BlockMemory> given, taken;
    size_t done = 0;
    bool broken = false;
  };

  std::string NewMeeting() override { return std::to_string(++meetings); }
  std::unique_ptr<DeviceLink> Open(const std::string& meeting, bool gives) override {
    return std::make_unique<Link>(*this, wires[meeting], gives);
  }

  bool moves = true;  // while false, requested moves wait
  int meetings = 0, open = 0;
  std::map<std::string, Wire> wires;

 private:
  class Link final : public DeviceLink {
   public:
    Link(Carrier& carrier, Wire& wire, bool gives) : carrier_(carrier), wire_(wire), gives_(gives) { ++carrier_.open; }
    ~Link() override {
      --carrier_.open;
      wire_.broken = true;
    }
    void Move(BlockMemory blocks, BlockRuns) override {
      (gives_ ? wire_.given : wire_.taken).push_back(std::move(blocks));
    }
    int64_t num_done() override {
      if (wire_.broken) Fail("broken");
      for (size_t& i = wire_.done; carrier_.moves && i < std::min(wire_.given.size(), wire_.taken.size()); ++i) {
        for (size_t b = 0; b < wire_.given[i].size(); ++b)
          std::ranges::copy(wire_.given[i][b], wire_.taken[i][b].begin());
      }
      return static_cast<int64_t>(wire_.done);
    }

   private:
    Carrier& carrier_;
    Wire& wire_;
    const bool gives_;
  };
};

class DeviceLinkTest : public testing::Test {
 protected:
  DeviceLinkTest() : endpoint_("ipc:///tmp/quire-device-link-test." + std::to_string(::getpid())) {}

  void Expect(uint64_t ticket, Bytes& to, DeviceCarrier* carrier) {
    receiver_.Expect(ticket, {to, spare_}, {{{0, static_cast<int64_t>(kBlock)}}}, carrier);
  }
  void Send(uint64_t ticket, Bytes& from, DeviceCarrier* carrier) {
    sender_.Send(ticket, kLinkEpoch, {from}, {{endpoint_, "", {{0, static_cast<int64_t>(kBlock)}}}}, carrier);
  }
  void Poll() {
    for (auto& end : sender_.Poll()) given_[end.ticket] = end;
    for (auto& end : receiver_.Poll()) taken_[end.ticket] = end;
  }
  template <class Condition>
  void PollUntil(Condition condition) {
    const auto deadline = Clock::now() + std::chrono::seconds(4);
    while (!condition() && Clock::now() < deadline) Poll();
    ASSERT_TRUE(condition());
  }
  /// Runs one transfer and expects it to succeed.
  void ExpectThatOneGoesWell(uint64_t ticket) {
    Bytes from = Pattern(static_cast<unsigned>(ticket)), to(kBlock);
    Expect(ticket, to, &carrier_);
    Send(ticket, from, &carrier_);
    PollUntil([&] { return given_.contains(ticket) && taken_.contains(ticket); });
    EXPECT_EQ(given_[ticket].problem, "");
    EXPECT_EQ(taken_[ticket].problem, "");
    EXPECT_EQ(taken_[ticket].bytes, static_cast<int64_t>(kBlock));
    EXPECT_EQ(to, from);
  }

  Carrier carrier_;
  std::string endpoint_;
  Bytes spare_ = Bytes(kBlock);
  BlockReceiver receiver_{endpoint_, kLinkEpoch};
  BlockSender sender_{{.identity = "a"}};
  std::map<uint64_t, BlockTransferEnd> given_, taken_;
};

TEST_F(DeviceLinkTest, OneLink_ServesSuccessiveTransfers) {
  for (uint64_t ticket = 1; ticket <= 3; ++ticket) ExpectThatOneGoesWell(ticket);
  EXPECT_EQ(carrier_.meetings, 1);
  EXPECT_TRUE(sender_.idle() && receiver_.idle() && !receiver_.moving());
}

TEST_F(DeviceLinkTest, EmptyTransfer_NeedsNoLink) {
  Bytes to(kBlock);
  Expect(1, to, &carrier_);
  sender_.Send(1, kLinkEpoch, {}, {{endpoint_, "", {{0, 1}}}}, &carrier_);
  PollUntil([&] { return given_.contains(1) && taken_.contains(1); });
  EXPECT_EQ(taken_[1].problem, "");
  EXPECT_EQ(carrier_.meetings, 0);
}

/// The receiver must not write a chunk's bytes into device memory, nor a device's data into host memory.
TEST_F(DeviceLinkTest, Transfer_Fails_WhenOnlyOneEndUsesTheDevice) {
  Bytes from = Pattern(1), to(kBlock);
  Expect(1, to, &carrier_);
  Send(1, from, nullptr);
  Expect(2, to, nullptr);
  Send(2, from, &carrier_);
  PollUntil([&] { return taken_.contains(1) && taken_.contains(2); });
  EXPECT_NE(taken_[1].problem, "");
  EXPECT_NE(taken_[2].problem, "");
  EXPECT_EQ(to, Bytes(kBlock));
  sender_.Stop(2);
  PollUntil([&] { return given_.contains(2); });
  ExpectThatOneGoesWell(3);
}

/// If a receiver ignored an announcement, the next announcement would match the wrong move.
TEST_F(DeviceLinkTest, UnexpectedTransfer_EndsTheLink) {
  ExpectThatOneGoesWell(1);
  Bytes from = Pattern(1);
  Send(2, from, &carrier_);  // the receiver does not expect this ticket
  PollUntil([&] { return given_.contains(2); });
  EXPECT_NE(given_[2].problem, "");
  EXPECT_EQ(carrier_.open, 0);
  ExpectThatOneGoesWell(3);
  EXPECT_EQ(carrier_.meetings, 2);
}

TEST_F(DeviceLinkTest, StoppedSender_ClosesTheLink) {
  Bytes from = Pattern(1), to(kBlock);
  carrier_.moves = false;
  Expect(1, to, &carrier_);
  Send(1, from, &carrier_);
  PollUntil([&] { return receiver_.moving(); });
  sender_.Stop(1);
  PollUntil([&] { return given_.contains(1) && taken_.contains(1); });
  EXPECT_EQ(given_[1].problem, kCalledOff);
  EXPECT_NE(taken_[1].problem, "");
  carrier_.moves = true;
  ExpectThatOneGoesWell(2);
}

TEST_F(DeviceLinkTest, StoppedReceiver_ClosesTheLink_BeforeItReportsTheEnd) {
  Bytes from = Pattern(1), to(kBlock);
  carrier_.moves = false;
  Expect(1, to, &carrier_);
  Send(1, from, &carrier_);
  PollUntil([&] { return receiver_.moving(); });
  EXPECT_EQ(carrier_.open, 2);
  receiver_.Stop(1);
  EXPECT_EQ(carrier_.open, 1) << "the receiver's end is gone before anybody hears of the end";
  carrier_.moves = true;
  PollUntil([&] { return given_.contains(1) && taken_.contains(1); });
  EXPECT_EQ(taken_[1].problem, kCalledOff);
  EXPECT_NE(given_[1].problem, "");
  EXPECT_EQ(to, Bytes(kBlock));
  ExpectThatOneGoesWell(2);
}

/// Sends announcements with impossible numbers or sizes. Each announcement must make its transfer fail.
TEST_F(DeviceLinkTest, WrongAnnouncements_FailTheirTransfers) {
  Channel channel = Channel::Connect(endpoint_, "b");
  Bytes to(kBlock);
  const Bytes meeting(10, std::byte{'m'}), nothing, long_one(kMostMeetingBytes + 1);
  const auto announce = [&](ChunkPlace place, const Bytes& data) {
    place.epoch = kLinkEpoch;
    place.by_device = true;
    Expect(place.ticket, to, &carrier_);
    const std::span<const std::byte> parts[] = {data};
    while (!channel.Send("", EncodeChunk(place, parts))) std::this_thread::yield();
  };
  announce({.ticket = 1, .number = 2, .num_blocks = 1}, meeting);
  announce({.ticket = 2, .number = 1, .num_blocks = 0}, meeting);
  announce({.ticket = 3, .number = 1, .num_blocks = 3}, meeting);
  announce({.ticket = 4, .number = 1, .num_blocks = 1}, nothing);
  announce({.ticket = 5, .number = 1, .num_blocks = 1}, long_one);
  PollUntil([&] { return taken_.size() == 5; });
  for (const auto& [ticket, end] : taken_) EXPECT_NE(end.problem, "") << ticket;
  EXPECT_TRUE(carrier_.wires.empty());
}

}  // namespace
}  // namespace quire
