#include "comm/wire/gate/port_gate.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sodium.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <thread>
#include <zmq.hpp>

#include "comm/base/descriptor.h"
#include "comm/base/error.h"
#include "comm/wire/channel.h"
#include "comm/wire/curve/worker_hosts.h"
#include "comm/wire/gate/gate_links.h"
#include "comm/wire/gate/gate_pace.h"
#include "comm/wire/gate/gate_strangers.h"
#include "comm/wire/gate/handshake_words.h"
#include "tests/support/temporary_directory.h"

namespace quire {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;
using GateBytes = std::vector<uint8_t>;

constexpr EpochId kGateEpoch = 1;

GateBytes Greeting() { return {ClientGreeting().begin(), ClientGreeting().end()}; }

GateBytes Joined(GateBytes first, const GateBytes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// Returns a HELLO of valid form whose cryptographic box cannot be opened.
GateBytes HelloOfNobody() {
  GateBytes hello{0x04, 200};
  hello.insert(hello.end(), kHelloCommand.begins.begin(), kHelloCommand.begins.end());
  static std::mt19937 random(7);
  while (hello.size() < 202) hello.push_back(static_cast<uint8_t>(random()));
  return hello;
}

// --- words of the handshake ---

/// Returns the index of the first byte at which a prefix is wrong; -1 when no prefix is wrong.
template <class State>
int FirstWrong(const GateBytes& bytes, const State& state) {
  for (size_t size = 1; size <= bytes.size(); ++size) {
    if (state(std::span(bytes).first(size)).wrong) return static_cast<int>(size) - 1;
  }
  return -1;
}
int FirstWrongOfGreeting(const GateBytes& bytes) { return FirstWrong(bytes, StateOfGreeting); }
int FirstWrongOfHello(const GateBytes& bytes) {
  return FirstWrong(bytes, [](auto prefix) { return StateOfCommand(prefix, kHelloCommand); });
}
int FirstWrongOfInitiate(const GateBytes& bytes) {
  return FirstWrong(bytes, [](auto prefix) { return StateOfCommand(prefix, kInitiateCommand); });
}

TEST(HandshakeWordsTest, Greeting_IsRefused_AtItsFirstWrongByte) {
  EXPECT_EQ(FirstWrongOfGreeting(Greeting()), -1);
  EXPECT_EQ(StateOfGreeting(Greeting()).missing, 0u);
  EXPECT_EQ(StateOfGreeting(ClientGreeting().first(10)).missing, 54u);
  for (size_t i = 0; i < kGreetingBytes; ++i) {
    GateBytes bad = Greeting();
    bad[i] ^= 0x80;
    const bool free = i == 8 || i == 11;  // the low byte of the size, and the minor version
    EXPECT_EQ(FirstWrongOfGreeting(bad), free ? -1 : static_cast<int>(i)) << i;
  }
  GateBytes plain = Greeting();
  std::memcpy(plain.data() + 12, "NULL\0", 5);
  EXPECT_EQ(FirstWrongOfGreeting(plain), 12);
}

TEST(HandshakeWordsTest, Hello_IsRefused_AtItsFirstWrongByte) {
  EXPECT_EQ(FirstWrongOfHello(HelloOfNobody()), -1);
  for (const int size : {0, 1, 199, 201, 255}) {
    GateBytes bad = HelloOfNobody();
    bad[1] = static_cast<uint8_t>(size);
    EXPECT_EQ(FirstWrongOfHello(bad), 1) << size;
  }
  for (const int flags : {0, 1, 2, 3, 5, 6, 7, 0x84, 0xff}) {
    GateBytes bad = HelloOfNobody();
    bad[0] = static_cast<uint8_t>(flags);
    EXPECT_EQ(FirstWrongOfHello(bad), 0) << flags;
  }
  for (size_t i = 2; i < 82; ++i) {
    GateBytes bad = HelloOfNobody();
    bad[i] ^= 1;
    EXPECT_EQ(FirstWrongOfHello(bad), static_cast<int>(i));
  }
}

TEST(HandshakeWordsTest, Initiate_IsRefused_WhenItsAnnouncedSizeIsOutOfBounds) {
  const auto with_size = [](uint64_t size, uint8_t flags = 0x06) {
    GateBytes bytes{flags};
    for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<uint8_t>(size >> shift));
    return bytes;
  };
  EXPECT_EQ(FirstWrongOfInitiate(with_size(257)), -1);
  EXPECT_EQ(FirstWrongOfInitiate(with_size(1024)), -1);
  for (const uint64_t size : {uint64_t{0}, uint64_t{200}, uint64_t{256}, uint64_t{1025}, uint64_t{1} << 20,
                              (uint64_t{64} << 20) - 1, uint64_t{1} << 40, ~uint64_t{0}})
    EXPECT_GE(FirstWrongOfInitiate(with_size(size)), 1) << size;
  EXPECT_EQ(FirstWrongOfInitiate(with_size(300, 0x02)), 0);  // a message where a command must come
  EXPECT_EQ(FirstWrongOfInitiate({0x04, 255}), 1);           // too short for INITIATE
  EXPECT_EQ(FirstWrongOfInitiate(Joined(with_size(300), {8, 'I', 'N', 'I', 'T', 'I', 'A', 'T', 'O'})), 17);
}

// --- connections before the handshake ---

TEST(StrangersTest, NewConnection_ReplacesTheOldest_OfItsOwnNetworkOrOfTheLargest) {
  Strangers strangers;
  const auto add = [&](const std::string& network) {
    while (!strangers.HasRoom(network)) strangers.Remove(strangers.WhoGivesWay(network)->number);
    return strangers.Add(Descriptor(), {network, network, network}, Clock::now()).number;
  };
  const uint64_t lone = add("lone"), first = add("flood");
  for (size_t i = 1; i < Strangers::kMostOfNetwork; ++i) add("flood");
  EXPECT_NE(strangers.Find(first), nullptr);
  add("flood");
  EXPECT_EQ(strangers.Find(first), nullptr);
  for (int i = 0; i < 1000; ++i) add("flood" + std::to_string(i % 9));
  EXPECT_EQ(strangers.size(), Strangers::kMost);
  EXPECT_NE(strangers.Find(lone), nullptr) << "networks with more give way first";
}

PeerName NameOfIp(const std::string& address) {
  sockaddr_storage peer{};
  auto& in = reinterpret_cast<sockaddr_in&>(peer);
  in.sin_family = AF_INET;
  EXPECT_EQ(::inet_pton(AF_INET, address.c_str(), &in.sin_addr), 1) << address;
  return NameOf(peer);
}

TEST(StrangersTest, OldestConnection_IsDropped_WhenNetworksHoldEquallyMany) {
  Strangers strangers;
  const uint64_t first = strangers.Add(Descriptor(), NameOfIp("172.16.0.1"), Clock::now()).number;
  const uint64_t worker = strangers.Add(Descriptor(), NameOfIp("10.0.0.5"), Clock::now()).number;
  for (int i = 0; strangers.size() < Strangers::kMost; ++i)
    strangers.Add(Descriptor(), NameOfIp("192.168." + std::to_string(i) + ".1"), Clock::now());
  EXPECT_EQ(strangers.WhoGivesWay("1.2.3.4")->number, first);
  EXPECT_NE(strangers.Find(worker), nullptr);
}

TEST(StrangersTest, ConnectionsOfALargeSubnet_AreDropped_BeforeThatOfASingleAddress) {
  Strangers strangers;
  const uint64_t worker = strangers.Add(Descriptor(), NameOfIp("10.0.0.5"), Clock::now()).number;
  for (int i = 0; strangers.size() < Strangers::kMost; ++i)
    strangers.Add(Descriptor(), NameOfIp("192.168.0." + std::to_string(i)), Clock::now());
  EXPECT_NE(strangers.WhoGivesWay("1.2.3.4")->number, worker);
}

TEST(StrangersTest, ConnectionWithTheKey_IsKept_UnlessMostConnectionsHaveTheKey) {
  Strangers strangers;
  const auto add = [&] { return strangers.Add(Descriptor(), NameOfIp("10.0.0.5"), Clock::now()).number; };
  const uint64_t worker = add(), silent = add();
  strangers.KnowsKey(*strangers.Find(worker));
  std::vector<uint64_t> others;
  while (strangers.HasRoom("10.0.0.5")) others.push_back(add());
  EXPECT_EQ(strangers.WhoGivesWay("10.0.0.5")->number, silent);
  for (const uint64_t one : others) strangers.KnowsKey(*strangers.Find(one));
  EXPECT_EQ(strangers.WhoGivesWay("10.0.0.5")->number, worker) << "copies of a hello would fill the port";
}

// --- addresses to listen on ---

TEST(ListenOnTcpTest, Hosts_AreIPv4_UnlessWrittenInBrackets) {
  for (const char* host : {"localhost", "lo", "127.0.0.1"})
    EXPECT_TRUE(TcpEndpointOf(ListenOnTcp(std::string("tcp://") + host + ":0").get()).starts_with("tcp://127.0.0.1:"))
        << host;
  EXPECT_TRUE(TcpEndpointOf(ListenOnTcp("tcp://*:*").get()).starts_with("tcp://0.0.0.0:"));
  EXPECT_THROW(ListenOnTcp("tcp://::1:0"), Error);
  EXPECT_THROW(ListenOnTcp("tcp://[127.0.0.1]:0"), Error);
}

// --- connections after the handshake ---

/// A link of GateLinks, which passes bytes between two connections; the test has the other end of each connection.
struct LinkEnds {
  explicit LinkEnds(GateLinks& links) {
    int there[2], behind[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, there), 0);
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, behind), 0);
    peer.emplace(there[0]);
    server.emplace(behind[0]);
    links.Add(Descriptor(there[1]), Descriptor(behind[1]));
  }
  /// Sends until nothing more fits, while the peer reads nothing; returns the number of bytes.
  size_t FillFromServer() const {
    const std::vector<char> piece(10000, 'x');
    size_t written = 0;
    for (int idle = 0; idle < 10;) {
      const ssize_t sent = ::send(server->get(), piece.data(), piece.size(), MSG_NOSIGNAL);
      if (sent > 0) written += static_cast<size_t>(sent);
      idle = sent > 0 ? 0 : idle + 1;
      if (sent <= 0) std::this_thread::sleep_for(milliseconds(10));
    }
    return written;
  }
  /// Returns the number of bytes that the peer reads before the link ends; nullopt when the link does not end.
  std::optional<size_t> ReadToTheEnd() const {
    std::vector<char> buffer(1 << 20);
    size_t got = 0;
    for (pollfd readable{peer->get(), POLLIN, 0}; ::poll(&readable, 1, 5000) == 1;) {
      const ssize_t more = ::recv(peer->get(), buffer.data(), buffer.size(), 0);
      if (more <= 0) return got;
      got += static_cast<size_t>(more);
    }
    return std::nullopt;
  }
  std::optional<Descriptor> peer, server;
};

