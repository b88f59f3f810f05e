#include "comm/wire/curve/curve_server.h"

#include <sodium.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "comm/base/error.h"

namespace quire {

namespace {

using Clock = std::chrono::steady_clock;
using RawKey = std::array<uint8_t, 32>;

constexpr const char* kHandlerEndpoint = "inproc://zeromq.zap.01";  // fixed by ZeroMQ's RFC 27
constexpr const char* kDomain = "quire";
constexpr auto kKnockDeadline = std::chrono::seconds(3);

RawKey Decoded(const std::string& z85) {
  RawKey raw{};
  if (::zmq_z85_decode(raw.data(), z85.c_str()) == nullptr) Fail("\"{}\" is no CURVE key", z85);
  return raw;
}

/// A request by which ZeroMQ asks the ZAP handler about one peer's handshake (RFC 27). Its parts: version, request id,
/// domain, address, identity, mechanism, credentials.
struct Question {
  std::vector<zmq::message_t> parts;
  enum Part { kVersion, kId, kDomainPart, kAddress, kIdentity, kMechanism, kCredentials, kCount };

  std::string Text(Part part) const { return parts[part].to_string(); }
  bool IsCurve() const {
    return parts.size() == kCount && Text(kVersion) == "1.0" && Text(kDomainPart) == kDomain &&
           Text(kMechanism) == "CURVE" && parts[kCredentials].size() == sizeof(RawKey);
  }
  RawKey Key() const {
    RawKey key;
    std::memcpy(key.data(), parts[kCredentials].data(), key.size());
    return key;
  }
};

Question Receive(zmq::socket_t& handler) {
  Question question;
  do {
    zmq::message_t part;
    (void)handler.recv(part);  // blocks; throws when the context ends
    question.parts.push_back(std::move(part));
  } while (question.parts.back().more());
  return question;
}

void Answer(zmq::socket_t& handler, const Question& question, const std::string& user_id) {
  const bool known = !user_id.empty();
  const std::string id = question.parts.size() > Question::kId ? question.Text(Question::kId) : "";
  const std::string parts[] = {"1.0", id, known ? "200" : "400", known ? "OK" : "unknown key", user_id, ""};
  for (size_t i = 0; i < std::size(parts); ++i)
    handler.send(zmq::buffer(parts[i]), i + 1 < std::size(parts) ? zmq::send_flags::sndmore : zmq::send_flags::none);
}

/// Returns the event that ended the handshake of the test connection; nullopt if none came before the deadline.
std::optional<uint16_t> HandshakeEvent(zmq::socket_t& monitor, Clock::time_point deadline) {
  while (Clock::now() < deadline) {
    zmq::message_t event, address;
    if (!monitor.recv(event)) continue;  // no event within RCVTIMEO
    (void)monitor.recv(address);
    uint16_t kind = 0;
    std::memcpy(&kind, event.data(), sizeof(kind));
    if (kind != ZMQ_EVENT_CONNECTED && kind != ZMQ_EVENT_CONNECT_DELAYED) return kind;
  }
  return std::nullopt;
}

}  // namespace

struct CurveServer::Impl {
  explicit Impl(CoordinatorKeys k)
      : keys(std::move(k)), raw_key(sizeof(RawKey)), context(1), handler(context, zmq::socket_type::rep) {
    // In memory, a zero byte follows the key's text. The decoder needs that byte.
    if (::zmq_z85_decode(reinterpret_cast<uint8_t*>(raw_key.data()), keys.own.secret_key.data()) == nullptr)
      Fail("the secret key is no CURVE key");
    for (size_t rank = 0; rank < keys.workers.size(); ++rank)
      user_ids[Decoded(keys.workers[rank])] = CurveUserId(static_cast<Rank>(rank));
    context.set(zmq::ctxopt::blocky, 0);
    handler.set(zmq::sockopt::linger, 0);
    handler.bind(kHandlerEndpoint);
    thread = std::thread([this] { Run(); });
  }
  ~Impl() {
    context.shutdown();  // ends the handler thread's blocking receive
    thread.join();
  }

  void Run() {
    try {
      for (;;) {
        const Question question = Receive(handler);
        const auto user = question.IsCurve() ? user_ids.find(question.Key()) : user_ids.end();
        if (user == user_ids.end()) OnStranger(question);
        Answer(handler, question, user == user_ids.end() ? "" : user->second);
      }
    } catch (const zmq::error_t& error) {
      if (error.num() != ETERM) spdlog::error("the gatekeeper of the workers' port ended: {}", error.what());
    }
    handler.close();
  }

  void OnStranger(const Question& question) {
    const std::lock_guard lock(canary_mutex);
    if (question.IsCurve() && question.Key() == canary) return;
    ++num_refused;
  }

