#include "comm/wire/gate/open_gate.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "comm/base/descriptor.h"
#include "comm/wire/gate/gate_sockets.h"

namespace quire {
namespace {

constexpr int kWaitMillis = 5000;

/// An open gate on a free port. The test takes the gate's connections in place of the ZeroMQ socket behind the gate.
struct TestOpenGate {
  TestOpenGate() : gate("tcp://127.0.0.1:0", "test"), inner(gate.ReleaseInner()) { gate.Open(); }

  Descriptor Connect() const {
    sockaddr_in there{};
    there.sin_family = AF_INET;
    there.sin_port = htons(static_cast<uint16_t>(std::stoi(gate.endpoint().substr(gate.endpoint().rfind(':') + 1))));
    ::inet_pton(AF_INET, "127.0.0.1", &there.sin_addr);
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&there), sizeof(there)), 0);
    return socket;
  }
  /// Accepts the gate's connection to the ZeroMQ socket.
  Descriptor Accept() const {
    pollfd waits{inner.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&waits, 1, kWaitMillis), 1) << "the gate let nobody in";
    return Descriptor(::accept(inner.get(), nullptr, nullptr));
  }

  OpenGate gate;
  Descriptor inner;
};

/// Reads until `count` bytes have arrived or the other side has closed.
std::string ReadUpTo(const Descriptor& socket, size_t count) {
  std::string all;
  std::vector<char> buffer(64 << 10);
  while (all.size() < count) {
    pollfd waits{socket.get(), POLLIN, 0};
    if (::poll(&waits, 1, kWaitMillis) != 1) return all + " (and then nothing)";
    const ssize_t got = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) return all;
    all.append(buffer.data(), static_cast<size_t>(got));
  }
  return all;
}

void SendAll(const Descriptor& socket, const std::string& bytes) {
  (void)::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

TEST(OpenGateTest, Gate_ForwardsBytesInBothDirections_UpToThePeersLimit) {
  const TestOpenGate there;
  const Descriptor peer = there.Connect(), server = there.Accept();
  const std::string asked(OpenGate::kMostBytes, 'a'), told(3 * OpenGate::kMostBytes, 't');
  SendAll(peer, asked);
  EXPECT_EQ(ReadUpTo(server, asked.size()), asked);
  SendAll(server, told);
  EXPECT_EQ(ReadUpTo(peer, told.size()), told);
}

TEST(OpenGateTest, Gate_ClosesAPeer_ThatSendsMoreThanAllowedInAll) {
  const TestOpenGate there;
  const Descriptor peer = there.Connect(), server = there.Accept();
  const std::string part(OpenGate::kMostBytes / 2, 'a');
  SendAll(peer, part);
  EXPECT_EQ(ReadUpTo(server, part.size()), part);
  SendAll(peer, part);
  EXPECT_EQ(ReadUpTo(server, part.size()), part);
  SendAll(peer, "b");
  EXPECT_EQ(ReadUpTo(server, 1), "");
  EXPECT_EQ(ReadUpTo(peer, 1), "");
}

TEST(OpenGateTest, OpenGate_RefusesPeersWhileItIsFull_AndAcceptsOneForEachPeerThatLeaves) {
  const TestOpenGate there;
  std::vector<Descriptor> peers, servers;
  for (int i = 0; i < OpenGate::kMostPeers; ++i) {
    peers.push_back(there.Connect());
    servers.push_back(there.Accept());
  }
  EXPECT_EQ(ReadUpTo(there.Connect(), 1), "");
  peers.pop_back();
  EXPECT_EQ(ReadUpTo(servers.back(), 1), "");
  servers.pop_back();
  // The gate counts a link until both sides have ended. A peer that connects earlier is closed, and connects again.
  for (int i = 0; i < 500 && peers.size() < size_t{OpenGate::kMostPeers}; ++i) {
    Descriptor peer = there.Connect();
    SendAll(peer, "x");
    pollfd waits{there.inner.get(), POLLIN, 0};
    if (::poll(&waits, 1, 20) == 1) peers.push_back(std::move(peer));
  }
  ASSERT_EQ(peers.size(), size_t{OpenGate::kMostPeers});
  EXPECT_EQ(ReadUpTo(there.Accept(), 1), "x");
}

}  // namespace
}  // namespace quire
