#include <gtest/gtest.h>
#include <sodium.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "comm/base/error.h"
#include "comm/wire/channel.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_directory.h"

namespace quire {
namespace {

constexpr EpochId kCurveEpoch = 1;

std::string FileText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class CurveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_GE(::sodium_init(), 0);
    WriteTransportKeys(keys_, 2);
  }
  std::string LoadError() const {
    return ErrorThrownBy([&] {
      LoadCoordinatorKeys(keys_, 2);
      LoadWorkerKeys(keys_, 0);
      LoadWorkerKeys(keys_, 1);
    });
  }
  Channel Listen() {
    curve_ = std::make_shared<CurveServer>(LoadCoordinatorKeys(keys_, 2));
    return Channel::Bind("tcp://127.0.0.1:0", curve_);
  }
  static std::optional<ReceivedFrame> Receive(Channel& channel, int millis) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(millis);
    while (std::chrono::steady_clock::now() < deadline) {
      if (auto frame = channel.TryReceive()) return frame;
      Channel* channels[] = {&channel};
      Channel::Wait(channels, -1, 20);
    }
    return std::nullopt;
  }

  TemporaryDirectory directory_;
  std::string keys_ = directory_ / "keys";
  std::shared_ptr<CurveServer> curve_;
};

TEST_F(CurveTest, WrittenKeys_CanBeLoaded_AndArePrivate) {
  EXPECT_EQ(LoadError(), "");
  const auto mode = [&](const char* name) {
    return static_cast<unsigned>(std::filesystem::status(keys_ + name).permissions());
  };
  EXPECT_EQ(mode(""), 0700u);
  EXPECT_EQ(mode("/workers"), 0700u);
  EXPECT_EQ(mode("/coordinator.secret"), 0600u);
  EXPECT_EQ(mode("/workers/r1.secret"), 0600u);
  EXPECT_EQ(FileText(keys_ + "/workers/r0.pub").size(), 41u);
  EXPECT_NE(FileText(keys_ + "/workers/r0.pub"), FileText(keys_ + "/workers/r1.pub"));
}

TEST_F(CurveTest, WriteTransportKeys_AddsRanks_AndKeepsExistingKeys) {
  const std::string before = FileText(keys_ + "/workers/r0.secret");
  EXPECT_TRUE(WriteTransportKeys(keys_, 2).empty());
  EXPECT_EQ(WriteTransportKeys(keys_, 3).size(), 2u);
  EXPECT_EQ(FileText(keys_ + "/workers/r0.secret"), before);
  EXPECT_EQ(LoadCoordinatorKeys(keys_, 2).workers.size(), 3u);
}

TEST_F(CurveTest, LoadErrors_ExplainWhyKeysCannotBeUsed) {
  EXPECT_THROW(LoadCoordinatorKeys(keys_, 3), Error);  // keys for too few ranks
  std::filesystem::permissions(keys_ + "/workers/r0.secret", std::filesystem::perms(0644));
  EXPECT_NE(LoadError().find("chmod 0600"), std::string::npos) << LoadError();
  std::filesystem::permissions(keys_ + "/workers/r0.secret", std::filesystem::perms(0600));
  std::filesystem::permissions(keys_, std::filesystem::perms(0750));
  EXPECT_NE(LoadError().find("chmod 0700"), std::string::npos) << LoadError();
  std::filesystem::permissions(keys_, std::filesystem::perms(0700));
  const std::string good = FileText(keys_ + "/workers/r1.pub");
  for (const std::string& bad :
       {std::string(), std::string("short\n"), good + good, std::string(40, '"'), std::string(40, '\0')}) {
    std::ofstream(keys_ + "/workers/r1.pub") << bad;
    EXPECT_NE(LoadError().find("r1.pub"), std::string::npos) << LoadError();
  }
  std::ofstream(keys_ + "/workers/r1.pub") << FileText(keys_ + "/workers/r0.pub");
  EXPECT_NE(LoadError().find("every rank needs its own"), std::string::npos) << LoadError();
  std::ofstream(keys_ + "/workers/r1.pub") << good;
  EXPECT_EQ(LoadError(), "");
  std::filesystem::copy_file(keys_ + "/workers/r1.secret", keys_ + "/workers/r0.secret",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_NE(LoadError().find("does not belong"), std::string::npos) << LoadError();
}

TEST_F(CurveTest, Frames_CarryTheRankOfTheKey_WhateverIdentityAWorkerClaims) {
  Channel server = Listen();
  const WorkerKeys keys = LoadWorkerKeys(keys_, 1);
  Channel honest = Channel::Connect(server.bound_endpoint(), WorkerIdentity(kCurveEpoch, 1), &keys);
  honest.Send("", Encode(BeatMessage{7}, kCurveEpoch, 0));
  const auto frame = Receive(server, 5000);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->user, "r1");
  EXPECT_TRUE(server.Send(frame->peer, Encode(BeatMessage{8}, kCurveEpoch, 0)));
  EXPECT_TRUE(Receive(honest, 5000));
  Channel liar = Channel::Connect(server.bound_endpoint(), WorkerIdentity(kCurveEpoch, 0), &keys);
  liar.Send("", Encode(BeatMessage{7}, kCurveEpoch, 0));
  const auto lie = Receive(server, 5000);
  ASSERT_TRUE(lie);
  EXPECT_EQ(lie->peer, WorkerIdentity(kCurveEpoch, 0));
  EXPECT_EQ(lie->user, "r1");
}

