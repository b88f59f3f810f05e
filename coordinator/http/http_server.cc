#include "coordinator/http/http_server.h"

#include <fcntl.h>
#include <malloc.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>

#include "comm/base/error.h"
#include "coordinator/http/await_token.h"
#include "coordinator/http/connection.h"
#include "coordinator/http/connection_places.h"
#include "coordinator/http/trim_pace.h"

// Rule for coroutines: g++ 12 miscompiles several shapes of co_await expressions, so a co_await is used only as the
// whole right side of a declaration or statement, and its arguments are named locals or plain values.

namespace quire {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;

namespace {

constexpr int kMaxTurnedAway = 64;  // most connections that get the answer "too many connections" at a time
constexpr auto kBackOff = std::chrono::milliseconds(50);
constexpr auto kAfterOne = std::chrono::milliseconds(5);  // pause after a connection was ended to free its descriptor
constexpr int kAcceptedAtOnce = 64;  // connections accepted between two polls; fewer could overflow the kernel's queue
constexpr int kAcceptQueue = 4096;   // the length of the kernel's queue; the kernel may cap it

/// The open ports of a process, which share its file descriptors. So a new connection at one port may take the
/// descriptor of a silent connection of another port.
class OpenPorts : public asio::execution_context::service {
 public:
  using key_type = OpenPorts;
  static inline asio::execution_context::id id;

  explicit OpenPorts(asio::execution_context& context) : service(context) {}
  void Add(ConnectionPlaces* port) { ports_.push_back(port); }
  void Remove(ConnectionPlaces* port) { std::erase(ports_, port); }

  /// Ends one silent connection, at the port that has the network with the most silent connections. Returns false if no
  /// connection is silent.
  bool EndOneSilent() {
    const auto most = std::ranges::max_element(ports_, {}, &ConnectionPlaces::most_silent);
    if (most == ports_.end() || (*most)->most_silent() == 0) return false;
    (*most)->EndOneSilent();
    return true;
  }

 private:
  void shutdown() override { ports_.clear(); }

  std::vector<ConnectionPlaces*> ports_;
};

int OpenSpare() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

}  // namespace

struct HttpServer::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& io, HttpLimits l, HttpService s, const TlsCertificate* c)
      : acceptor(io),
        retry(io),
        trim(io),
        limits(l),
        service(std::move(s)),
        certificate(c),
        spare(OpenSpare()),
        places(l.chosen.connections, l.chosen.connections_per_address),
        ports(asio::use_service<OpenPorts>(io)),
        turns(io) {
    ports.Add(&places);
  }
  ~Impl() {
    ports.Remove(&places);
    ::close(spare);
  }

  tcp::acceptor acceptor;
  asio::steady_timer retry, trim;
  HttpLimits limits;
  HttpService service;
  const TlsCertificate* certificate;  // null: clear text
  int spare;                          // an open descriptor that CloseOneWaiting can give up
  int turned_away = 0;
  TrimPace trims;
  ConnectionPlaces places;
  OpenPorts& ports;
  PortTurns turns;

  asio::awaitable<void> Accept() {
    for (;;) {
      auto [ended] = co_await acceptor.async_wait(tcp::acceptor::wait_read, kToken);
      if (ended == asio::error::operation_aborted || !acceptor.is_open()) break;
      beast::error_code error = ended;
      for (int i = 0; i < kAcceptedAtOnce && !error; ++i) {
        tcp::socket socket = acceptor.accept(error);
        if (!error) asio::co_spawn(acceptor.get_executor(), ServeOne(std::move(socket)), asio::detached);
      }
      if (!error || error == asio::error::would_block) continue;
      // If the whole system is out of descriptors (ENFILE), another process could take a freed descriptor, so no
      // connection is ended.
      const bool one_ended = error == asio::error::no_descriptors && ports.EndOneSilent();
      if (!one_ended) CloseOneWaiting();
      retry.expires_after(one_ended ? kAfterOne : kBackOff);  // waits instead of spinning
      co_await retry.async_wait(kToken);
    }
  }

  /// Closes the connection that has waited longest in the kernel's queue, with the help of the spare descriptor. Call
  /// this function when accepting failed and no silent connection was ended to free a descriptor. The client of the
  /// closed connection then sees that it is not served, instead of waiting.
  void CloseOneWaiting() {
    ::close(spare);
    ::close(::accept(acceptor.native_handle(), nullptr, nullptr));
    spare = OpenSpare();
  }

  asio::awaitable<void> ServeOne(tcp::socket socket) {
    const auto self = shared_from_this();
    beast::error_code error;
    const asio::ip::address address = socket.remote_endpoint(error).address();
    if (error) co_return;  // the client has left already
    std::weak_ptr<Connection> newcomer;
    const auto give_way = [&newcomer] {
      if (const auto connection = newcomer.lock()) connection->GiveWay();
    };
    const std::unique_ptr<ConnectionPlaces::Place> place = places.Take(address, give_way);
    const bool full = place == nullptr;
    if (full && (turned_away >= kMaxTurnedAway || certificate != nullptr)) co_return;  // closes the socket unanswered
    const auto tls = certificate != nullptr ? certificate->context() : nullptr;
    if (certificate != nullptr) turns.handshakes.Cost(certificate->handshake_cost());  // SIGHUP may change the cost
    const auto connection = std::make_shared<Connection>(std::move(socket), tls, turns, limits, service);
    newcomer = connection;
    try {
      if (full) {
        const std::shared_ptr<void> counted(&++turned_away, [this](void*) { --turned_away; });
        co_await connection->TurnAway();
      } else {
        co_await connection->Serve(*place);
      }
    } catch (const std::exception& failure) {
      spdlog::error("a connection ended by an error: {}", failure.what());
      connection->Abandon();
    }
    if (connection->began_handshake()) GiveBackMemory();
  }

  /// Plans a malloc_trim. OpenSSL's memory of ended connections lies between blocks that live longer, so without the
  /// trim the allocator would not give that memory back to the system.
  void GiveBackMemory() {
    const auto when = trims.Count(TrimPace::Clock::now());
    if (!when) return;
    trim.expires_at(*when);
    trim.async_wait([](beast::error_code ended) {
      if (!ended) ::malloc_trim(0);
    });
  }
};

HttpServer::HttpServer(asio::io_context& io, const HostPort& listen, HttpLimits limits, HttpService service,
                       const TlsCertificate* certificate)
    : impl_(std::make_shared<Impl>(io, limits, std::move(service), certificate)) {
  beast::error_code error;
  const auto address = asio::ip::make_address(listen.host == "localhost" ? "127.0.0.1" : listen.host, error);
  if (error) Fail("cannot listen on {}: not an IP address", listen.host);
  const tcp::endpoint endpoint(address, listen.port);
  auto& acceptor = impl_->acceptor;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(kAcceptQueue, error);
  if (!error) acceptor.non_blocking(true, error);
  if (error) Fail("cannot listen on {}:{}: {}", listen.host, listen.port, error.message());
  asio::co_spawn(
      io, [impl = impl_]() { return impl->Accept(); }, asio::detached);
}

HttpServer::~HttpServer() { StopAccepting(); }

uint16_t HttpServer::port() const { return impl_->acceptor.local_endpoint().port(); }

void HttpServer::SetTimes(const Topology::Limits& limits) { impl_->limits.chosen = limits; }

void HttpServer::EndConnections() { impl_->limits.last_requests = true; }

void HttpServer::StopAccepting() {
  beast::error_code ignored;
  impl_->acceptor.close(ignored);
  impl_->trim.cancel();
}

}  // namespace quire