  CoordinatorKeys keys;
  Secret raw_key;  // this server's decoded secret key
  std::map<RawKey, std::string> user_ids;
  zmq::context_t context;
  zmq::socket_t handler;  // used by the thread only once the thread runs
  std::mutex canary_mutex;
  RawKey canary{};  // key of this server's own test connection, which is not counted
  std::atomic<uint64_t> num_refused{0};
  WorkerHosts hosts;
  std::thread thread;
};

CurveServer::CurveServer(CoordinatorKeys keys) : impl_(std::make_unique<Impl>(std::move(keys))) {}
CurveServer::~CurveServer() = default;

zmq::context_t& CurveServer::context() { return impl_->context; }
WorkerHosts& CurveServer::hosts() { return impl_->hosts; }
int CurveServer::num_workers() const { return static_cast<int>(impl_->keys.workers.size()); }
const std::vector<std::string>& CurveServer::worker_keys() const { return impl_->keys.workers; }
uint64_t CurveServer::num_refused() const { return impl_->num_refused; }

uint64_t CurveServer::CountRefused() { return ++impl_->num_refused; }

bool CurveServer::CanOpen(std::span<const uint8_t> hello) const {
  // The client's key comes after the frame's head, the command's name, version and padding. After the key come the last
  // 8 bytes of the nonce, and a box with 64 zeros.
  constexpr size_t kKey = 2 + 6 + 2 + 72, kNonce = kKey + sizeof(RawKey), kNonceEnd = 8, kBox = kNonce + kNonceEnd;
  constexpr size_t kPlain = 64, kBoxed = crypto_box_MACBYTES + kPlain;
  static_assert(sizeof(RawKey) == crypto_box_PUBLICKEYBYTES);
  if (hello.size() != kBox + kBoxed) return false;
  std::array<uint8_t, crypto_box_NONCEBYTES> nonce{'C', 'u', 'r', 'v', 'e', 'Z', 'M', 'Q',
                                                   'H', 'E', 'L', 'L', 'O', '-', '-', '-'};
  std::copy_n(hello.data() + kNonce, kNonceEnd, nonce.end() - kNonceEnd);
  std::array<uint8_t, kPlain> plain{};
  const auto* const key = reinterpret_cast<const uint8_t*>(impl_->raw_key.view().data());
  return ::crypto_box_open_easy(plain.data(), hello.data() + kBox, kBoxed, nonce.data(), hello.data() + kKey, key) == 0;
}

void CurveServer::Secure(zmq::socket_t& socket) const {
  socket.set(zmq::sockopt::curve_server, 1);
  // The option takes the key as Z85 text, as in this call, or as exactly 32 binary bytes. ZeroMQ copies the key in
  // either case.
  socket.set(zmq::sockopt::curve_secretkey, impl_->keys.own.secret_key.view());
  socket.set(zmq::sockopt::zap_domain, std::string_view(kDomain));
}

void CurveServer::CheckThatStrangersAreRefused(const std::string& endpoint) {
  const CurveKeyPair stranger = MakeCurveKeyPair();
  zmq::context_t context(1);
  context.set(zmq::ctxopt::blocky, 0);
  zmq::socket_t knock(context, zmq::socket_type::dealer), monitor(context, zmq::socket_type::pair);
  if (endpoint.starts_with("tcp://[")) knock.set(zmq::sockopt::ipv6, 1);
  knock.set(zmq::sockopt::linger, 0);
  monitor.set(zmq::sockopt::linger, 0);
  monitor.set(zmq::sockopt::rcvtimeo, 100);
  knock.set(zmq::sockopt::curve_serverkey, impl_->keys.own.public_key);
  knock.set(zmq::sockopt::curve_publickey, stranger.public_key);
  knock.set(zmq::sockopt::curve_secretkey, stranger.secret_key.view());
  ::zmq_socket_monitor(knock.handle(), "inproc://knock", ZMQ_EVENT_ALL);
  monitor.connect("inproc://knock");
  {
    const std::lock_guard lock(impl_->canary_mutex);
    impl_->canary = Decoded(stranger.public_key);
  }
  knock.connect(endpoint);
  const auto event = HandshakeEvent(monitor, Clock::now() + kKnockDeadline);
  ::zmq_socket_monitor(knock.handle(), nullptr, 0);
  if (event != ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
    Fail(
        "the encrypted port {} does not turn away an unknown key (event {:#06x}); this version of ZeroMQ cannot be "
        "used",
        endpoint, event.value_or(0));
  }
}

std::string CurveUserId(Rank rank) { return fmt::format("r{}", rank); }

}  // namespace quire
