#include "coordinator/client/server_address.h"

#include <gtest/gtest.h>

#include "comm/base/error.h"

namespace quire {
namespace {

TEST(ServerAddressTest, BaseUrls_OfOpenAiClients_AreAccepted) {
  for (const char* url : {"http://a.example:8000", "a.example:8000", "http://a.example:8000/",
                          "http://a.example:8000/v1", "http://a.example:8000/v1/"}) {
    const ServerAddress address = ParseServerAddress(url, "--base-url");
    EXPECT_EQ(address.authority(), "a.example:8000") << url;
    EXPECT_FALSE(address.encrypted) << url;
  }
  EXPECT_EQ(ParseServerAddress("http://a.example", "x").authority(), "a.example:80");
  EXPECT_EQ(ParseServerAddress("https://a.example/v1", "x").authority(), "a.example:443");
  EXPECT_TRUE(ParseServerAddress("https://a.example", "x").encrypted);
  EXPECT_THROW(ParseServerAddress("http://a.example/other", "x"), Error);
}

TEST(ServerAddressTest, Ipv6Addresses_AreWrittenInBrackets) {
  const ServerAddress address = ParseServerAddress("http://[::1]:8000/v1", "x");
  EXPECT_EQ(address.host, "::1");
  EXPECT_EQ(address.authority(), "[::1]:8000");
  EXPECT_EQ(ParseServerAddress("[fe80::2]", "x").authority(), "[fe80::2]:80");
}

}  // namespace
}  // namespace quire