TEST(GateLinksTest, AllBytesBeforeTheEnd_AreForwarded_WhenThePeerReadsSlowly) {
  GateLinks links;
  LinkEnds ends(links);
  const size_t written = ends.FillFromServer();
  ends.server.reset();
  std::this_thread::sleep_for(milliseconds(100));
  (void)::send(ends.peer->get(), "x", 1, MSG_NOSIGNAL);  // the server no longer reads this byte
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(ends.ReadToTheEnd(), written);
}

TEST(GateLinksTest, Link_IsClosed_WhenThePeerDoesNotReadTheRemainingBytes) {
  GateLinks links;
  LinkEnds ends(links);
  const size_t written = ends.FillFromServer();
  ends.server.reset();
  std::this_thread::sleep_for(seconds(4));
  const auto got = ends.ReadToTheEnd();
  ASSERT_TRUE(got);
  EXPECT_LT(*got, written);
}

TEST(StrangersTest, Networks_TakeTurns_HoweverManyConnectionsOneHas) {
  Strangers strangers;
  const auto wait = [&](const char* network) {
    const Stranger& stranger = strangers.Add(Descriptor(), {network, network, network}, Clock::now());
    strangers.AwaitTurn(stranger);
    return stranger.number;
  };
  const uint64_t a = wait("a"), gone = wait("a"), b = wait("a"), c = wait("b");
  strangers.Remove(gone);
  EXPECT_EQ(strangers.NextTurn()->number, a);
  EXPECT_EQ(strangers.NextTurn()->number, c);
  EXPECT_EQ(strangers.NextTurn()->number, b);
  EXPECT_EQ(strangers.NextTurn(), nullptr);
  EXPECT_FALSE(strangers.anybody_waits());
}

