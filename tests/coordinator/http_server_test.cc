#include "coordinator/api/http_server.h"

#include <gtest/gtest.h>

#include "coordinator/api/http_head.h"

namespace quire {
namespace {

TEST(HttpServerTest, ConnectionsCountByIpv4AddressOrIpv6Network) {
  const auto network = [](const char* address) {
    return NetworkOf(boost::asio::ip::make_address(address)).to_string();
  };
  EXPECT_EQ(network("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
  EXPECT_EQ(network("2001:db8:1:2::1"), "2001:db8:1:2::");
  EXPECT_EQ(network("2001:db8:1:3::1"), "2001:db8:1:3::");
  EXPECT_EQ(network("::ffff:10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(network("::1"), "::1");
}

TEST(HttpServerTest, FoldedLinesAreFound) {
  EXPECT_FALSE(IsFolded("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"));
  EXPECT_TRUE(IsFolded("GET / HTTP/1.1\r\nTransfer-Encoding:\r\n chunked\r\n\r\n"));
  EXPECT_TRUE(IsFolded("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\t\r\n\r\n"));
}

}  // namespace
}  // namespace quire
