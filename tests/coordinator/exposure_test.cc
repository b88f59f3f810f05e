#include "coordinator/server/exposure.h"

#include <gtest/gtest.h>

#include "comm/base/error.h"
#include "tests/support/error_of.h"

namespace quire {
namespace {

enum Protection { kNone, kKeys, kExcused };

/// Returns the refusal of one port at this address, or "" when the rules allow the start.
std::string ExposureVerdict(const std::string& port, const std::string& address, Protection protection) {
  Topology t;
  const std::string listen = (address.find(':') != std::string::npos ? "[" + address + "]" : address) + ":9000";
  if (port == "transport") {
    t.transport.bind = address;
    if (protection == kKeys) t.transport.keys = "keys";
    t.transport.insecure = protection == kExcused;
  } else if (port == "metrics") {
    t.metrics.listen = listen;
  } else {
    Topology::Listener& listener = port == "server" ? t.server : t.admin;
    listener.listen = listen;
    if (protection == kKeys) listener.key_file = "file";
    listener.allow_unauthenticated = protection == kExcused;
  }
  return ErrorThrownBy([&] { CheckExposure(t, "t.yaml"); });
}

TEST(ExposureTest, MetricsPort_MayListenOnOneAddress_ButNotOnAllAddresses) {
  for (const char* address : {"127.0.0.1", "::1", "10.0.0.1"})
    EXPECT_EQ(ExposureVerdict("metrics", address, kNone), "");
  for (const char* address : {"0.0.0.0", "::"})
    EXPECT_NE(ExposureVerdict("metrics", address, kNone).find("every interface"), std::string::npos) << address;
  EXPECT_NE(ExposureVerdict("metrics", "example.com", kNone).find("no IP address"), std::string::npos);
}

TEST(ExposureTest, CacheEvents_AreSentOnThisHostOnly_UnlessTheOperatorAllowsOtherHosts) {
  Topology t;
  const auto verdict = [&t](const char* endpoint, const char* replay = "") {
    t.kv_events.endpoint = endpoint;
    t.kv_events.replay_endpoint = replay;
    return ErrorThrownBy([&] { CheckExposure(t, "t.yaml"); });
  };
  EXPECT_EQ(verdict("tcp://*:5557"), "") << "no events are published";
  t.kv_events.enabled = true;
  for (const char* endpoint : {"tcp://127.0.0.1:5557", "ipc:///run/events", "tcp://[::1]:5557", "tcp://router:5557"})
    EXPECT_EQ(verdict(endpoint), "") << endpoint;
  for (const char* endpoint : {"tcp://*:5557", "tcp://[::]:5557"})
    EXPECT_NE(verdict(endpoint).find("kv_events.endpoint"), std::string::npos) << endpoint;
  EXPECT_NE(verdict("ipc:///run/events", "tcp://10.0.0.1:5558").find("kv_events.replay_endpoint"), std::string::npos);
  t.kv_events.bind = true;
  EXPECT_NE(verdict("tcp://10.0.0.1:5557").find("allow_unauthenticated"), std::string::npos);
  EXPECT_TRUE(ExposureWarnings(t).empty());
  t.kv_events.allow_unauthenticated = true;
  EXPECT_EQ(verdict("tcp://10.0.0.1:5557", "tcp://*:5558"), "");
  ASSERT_EQ(ExposureWarnings(t).size(), 1u);
  EXPECT_NE(ExposureWarnings(t)[0].find("10.0.0.1:5557 sees the tokens"), std::string::npos);
}

TEST(ExposureTest, MetricsOnTheDataPort_CauseAWarning_WhenOtherHostsReachThePort) {
  Topology t;
  t.metrics.on_data_port = true;
  EXPECT_TRUE(ExposureWarnings(t).empty()) << "loopback";
  t.server.listen = "10.0.0.1:8000";
  t.server.key_file = "keys";
  ASSERT_EQ(ExposureWarnings(t).size(), 1u);
  EXPECT_NE(ExposureWarnings(t)[0].find("10.0.0.1:8000 sees load"), std::string::npos);
  t.metrics.on_data_port = false;
  EXPECT_TRUE(ExposureWarnings(t).empty());
}

TEST(ExposureTest, ReachOf_TellsLoopbackWildcardAndNetworkAddressesApart) {
  const std::pair<const char*, Reach> cases[] = {{"127.0.0.1", Reach::kLoopback},
                                                 {"127.8.9.1", Reach::kLoopback},
                                                 {"localhost", Reach::kLoopback},
                                                 {"::1", Reach::kLoopback},
                                                 {"0:0:0:0:0:0:0:1", Reach::kLoopback},
                                                 {"::ffff:127.0.0.1", Reach::kLoopback},
                                                 {"0.0.0.0", Reach::kWildcard},
                                                 {"::", Reach::kWildcard},
                                                 {"0:0::0", Reach::kWildcard},
                                                 {"::ffff:0.0.0.0", Reach::kWildcard},
                                                 {"10.0.0.1", Reach::kNetwork},
                                                 {"fe80::1", Reach::kNetwork},
                                                 {"::ffff:10.0.0.1", Reach::kNetwork},
                                                 {"::2", Reach::kNetwork},
                                                 {"128.0.0.1", Reach::kNetwork},
                                                 {"*", Reach::kUnknown},
                                                 {"eth0", Reach::kUnknown},
                                                 {"127.evil.example", Reach::kUnknown},
                                                 {"0", Reach::kUnknown},
                                                 {"127.1", Reach::kUnknown},
                                                 {"", Reach::kUnknown},
                                                 {"0x7f.0.0.1", Reach::kUnknown},
                                                 {"example.com", Reach::kUnknown},
                                                 {"127.0.0.1 ", Reach::kUnknown}};
  for (const auto& [address, reach] : cases) EXPECT_EQ(ReachOf(address), reach) << address;
}

TEST(ExposureTest, CheckExposure_RefusesReachablePorts_WithoutKeys) {
  struct Row {
    const char* port;
    const char* address;
    bool none, keys, excused;  // starts that are allowed: without keys, with keys, with the warning accepted
  };
  const Row rows[] = {
      {"transport", "127.0.0.1", true, true, true},
      {"transport", "10.0.0.1", false, true, true},
      {"transport", "fd00::1", false, true, true},
      {"transport", "0.0.0.0", false, false, false},
      {"transport", "::", false, false, false},
      {"transport", "*", false, false, false},
      {"transport", "eth0", false, false, false},
      {"server", "127.0.0.1", true, true, true},
      {"server", "::1", true, true, true},
      {"server", "10.0.0.1", false, true, true},
      {"server", "0.0.0.0", false, true, false},
      {"server", "::", false, true, false},
      {"server", "example.com", false, false, false},
      {"admin", "127.0.0.1", true, true, true},
      {"admin", "10.0.0.1", false, true, false},
      {"admin", "0.0.0.0", false, true, false},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(ExposureVerdict(row.port, row.address, kNone).empty(), row.none) << row.port << " " << row.address;
    EXPECT_EQ(ExposureVerdict(row.port, row.address, kKeys).empty(), row.keys) << row.port << " " << row.address;
    EXPECT_EQ(ExposureVerdict(row.port, row.address, kExcused).empty(), row.excused) << row.port << " " << row.address;
  }
}

TEST(ExposureTest, Refusals_NameTheSettingsFileAndTheRemedy) {
  for (const char* port : {"transport", "server", "admin"}) {
    const std::string refusal = ExposureVerdict(port, "10.0.0.1", kNone);
    EXPECT_NE(refusal.find("t.yaml: "), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("quire keygen"), std::string::npos) << refusal;
  }
}

TEST(ExposureTest, CheckExposure_AcceptsOnlyWellFormedOriginsAndHosts) {
  const auto verdict = [](const char* origin, const char* host, bool keys) -> std::string {
    Topology t;
    t.server.allowed_origins = {origin};
    t.server.allowed_hosts = {host};
    if (keys) t.server.key_file = "api.keys";
    return ErrorThrownBy([&] { CheckExposure(t, "t.yaml"); });
  };
  for (const char* origin : {"https://chat.example", "http://localhost:3000", "http://[::1]:3000"})
    EXPECT_EQ(verdict(origin, "models.example", false), "") << origin;
  for (const char* origin :
       {"chat.example", "https://", "https://chat.example/x", "https://a b", "null", "ftp://a", ""})
    EXPECT_NE(verdict(origin, "a", true).find("allowed_origins"), std::string::npos) << origin;
  EXPECT_EQ(verdict("*", "a", true), "");
  EXPECT_NE(verdict("*", "a", false).find("without API keys"), std::string::npos);
  for (const char* host : {"", "*", "a:8000", "a/b", "http://a"})
    EXPECT_NE(verdict("https://a", host, true).find("allowed_hosts"), std::string::npos) << host;
}

TEST(ExposureTest, ExposureWarnings_NameProtectionsThatAreSwitchedOff) {
  Topology t;
  t.transport.insecure = true;
  EXPECT_TRUE(ExposureWarnings(t).empty());  // nothing listens on the network
  t.transport.bind = "127.0.0.1";
  EXPECT_TRUE(ExposureWarnings(t).empty());  // the settings ask for loopback, without keys
  t.transport.insecure = false;
  ASSERT_EQ(ExposureWarnings(t).size(), 1u);
  EXPECT_NE(ExposureWarnings(t)[0].find("every user of this host can join as a worker"), std::string::npos);
  t.transport.insecure = true;
  t.transport.bind = "10.0.0.1";
  t.server.allow_unauthenticated = true;
  EXPECT_EQ(ExposureWarnings(t).size(), 2u);
  t.transport.keys = t.server.key_file = "keys";
  EXPECT_TRUE(ExposureWarnings(t).empty());
}

}  // namespace
}  // namespace quire