TEST(StrangersTest, AcceptedNetwork_HasEverySecondTurn_WhenOthersWait) {
  Strangers strangers;
  const auto wait = [&](const std::string& network) {
    const Stranger& stranger = strangers.Add(Descriptor(), {network, network, network}, Clock::now());
    strangers.AwaitTurn(stranger);
    return stranger.number;
  };
  strangers.Accepted("workers");
  std::vector<uint64_t> others, workers;
  for (int i = 0; i < 100; ++i) others.push_back(wait("flood" + std::to_string(i)));
  for (int i = 0; i < 3; ++i) workers.push_back(wait("workers"));
  EXPECT_EQ(strangers.NextTurn()->number, workers[0]);
  EXPECT_EQ(strangers.NextTurn()->number, others[0]);
  EXPECT_EQ(strangers.NextTurn()->number, workers[1]);
  EXPECT_EQ(strangers.NextTurn()->number, others[1]);
  EXPECT_EQ(strangers.NextTurn()->number, workers[2]);
  for (size_t i = 2; i < others.size(); ++i) EXPECT_EQ(strangers.NextTurn()->number, others[i]);
  EXPECT_EQ(strangers.NextTurn(), nullptr);
}

TEST(StrangersTest, ConnectionOfAnAcceptedNetwork_IsDroppedForAnotherNetwork_OnlyWhenNoOtherConnectionIsLeft) {
  Strangers strangers;
  strangers.Accepted("10.0.0.5");
  const auto add = [&](const std::string& address) {
    return strangers.Add(Descriptor(), NameOfIp(address), Clock::now()).number;
  };
  const uint64_t worker = add("10.0.0.5");
  for (int i = 0; strangers.size() < Strangers::kMost; ++i) {
    const uint64_t other = add("192.168." + std::to_string(i) + ".1");
    strangers.KnowsKey(*strangers.Find(other));
  }
  for (int i = 0; i < 1000; ++i) {
    Stranger* const leaving = strangers.WhoGivesWay("1.2.3.4");
    ASSERT_NE(leaving->number, worker);
    strangers.Remove(leaving->number);
    strangers.KnowsKey(*strangers.Find(add("192.169." + std::to_string(i % 256) + ".1")));
  }
  while (strangers.size() > 1) strangers.Remove(strangers.WhoGivesWay("1.2.3.4")->number);
  EXPECT_EQ(strangers.WhoGivesWay("1.2.3.4")->number, worker) << "when no other is left";
}

