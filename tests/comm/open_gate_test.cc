#include "comm/wire/gate/open_gate.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <vector>

#include "comm/base/descriptor.h"
#include "comm/wire/gate/first_message.h"
#include "comm/wire/gate/gate_sockets.h"
#include "comm/wire/gate/open_places.h"

namespace quire {
namespace {

constexpr int kWaitMillis = 20000;

/// An open gate on a free port. The test takes the gate's connections in place of the ZeroMQ socket behind the gate.
struct TestOpenGate {
  explicit TestOpenGate(std::chrono::milliseconds to_speak = {})
      : gate("tcp://127.0.0.1:0", "test", to_speak), inner(gate.ReleaseInner()) {
    gate.Open();
  }

  Descriptor Connect(const char* from = "127.0.0.1") const {
    sockaddr_in there{};
    there.sin_family = AF_INET;
    there.sin_port = htons(static_cast<uint16_t>(std::stoi(gate.endpoint().substr(gate.endpoint().rfind(':') + 1))));
    ::inet_pton(AF_INET, "127.0.0.1", &there.sin_addr);
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in here{};
    here.sin_family = AF_INET;
    ::inet_pton(AF_INET, from, &here.sin_addr);
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&here), sizeof(here)), 0);
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

/// Reads until `count` bytes have arrived or the peer has closed the connection.
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
  // A link takes one of kMostPeers places until both of its sides have ended. While no place is free, the gate closes
  // new peers, so the test connects again and again until new peers have all places.
  for (int i = 0; i < 500 && peers.size() < size_t{OpenGate::kMostPeers}; ++i) {
    Descriptor peer = there.Connect();
    SendAll(peer, "x");
    pollfd waits{there.inner.get(), POLLIN, 0};
    if (::poll(&waits, 1, 20) == 1) peers.push_back(std::move(peer));
  }
  ASSERT_EQ(peers.size(), size_t{OpenGate::kMostPeers});
  EXPECT_EQ(ReadUpTo(there.Accept(), 1), "x");
}

TEST(OpenGateTest, FullGate_ClosesTheNewestConnectionOfTheLargestNetwork_UntilTheNewConnectionsNetworkIsAsLarge) {
  const TestOpenGate there;
  std::vector<Descriptor> peers, servers;
  const auto connect = [&](const char* from) {
    peers.push_back(there.Connect(from));
    servers.push_back(there.Accept());
  };
  for (int i = 0; i < OpenGate::kMostPeers; ++i) connect("127.0.0.2");
  for (int i = 0; i < OpenGate::kMostPeers / 2; ++i) {
    connect("127.0.0.3");
    const size_t closed = static_cast<size_t>(OpenGate::kMostPeers - 1 - i);
    EXPECT_EQ(ReadUpTo(peers[closed], 1), "") << "the newcomer " << i << " took no place";
    SendAll(peers.back(), "x");
    EXPECT_EQ(ReadUpTo(servers.back(), 1), "x");
  }
  EXPECT_EQ(ReadUpTo(there.Connect("127.0.0.3"), 1), "") << "a network got more places than the other one";
  SendAll(peers.front(), "y");
  EXPECT_EQ(ReadUpTo(servers.front(), 1), "y");
}

PeerName PeerAt(const std::string& address) {
  sockaddr_storage peer{};
  if (auto* v4 = reinterpret_cast<sockaddr_in*>(&peer); ::inet_pton(AF_INET, address.c_str(), &v4->sin_addr) == 1) {
    peer.ss_family = AF_INET;
  } else {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&peer);
    EXPECT_EQ(::inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr), 1);
    peer.ss_family = AF_INET6;
  }
  return NameOf(peer);
}

/// Returns the address of the connection that is closed in favour of a new connection from `newcomer`; "" when the new
/// connection is refused.
std::string LoserTo(const std::string& newcomer, const std::vector<std::string>& addresses) {
  std::vector<PeerName> peers;
  for (const std::string& address : addresses) peers.push_back(PeerAt(address));
  const std::optional<size_t> place = PlaceFor(PeerAt(newcomer), peers);
  return place ? peers.at(*place).address : "";
}

