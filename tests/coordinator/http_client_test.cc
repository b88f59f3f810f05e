#include "coordinator/client/http_client.h"

#include <gmock/gmock.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/write.hpp>

namespace quire {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// Whoever takes connections and says nothing, or stops in the middle of an answer, must not hold a client for ever.
TEST(HttpClientTest, WhoSaysNothingIsGivenUp) {
  for (const std::string said : {"", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"}) {
    asio::io_context io;
    tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
    tcp::socket server(io);
    acceptor.async_accept(server, [&](const boost::system::error_code& error) {
      ASSERT_FALSE(error);
      asio::write(server, asio::buffer(said));
    });
    const ClientRequest request{{"127.0.0.1", std::to_string(acceptor.local_endpoint().port())},
                                acceptor.local_endpoint(),
                                "",
                                "/",
                                "{}",
                                std::chrono::milliseconds(50)};
    const OnBody whole;
    ClientAnswer answer;
    asio::co_spawn(io, Send(request, whole), [&](const std::exception_ptr&, ClientAnswer got) { answer = got; });
    io.run();
    EXPECT_THAT(answer.problem, testing::HasSubstr("nothing came for 0.05 s")) << said;
  }
}

}  // namespace
}  // namespace quire