TEST(GatePaceTest, Handshakes_AreSpaced_AfterABurst) {
  GatePace pace;
  const auto now = Clock::now();
  int at_once = 0;
  for (; pace.next() <= now; ++at_once) pace.Spend(now, GatePace::kHandshake);
  EXPECT_GE(at_once, 50);
  EXPECT_LE(at_once, 52);
  for (; pace.next() <= now + seconds(1); ++at_once) pace.Spend(now, GatePace::kHandshake);
  EXPECT_LE(at_once, 252);
}

// --- the port ---

class PortGateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_GE(::sodium_init(), 0);
    WriteTransportKeys(keys_, 2);
    curve_ = std::make_shared<CurveServer>(LoadCoordinatorKeys(keys_, 2));
    server_.emplace(Channel::Bind("tcp://127.0.0.1:0", curve_));
  }
  Descriptor Connect(const char* from = "127.0.0.1") const {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in own{}, there{};
    own.sin_family = there.sin_family = AF_INET;
    ::inet_pton(AF_INET, from, &own.sin_addr);
    ::inet_pton(AF_INET, "127.0.0.1", &there.sin_addr);
    const std::string endpoint = server_->bound_endpoint();
    there.sin_port = htons(static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&own), sizeof(own)), 0);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&there), sizeof(there)), 0);
    return socket;
  }
  static void Say(const Descriptor& socket, const GateBytes& bytes) {
    (void)::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  /// Returns the time until the peer closes the connection; nullopt when the connection stays open for `patience`.
  static std::optional<milliseconds> HangsUp(const Descriptor& socket, milliseconds patience) {
    const auto begin = Clock::now();
    char buffer[4096];
    while (Clock::now() < begin + patience) {
      pollfd readable{socket.get(), POLLIN, 0};
      if (::poll(&readable, 1, 20) == 1 && ::recv(socket.get(), buffer, sizeof(buffer), MSG_DONTWAIT) <= 0)
        return std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
    }
    return std::nullopt;
  }
  static std::optional<ReceivedFrame> Receive(Channel& channel, milliseconds patience) {
    const auto deadline = Clock::now() + patience;
    while (Clock::now() < deadline) {
      if (auto frame = channel.TryReceive()) return frame;
      Channel* channels[] = {&channel};
      Channel::Wait(channels, -1, 20);
    }
    return std::nullopt;
  }
  // Connects a worker and exchanges one frame each way. Each call uses a new epoch, as returning workers do, because
  // the server refuses an identity while an earlier connection of that identity still looks open.
  bool WorkerIsServed(Rank rank, milliseconds patience = seconds(20), const std::string& from = "") {
    const WorkerKeys keys = LoadWorkerKeys(keys_, rank);
    const EpochId epoch = next_epoch_++;
    std::string endpoint = server_->bound_endpoint();
    if (!from.empty()) endpoint.insert(strlen("tcp://"), from + ":0;");
    Channel worker = Channel::Connect(endpoint, WorkerIdentity(epoch, rank), &keys);
    worker.Send("", Encode(BeatMessage{7}, epoch, 0));
    const auto frame = Receive(*server_, patience);
    if (!frame || frame->user != CurveUserId(rank)) return false;
    return server_->Send(frame->peer, Encode(BeatMessage{8}, epoch, 0)) && Receive(worker, patience).has_value();
  }
  static int64_t ResidentKib() {
    std::ifstream file("/proc/self/statm");
    int64_t total = 0, resident = 0;
    file >> total >> resident;
    return resident * 4;
  }

  TemporaryDirectory directory_;
  std::string keys_ = directory_ / "keys";
  std::shared_ptr<CurveServer> curve_;
  std::optional<Channel> server_;
  EpochId next_epoch_ = kGateEpoch;
};

