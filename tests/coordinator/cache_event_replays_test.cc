#include "coordinator/cache_events/cache_event_replays.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/cache_events/event_endpoint.h"
#include "tests/support/temporary_directory.h"

namespace quire {
namespace {

constexpr uint64_t kEnd = ~uint64_t{0};
/// These batches have more bytes together than all queues between the server and a client can hold while the client
/// does not read.
constexpr size_t kBatches = 2000, kBatchBytes = 16 << 10;

/// A client of the replay endpoint. Its own queue holds one message.
class Client {
 public:
  Client(zmq::context_t& context, const std::string& endpoint) : socket_(context, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::rcvhwm, 1);
    socket_.set(zmq::sockopt::linger, 0);
    socket_.connect(endpoint);
  }

  void Ask(uint64_t number) {
    socket_.send(zmq::message_t(), zmq::send_flags::sndmore);
    socket_.send(NumberMessage(number), zmq::send_flags::none);
  }

  /// Returns the number of the next message; nullopt when there is none.
  std::optional<uint64_t> Read() {
    zmq::message_t empty, number, batch;
    if (!socket_.recv(empty, zmq::recv_flags::dontwait)) return std::nullopt;
    if (!socket_.recv(number) || !socket_.recv(batch)) return std::nullopt;
    return NumberOf(number);
  }

 private:
  zmq::socket_t socket_;
};

class CacheEventReplaysTest : public testing::Test {
 protected:
  CacheEventReplaysTest() {
    for (uint64_t i = 0; i < kBatches; ++i) replays_.Keep(i, zmq::message_t(kBatchBytes));
  }

  /// Serves until `done` returns true.
  template <class Done>
  void ServeUntil(Done done) {
    while (!done()) {
      if (replays_.Serve() != std::chrono::milliseconds(0)) std::this_thread::yield();
    }
  }

  /// Serves and reads until the client has its replay. Returns the numbers of the replay's first and last batch, and
  /// the count of its batches.
  std::vector<uint64_t> WholeReplay(Client& client) {
    uint64_t first = kEnd, last = kEnd, count = 0;
    ServeUntil([&] {
      while (const auto number = client.Read()) {
        if (*number == kEnd) return true;
        if (count++ == 0) first = *number;
        last = *number;
      }
      return false;
    });
    return {first, last, count};
  }

  TemporaryDirectory directory_;
  zmq::context_t context_;
  const std::string endpoint_ = "ipc://" + directory_.path() + "/replay";
  CacheEventReplays replays_{context_, endpoint_, kBatches};
};

TEST_F(CacheEventReplaysTest, Client_GetsAllStoredBatches_FromTheRequestedNumberOn) {
  Client client(context_, endpoint_);
  client.Ask(kBatches - 500);
  EXPECT_EQ(WholeReplay(client), (std::vector<uint64_t>{kBatches - 500, kBatches - 1, 500}));
  replays_.Keep(kBatches, zmq::message_t(1));
  client.Ask(0);
  EXPECT_EQ(WholeReplay(client), (std::vector<uint64_t>{1, kBatches, kBatches})) << "batch 0 is no longer kept";
  client.Ask(kBatches + 1);
  EXPECT_EQ(WholeReplay(client), (std::vector<uint64_t>{kEnd, kEnd, 0})) << "nothing was missed";
}

TEST_F(CacheEventReplaysTest, ClientThatAsksAgainAndDoesNotRead_GetsOneReplay_AndDelaysNobody) {
  Client greedy(context_, endpoint_), other(context_, endpoint_);
  for (int i = 0; i < 1000; ++i) greedy.Ask(0);
  for (int calls = 0; calls < 100; ++calls) replays_.Serve();  // reads all requests of the greedy client
  other.Ask(0);
  EXPECT_EQ(WholeReplay(other), (std::vector<uint64_t>{0, kBatches - 1, kBatches}));
  EXPECT_EQ(WholeReplay(greedy), (std::vector<uint64_t>{0, kBatches - 1, kBatches}));
  EXPECT_EQ(replays_.Serve(), std::chrono::milliseconds(-1)) << "no replay is left";
  EXPECT_EQ(greedy.Read(), std::nullopt);
}

TEST_F(CacheEventReplaysTest, Serve_ForgetsTheReplay_WhenTheClientIsGone) {
  {
    Client client(context_, endpoint_);
    client.Ask(0);
    ServeUntil([&] { return client.Read().has_value(); });
  }
  ServeUntil([&] { return replays_.Serve() == std::chrono::milliseconds(-1); });
}

TEST_F(CacheEventReplaysTest, Serve_IgnoresMessages_ThatAreNoRequests) {
  zmq::socket_t socket(context_, zmq::socket_type::dealer);
  socket.connect(endpoint_);
  socket.send(zmq::message_t(8), zmq::send_flags::none);
  socket.send(zmq::message_t(), zmq::send_flags::sndmore);
  socket.send(zmq::message_t(7), zmq::send_flags::none);
  Client client(context_, endpoint_);
  client.Ask(kBatches - 1);
  EXPECT_EQ(WholeReplay(client), (std::vector<uint64_t>{kBatches - 1, kBatches - 1, 1}));
  zmq::message_t answer;
  EXPECT_FALSE(socket.recv(answer, zmq::recv_flags::dontwait));
}

}  // namespace
}  // namespace quire