TEST(OpenPlacesTest, NewConnection_GetsAPlace_WhenManyAddressesOfOneSubnetHoldAllPlaces) {
  std::vector<std::string> local, remote, v6;
  for (int i = 1; i <= OpenGate::kMostPeers; ++i) {
    local.push_back("127." + std::to_string(i) + ".0.1");
    remote.push_back("192.0.2." + std::to_string(i));
    v6.push_back("2001:db8:1:" + std::to_string(i) + "::1");
  }
  EXPECT_NE(LoserTo("198.51.100.1", local), "") << "loopback is one neighbourhood";
  EXPECT_NE(LoserTo("2001:db8::1", local), "");
  EXPECT_NE(LoserTo("198.51.100.1", remote), "") << "an IPv4 /24 is one";
  EXPECT_NE(LoserTo("127.0.0.1", remote), "");
  EXPECT_NE(LoserTo("198.51.100.1", v6), "") << "an IPv6 /48 is one";
  EXPECT_EQ(LoserTo("127.0.0.1", local), "");
  EXPECT_EQ(LoserTo("::1", local), "") << "::1 is loopback, too";
  EXPECT_EQ(LoserTo("192.0.2.200", remote), "");
}

TEST(OpenPlacesTest, NewConnection_ReplacesTheLatestOfTheLargestNetwork_UnlessItsNetworkWouldThenHoldMore) {
  const std::vector<std::string> peers = {"192.0.2.1", "192.0.2.2", "192.0.2.1",  "203.0.113.1",
                                          "192.0.2.2", "192.0.2.1", "203.0.113.2"};
  EXPECT_EQ(PlaceFor(PeerAt("198.51.100.1"), std::vector{PeerAt("192.0.2.1"), PeerAt("192.0.2.1"), PeerAt("::1")}), 1u)
      << "the latest of the largest network";
  EXPECT_EQ(LoserTo("198.51.100.1", peers), "192.0.2.1");
  EXPECT_EQ(LoserTo("203.0.113.1", peers), "192.0.2.1");
  EXPECT_EQ(LoserTo("192.0.2.3", peers), "192.0.2.1") << "within its own neighbourhood";
  EXPECT_EQ(LoserTo("192.0.2.2", peers), "") << "it would have as many as the largest, and that one fewer";
  EXPECT_EQ(LoserTo("198.51.100.1", {"192.0.2.1", "203.0.113.1"}), "") << "each has one place";
}

/// Returns the first bytes that a subscriber of libzmq sends: a greeting, then the command READY.
std::string Hello() {
  std::string ready("\5READY\13Socket-Type\0\0\0\3SUB\10Identity\0\0\0\0", 38);
  return std::string(64, 'g') + '\4' + static_cast<char>(ready.size()) + ready;
}

TEST(OpenGateTest, Gate_ClosesAPeer_ThatGreetsAndNeverSubscribes_AndKeepsOneThatDoes) {
  const TestOpenGate there(std::chrono::milliseconds(500));
  const Descriptor silent = there.Connect(), behind_silent = there.Accept();
  const Descriptor router = there.Connect(), behind_router = there.Accept();
  SendAll(silent, Hello());
  SendAll(router, Hello() + std::string("\0\1\1", 3));
  EXPECT_EQ(ReadUpTo(silent, 1), "");
  pollfd waits{router.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&waits, 1, 1500), 0) << "the subscriber was closed, too";
}

TEST(OpenGateTest, Gate_ClosesAPeer_ThatReadsNothing) {
  const TestOpenGate there;
  const Descriptor peer = there.Connect(), server = there.Accept();
  const std::string events(1 << 20, 'e');
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kWaitMillis);
  bool closed = false;
  while (!closed && std::chrono::steady_clock::now() < end) {
    const ssize_t sent = ::send(server.get(), events.data(), events.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    closed = sent < 0 && errno != EAGAIN;
    if (sent < 0 && !closed) ::poll(nullptr, 0, 50);
  }
  EXPECT_TRUE(closed);
}

TEST(FirstMessageTest, Message_IsFound_HoweverTheBytesAreCut) {
  const std::string ping("\4\7\4PING\0\0", 9), long_command("\6\0\0\0\0\0\0\0\7\5READYx", 16);
  const std::vector<std::string> ends = {std::string("\0\1\1", 3), std::string("\4\12\11SUBSCRIBE", 12),
                                         std::string("\1\0", 2)};
  for (const std::string& end : ends) {
    const std::string before = Hello() + ping + long_command + std::string("\4\0", 2) + ping;
    for (size_t piece = 1; piece <= 40; ++piece) {
      FirstMessage first;
      for (size_t at = 0; at < before.size(); at += piece) {
        const std::string part = before.substr(at, piece);
        EXPECT_FALSE(first.Reached(part)) << piece;
      }
      bool reached = false;
      for (const char byte : end) reached = first.Reached({&byte, 1});
      EXPECT_TRUE(reached) << piece;
    }
  }
}

}  // namespace
}  // namespace quire