TEST_F(PortGateTest, Connection_IsClosed_AtTheFirstWrongByte) {
  const GateBytes announcement{0x06, 0, 0, 0, 0, 3, 255, 255, 255}, message{0x02, 0, 0, 0, 0, 3, 255, 255, 255};
  GateBytes late = Greeting();
  late[40] = 1;
  for (const GateBytes& words :
       {GateBytes{'G', 'E', 'T', ' '}, GateBytes{0x16, 3, 1}, GateBytes(10, 0xff), late,
        Joined(Greeting(), announcement), Joined(Greeting(), message),
        Joined(Greeting(), GateBytes{0x04, 200, 5, 'H', 'E', 'L', 'P'}), Joined(Greeting(), HelloOfNobody())}) {
    const Descriptor socket = Connect();
    Say(socket, words);
    EXPECT_TRUE(HangsUp(socket, milliseconds(2000))) << words.size();
  }
  EXPECT_GE(curve_->num_refused(), 8u);
  EXPECT_TRUE(WorkerIsServed(0));
}

TEST_F(PortGateTest, SilentConnection_IsClosed_WhenItsTimeIsUp) {
  const Descriptor silent = Connect(), half = Connect();
  Say(half, Joined(Greeting(), {0x04, 200, 5}));
  const auto ended = HangsUp(silent, seconds(8));
  ASSERT_TRUE(ended);
  EXPECT_GT(*ended, milliseconds(2500));
  EXPECT_TRUE(HangsUp(half, seconds(5)));
}