TEST_F(CurveTest, Frames_AreNotDelivered_FromUnknownKeys) {
  Channel server = Listen();
  EXPECT_EQ(curve_->num_refused(), 0u);  // the server's own test connection does not count
  Channel plain = Channel::Connect(server.bound_endpoint(), "e1.r0");
  const WorkerKeys stranger{MakeCurveKeyPair(), LoadWorkerKeys(keys_, 0).coordinator};
  Channel unknown = Channel::Connect(server.bound_endpoint(), "e1.r1", &stranger);
  for (Channel* channel : {&plain, &unknown}) channel->Send("", Encode(BeatMessage{1}, kCurveEpoch, 0));
  EXPECT_FALSE(Receive(server, 1000));
  EXPECT_GE(curve_->num_refused(), 1u);
}

TEST_F(CurveTest, Worker_SendsNothing_ToACoordinatorWithAnotherKey) {
  Channel server = Listen();
  WorkerKeys misled = LoadWorkerKeys(keys_, 0);
  misled.coordinator = MakeCurveKeyPair().public_key;
  Channel worker = Channel::Connect(server.bound_endpoint(), "e1.r0", &misled);
  worker.Send("", Encode(BeatMessage{1}, kCurveEpoch, 0));
  EXPECT_FALSE(Receive(server, 700));
}

TEST_F(CurveTest, Worker_ReachesItsServer_WhenSeveralCurveServersRunInOneProcess) {
  Channel first = Listen(), second = Listen();
  const WorkerKeys keys = LoadWorkerKeys(keys_, 0);
  Channel worker = Channel::Connect(second.bound_endpoint(), "e1.r0", &keys);
  worker.Send("", Encode(BeatMessage{1}, kCurveEpoch, 0));
  Channel* both[] = {&first, &second};  // channels of two contexts
  Channel::Wait(both, -1, 5000);
  EXPECT_TRUE(Receive(second, 5000));
}

TEST_F(CurveTest, UnixSockets_AreEncrypted) {
  curve_ = std::make_shared<CurveServer>(LoadCoordinatorKeys(keys_, 2));
  const std::string endpoint = "ipc://" + (directory_ / "s");
  Channel server = Channel::Bind(endpoint, curve_);
  const WorkerKeys keys = LoadWorkerKeys(keys_, 0);
  Channel worker = Channel::Connect(endpoint, "e1.r0", &keys);
  worker.Send("", Encode(BeatMessage{1}, kCurveEpoch, 0));
  EXPECT_TRUE(Receive(server, 5000));
}

TEST_F(CurveTest, CheckThatStrangersAreRefused_Throws_WhenTheSocketAcceptsUnknownKeys) {
  // This socket's context has no ZAP handler, so the socket accepts every key. CheckThatStrangersAreRefused must notice
  // this.
  curve_ = std::make_shared<CurveServer>(LoadCoordinatorKeys(keys_, 2));
  Channel open = Channel::Bind("tcp://127.0.0.1:0");
  EXPECT_THROW(curve_->CheckThatStrangersAreRefused(open.bound_endpoint()), Error);
}

}  // namespace
}  // namespace quire
