#include "comm/wire/gate/gate_doors.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <string>
#include <vector>

#include "comm/base/error.h"
#include "comm/wire/gate/gate_sockets.h"

namespace quire {
namespace {

sockaddr_storage DoorAddress(const std::string& text, uint16_t port = 0) {
  sockaddr_storage address{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(address);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
  if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
  } else {
    EXPECT_EQ(::inet_pton(AF_INET, text.c_str(), &v4.sin_addr), 1) << text;
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
  }
  return address;
}

socklen_t SizeOf(const sockaddr_storage& address) {
  return address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

/// GateDoors (two listening sockets) on a free port of the address `at`, with clients that connect from addresses of
/// 127.0.0.0/8.
struct TestDoors {
  explicit TestDoors(const std::string& at) : doors("tcp://" + at + ":0", hosts) { doors.LearnHosts(strangers); }

  uint16_t port() const {
    return static_cast<uint16_t>(std::stoi(doors.endpoint().substr(doors.endpoint().rfind(':') + 1)));
  }
  /// Begins a connection from the address `from` to `to`, and returns before it is complete.
  Descriptor Begin(const std::string& from, const std::string& to) const {
    const sockaddr_storage own = DoorAddress(from), there = DoorAddress(to, port());
    Descriptor socket(::socket(own.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&own), SizeOf(own)), 0) << from;
    (void)::connect(socket.get(), reinterpret_cast<const sockaddr*>(&there), SizeOf(there));
    return socket;
  }
  /// True when the connection is complete within half a second, before the kernel would try a second time.
  static bool Connected(const Descriptor& socket) {
    pollfd writable{socket.get(), POLLOUT, 0};
    return ::poll(&writable, 1, 500) == 1 && (writable.revents & POLLERR) == 0;
  }
  /// Accepts all connections that wait at a socket, and returns the peers' addresses.
  static std::vector<std::string> Waiting(int door) {
    std::vector<std::string> all;
    for (;;) {
      sockaddr_storage peer{};
      if (!AcceptPeer(door, peer).open()) return all;
      all.push_back(NameOf(peer).address);
    }
  }

  WorkerHosts hosts;
  Strangers strangers;
  GateDoors doors;
};

using Peers = std::vector<std::string>;

TEST(GateDoorsTest, HostsOfWorkers_Connect_WhileOthersFillTheQueue) {
  TestDoors there("127.0.0.1");
  if (there.doors.workers() < 0) GTEST_SKIP() << "this kernel does not choose sockets by address";
  std::vector<Descriptor> flood;
  for (int i = 0; i < 3 * kGateBacklog; ++i) flood.push_back(there.Begin("127.0.0.2", "127.0.0.1"));
  EXPECT_FALSE(there.Connected(there.Begin("127.0.0.3", "127.0.0.1"))) << "the queue is not full";
  const Descriptor own = there.Begin("127.0.0.1", "127.0.0.1");
  EXPECT_TRUE(there.Connected(own)) << "this host's own address is known";
  there.hosts.AddHost("127.0.0.3");
  there.doors.LearnHosts(there.strangers);
  const Descriptor worker = there.Begin("127.0.0.3", "127.0.0.1");
  EXPECT_TRUE(there.Connected(worker)) << "an address is known as soon as it was learned";
  EXPECT_EQ(there.Waiting(there.doors.workers()), (Peers{"127.0.0.1", "127.0.0.3"}));
  const Peers others = there.Waiting(there.doors.others());
  EXPECT_GE(others.size(), static_cast<size_t>(kGateBacklog));
  EXPECT_EQ(others, Peers(others.size(), "127.0.0.2"));
}

TEST(GateDoorsTest, ListedHosts_ReachTheWorkersSocket_AndTheirNeighboursDoNot) {
  TestDoors there("127.0.0.1");
  if (there.doors.workers() < 0) GTEST_SKIP() << "this kernel does not choose sockets by address";
  Peers workers;
  for (int i = 1; i < static_cast<int>(WorkerHosts::kMost) / 2; ++i) {
    there.hosts.AddHost("127.200." + std::to_string(i) + ".124");
    there.hosts.AddHost("fd00::" + std::to_string(i));
    workers.push_back("127.200." + std::to_string(i) + ".124");
  }
  there.doors.LearnHosts(there.strangers);
  Peers others;
  for (const std::string& worker : workers) {
    EXPECT_TRUE(there.Connected(there.Begin(worker, "127.0.0.1"))) << worker;
    EXPECT_EQ(there.Waiting(there.doors.workers()), Peers{worker});
    for (const int change : {1, 2}) {
      std::string other = worker;
      other.back() = static_cast<char>(other.back() ^ change);
      EXPECT_TRUE(there.Connected(there.Begin(other, "127.0.0.1"))) << other;
      EXPECT_EQ(there.Waiting(there.doors.others()), Peers{other});
    }
  }
}

TEST(GateDoorsTest, IPv4AndIPv6Hosts_AreRecognised_OnAPortForBoth) {
  const Descriptor probe(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_storage loopback = DoorAddress("::1");
  if (::bind(probe.get(), reinterpret_cast<const sockaddr*>(&loopback), SizeOf(loopback)) != 0)
    GTEST_SKIP() << "no IPv6 here";
  TestDoors there("[::]");
  if (there.doors.workers() < 0) GTEST_SKIP() << "this kernel does not choose sockets by address";
  EXPECT_TRUE(there.Connected(there.Begin("::1", "::1")));
  EXPECT_EQ(there.Waiting(there.doors.workers()), Peers{"::1"});
  EXPECT_TRUE(there.Connected(there.Begin("127.0.0.2", "127.0.0.1")));
  EXPECT_EQ(there.Waiting(there.doors.others()), Peers{"127.0.0.2"});
  there.hosts.AddHost("127.0.0.2");
  there.doors.LearnHosts(there.strangers);
  EXPECT_TRUE(there.Connected(there.Begin("127.0.0.2", "127.0.0.1")));
  EXPECT_EQ(there.Waiting(there.doors.workers()), Peers{"127.0.0.2"});
}

TEST(GateDoorsTest, SecondListener_IsRefused_OnAPortInUse) {
  TestDoors there("127.0.0.1");
  EXPECT_THROW(ListenOnTcp(there.doors.endpoint()), Error);
  WorkerHosts hosts;
  EXPECT_THROW(GateDoors(there.doors.endpoint(), hosts), Error);
}

TEST(WorkerHostsTest, Addresses_AreBounded_AndIPv4WrittenAsIPv6CountsAsIPv4) {
  WorkerHosts hosts;
  hosts.AddHost("::ffff:10.0.0.5");
  hosts.AddHost("10.0.0.5");
  ASSERT_EQ(hosts.version(), 1u);
  EXPECT_EQ(AddressText(hosts.all()[0]), "10.0.0.5");
  for (size_t i = 0; i < 2 * WorkerHosts::kMost; ++i)
    hosts.AddHost("10.1." + std::to_string(i / 256) + "." + std::to_string(i % 256));
  EXPECT_EQ(hosts.all().size(), WorkerHosts::kMost);
  hosts.AddHost("no such name.invalid");
  hosts.AddPeer(-1);
  EXPECT_EQ(hosts.all().size(), WorkerHosts::kMost);
}

}  // namespace
}  // namespace quire