TEST_F(PortGateTest, NewConnections_ReplaceSilentConnections_AndDescriptorsAreBounded) {
  std::vector<Descriptor> silent;
  for (size_t i = 0; i < 2 * Strangers::kMostOfNetwork; ++i) silent.push_back(Connect());
  size_t gone = 0;
  for (const Descriptor& socket : silent) gone += HangsUp(socket, milliseconds(30)).has_value();
  EXPECT_GE(gone, Strangers::kMostOfNetwork - 8);
  EXPECT_TRUE(WorkerIsServed(1));
}

/// Returns the HELLO of a worker that knows the server's public key.
GateBytes HelloWithKey(const std::string& server_key) {
  uint8_t server[32], own[crypto_box_PUBLICKEYBYTES], secret[crypto_box_SECRETKEYBYTES], box[80];
  EXPECT_NE(::zmq_z85_decode(server, server_key.c_str()), nullptr);
  ::crypto_box_keypair(own, secret);
  const uint8_t zeros[64] = {};
  const std::string nonce("CurveZMQHELLO---\0\0\0\0\0\0\0\1", 24);
  EXPECT_EQ(::crypto_box_easy(box, zeros, 64, reinterpret_cast<const uint8_t*>(nonce.data()), server, secret), 0);
  GateBytes hello{0x04, 200};
  hello.insert(hello.end(), kHelloCommand.begins.begin(), kHelloCommand.begins.end());
  hello.insert(hello.end(), own, own + sizeof(own));
  hello.insert(hello.end(), nonce.begin() + 16, nonce.end());
  hello.insert(hello.end(), box, box + sizeof(box));
  return hello;
}

TEST_F(PortGateTest, ConnectionWithTheKey_IsKept_WhenItsOwnNetworkFloodsThePort) {
  const Descriptor worker = Connect();
  Say(worker, Joined(Greeting(), HelloWithKey(LoadWorkerKeys(keys_, 0).coordinator)));
  char answers[kGreetingBytes + 170];
  ASSERT_EQ(::recv(worker.get(), answers, sizeof(answers), MSG_WAITALL), static_cast<ssize_t>(sizeof(answers)));
  std::vector<Descriptor> silent;
  for (size_t i = 0; i < 2 * Strangers::kMostOfNetwork; ++i) silent.push_back(Connect());
  EXPECT_FALSE(HangsUp(worker, milliseconds(500)));
}

TEST_F(PortGateTest, Workers_Connect_AndMemoryStaysBounded_DuringAFloodOfStrangers) {
  const int64_t before = ResidentKib();
  const GateBytes words = Joined(Greeting(), Joined({0x06, 0, 0, 0, 0, 3, 255, 255, 255}, GateBytes(1 << 20)));
  std::atomic<bool> over{false};
  std::thread flood([&] {
    for (int i = 0; !over; ++i) {
      const Descriptor socket = Connect(i % 2 == 0 ? "127.0.0.1" : "127.0.0.2");
      Say(socket, i % 3 == 0 ? Joined(Greeting(), HelloOfNobody()) : words);
    }
  });
  int tried = 0, served = 0;
  for (const auto end = Clock::now() + seconds(2); Clock::now() < end; ++tried) served += WorkerIsServed(tried % 2);
  over = true;
  flood.join();
  EXPECT_EQ(served, tried);
  EXPECT_GE(tried, 2);
  EXPECT_LT(ResidentKib() - before, 32 << 10);
}

TEST_F(PortGateTest, HostOfAWorker_IsLearned_WhenTheWorkerIsAccepted) {
  const auto knows = [&](const std::string& address) {
    const auto hosts = curve_->hosts().all();
    return std::any_of(hosts.begin(), hosts.end(), [&](const auto& host) { return AddressText(host) == address; });
  };
  EXPECT_TRUE(knows("127.0.0.1")) << "this host's own address";
  const Descriptor stranger = Connect("127.0.0.6");
  Say(stranger, Joined(Greeting(), HelloWithKey(LoadWorkerKeys(keys_, 0).coordinator)));
  EXPECT_FALSE(knows("127.0.0.5"));
  EXPECT_TRUE(WorkerIsServed(0, seconds(20), "127.0.0.5"));
  EXPECT_TRUE(knows("127.0.0.5"));
  EXPECT_FALSE(knows("127.0.0.6")) << "knowing the server's public key does not make a worker";
}

TEST_F(PortGateTest, LargeFrames_PassUnchanged_BothWays) {
  const WorkerKeys keys = LoadWorkerKeys(keys_, 0);
  Channel worker = Channel::Connect(server_->bound_endpoint(), WorkerIdentity(kGateEpoch, 0), &keys);
  Frame large;
  large.body.resize(24 << 20);
  for (size_t i = 0; i < large.body.size(); ++i) large.body[i] = static_cast<std::byte>(i * 31 >> 3);
  worker.Send("", large);
  const auto there = Receive(*server_, seconds(30));
  ASSERT_TRUE(there);
  EXPECT_EQ(there->frame.body, large.body);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(server_->Send(there->peer, large));
  for (int i = 0; i < 3; ++i) {
    const auto back = Receive(worker, seconds(30));
    ASSERT_TRUE(back);
    EXPECT_EQ(back->frame.body, large.body);
  }
}

TEST_F(PortGateTest, LastFrame_Arrives_WhenTheServerEnds) {
  const WorkerKeys keys = LoadWorkerKeys(keys_, 0);
  Channel worker = Channel::Connect(server_->bound_endpoint(), WorkerIdentity(kGateEpoch, 0), &keys);
  worker.Send("", Encode(BeatMessage{7}, kGateEpoch, 0));
  const auto frame = Receive(*server_, seconds(20));
  ASSERT_TRUE(frame);
  EXPECT_TRUE(server_->Send(frame->peer, Encode(ShutdownMessage{"over"}, kGateEpoch, 0)));
  std::this_thread::sleep_for(milliseconds(100));  // ZeroMQ drops frames that it has not begun to send
  server_.reset();
  EXPECT_TRUE(Receive(worker, seconds(5)));
}

TEST_F(PortGateTest, Port_IsFreeAgain_WhenTheServerEnds) {
  const std::string endpoint = server_->bound_endpoint();
  EXPECT_THROW(Channel::Bind(endpoint, curve_), Error);
  server_.reset();
  EXPECT_NO_THROW(server_.emplace(Channel::Bind(endpoint, curve_)));
  EXPECT_TRUE(WorkerIsServed(0));
}

TEST_F(PortGateTest, IPv6Workers_AreServed) {
  const Descriptor probe(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  if (::bind(probe.get(), reinterpret_cast<sockaddr*>(&loopback), sizeof(loopback)) != 0)
    GTEST_SKIP() << "no IPv6 here";
  server_.emplace(Channel::Bind("tcp://[::1]:0", curve_));
  EXPECT_TRUE(server_->bound_endpoint().starts_with("tcp://[::1]:"));
  EXPECT_TRUE(WorkerIsServed(1));
}

}  // namespace
}  // namespace quire
