#include "coordinator/cache_events/cache_event_publisher.h"

#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <utility>
#include <zmq.hpp>

#include "comm/base/error.h"
#include "comm/wire/gate/open_gate.h"

namespace quire {

namespace {

constexpr size_t kMostKeptBytes = 64 << 20;                    // most bytes of the batches kept for replays
constexpr int64_t kMostAskedBytes = 256;                       // most bytes of a frame that a client sends
constexpr std::chrono::seconds kToSubscribe{10}, kNoLimit{0};  // clients of replays may wait for any time
constexpr uint64_t kEndOfReplay = ~uint64_t{0};

double UnixSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

zmq::message_t NumberMessage(uint64_t number) {
  std::array<uint8_t, 8> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(number >> (56 - 8 * i));
  return zmq::message_t(bytes.data(), bytes.size());
}

uint64_t NumberOf(const zmq::message_t& message) {
  uint64_t number = 0;
  for (size_t i = 0; i < message.size(); ++i) number = number << 8 | message.data<uint8_t>()[i];
  return number;
}

void SetOptions(zmq::socket_t& socket, const std::string& endpoint, int queued) {
  if (endpoint.starts_with("tcp://[")) socket.set(zmq::sockopt::ipv6, 1);  // needed to connect to such an endpoint
  socket.set(zmq::sockopt::linger, 500);
  socket.set(zmq::sockopt::sndhwm, queued);
  socket.set(zmq::sockopt::maxmsgsize, kMostAskedBytes);
  socket.set(zmq::sockopt::handshake_ivl, 3000);
  socket.set(zmq::sockopt::backlog, 128);
}

/// Makes the socket listen on, or connect to, the endpoint. A port that other machines can reach is behind a gate,
/// which the function returns; otherwise it returns null.
std::unique_ptr<OpenGate> Attach(zmq::socket_t& socket, const std::string& endpoint, bool bind,
                                 std::chrono::seconds to_speak) {
  std::unique_ptr<OpenGate> gate;
  try {
    if (bind && endpoint.starts_with("tcp://")) {
      gate = std::make_unique<OpenGate>(endpoint, "kv_events: " + endpoint, to_speak);
      socket.set(zmq::sockopt::use_fd, gate->ReleaseInner());
      socket.bind("ipc://behind-the-gate");  // any unused name
      gate->Open();
    } else {
      bind ? socket.bind(endpoint) : socket.connect(endpoint);
    }
  } catch (const zmq::error_t& error) {
    Fail("kv_events: cannot {} {}: {}", bind ? "listen on" : "connect to", endpoint, error.what());
  } catch (const Error& error) {
    Fail("kv_events: {}", error.what());
  }
  return gate;
}

}  // namespace

struct CacheEventPublisher::Sockets {
  struct Kept {
    uint64_t number;
    zmq::message_t batch;
  };

  ~Sockets() { ::close(wake_fd); }

  std::unique_ptr<OpenGate> publisher_gate, replays_gate;  // forward the sockets' last bytes; outlive them
  zmq::context_t context{1};
  zmq::socket_t publisher{context, zmq::socket_type::pub};
  zmq::socket_t replays{context, zmq::socket_type::router};  // unused if there is no replay endpoint
  int wake_fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);    // readable while batches may wait
  uint64_t next_number = 0;
  std::deque<Kept> kept;
  size_t kept_bytes = 0;
};

CacheEventPublisher::CacheEventPublisher(const Topology::KvEvents& settings, CacheEventSource source)
    : settings_(settings),
      source_(std::move(source)),
      queue_(static_cast<size_t>(settings.max_queue_size)),
      sockets_(std::make_unique<Sockets>()) {
  SetOptions(sockets_->publisher, settings_.endpoint, settings_.hwm);
  sockets_->publisher_gate = Attach(sockets_->publisher, settings_.endpoint, settings_.binds(), kToSubscribe);
  if (!settings_.replay_endpoint.empty()) {
    SetOptions(sockets_->replays, settings_.replay_endpoint, settings_.buffer_steps + 1);
    sockets_->replays_gate = Attach(sockets_->replays, settings_.replay_endpoint, true, kNoLimit);
  }
  Publish({{.kind = CacheEvent::Kind::kCleared}});  // blocks of an earlier process are no longer cached
  thread_ = std::thread([this] { Run(); });
}

CacheEventPublisher::~CacheEventPublisher() {
  ending_ = true;
  Wake();
  thread_.join();
}

void CacheEventPublisher::Wake() {
  const uint64_t one = 1;
  (void)!::write(sockets_->wake_fd, &one, sizeof(one));
}

void CacheEventPublisher::Publish(std::vector<CacheEvent> events) {
  if (events.empty()) return;
  queue_.Push(std::move(events), UnixSeconds());
  Wake();
}

void CacheEventPublisher::NameAdapter(int number, const std::string& name) {
  const std::lock_guard lock(mutex_);
  source_.later_adapters[number] = name;
}

void CacheEventPublisher::Run() {
  std::array<zmq::pollitem_t, 2> items = {
      {{nullptr, sockets_->wake_fd, ZMQ_POLLIN, 0}, {sockets_->replays.handle(), 0, ZMQ_POLLIN, 0}}};
  const size_t num_items = settings_.replay_endpoint.empty() ? 1 : 2;
  int64_t told_lost = 0;
  for (bool ending = false; !ending;) {
    zmq::poll(items.data(), num_items, std::chrono::milliseconds(-1));
    ending = ending_;
    uint64_t count = 0;
    (void)!::read(sockets_->wake_fd, &count, sizeof(count));
    for (const CacheEventQueue::Batch& batch : queue_.TakeAll()) Send(batch);
    if (num_items > 1) AnswerReplays();
    if (const int64_t lost = queue_.num_lost(); lost != std::exchange(told_lost, lost))
      spdlog::warn("kv_events: {} batches of cache events were dropped; the subscribers were told to forget all", lost);
  }
}

void CacheEventPublisher::Send(const CacheEventQueue::Batch& batch) {
  std::string bytes;
  {
    const std::lock_guard lock(mutex_);
    bytes = EncodeCacheEvents(batch.events, batch.unix_seconds, source_);
  }
  zmq::message_t payload(bytes.data(), bytes.size()), sent;
  sent.copy(payload);  // `sent` and `payload` share the bytes
  const uint64_t number = sockets_->next_number++;
  sockets_->publisher.send(zmq::message_t(settings_.topic.data(), settings_.topic.size()), zmq::send_flags::sndmore);
  sockets_->publisher.send(NumberMessage(number), zmq::send_flags::sndmore);
  sockets_->publisher.send(std::move(sent), zmq::send_flags::none);
  if (settings_.replay_endpoint.empty()) return;
  auto& kept = sockets_->kept;
  sockets_->kept_bytes += bytes.size();
  kept.push_back({number, std::move(payload)});
  while (kept.size() > static_cast<size_t>(settings_.buffer_steps) || sockets_->kept_bytes > kMostKeptBytes) {
    sockets_->kept_bytes -= kept.front().batch.size();
    kept.pop_front();
  }
}

void CacheEventPublisher::AnswerReplays() {
  zmq::socket_t& socket = sockets_->replays;
  while (true) {
    std::vector<zmq::message_t> frames;
    do {
      if (!socket.recv(frames.emplace_back(), zmq::recv_flags::dontwait)) return;
    } while (frames.back().more());
    if (frames.size() != 3 || frames[1].size() != 0 || frames[2].size() != 8) continue;  // not a request for a replay
    const auto answer = [&](uint64_t number, zmq::message_t batch) {
      zmq::message_t client;
      client.copy(frames[0]);
      socket.send(std::move(client), zmq::send_flags::sndmore);
      socket.send(zmq::message_t(), zmq::send_flags::sndmore);
      socket.send(NumberMessage(number), zmq::send_flags::sndmore);
      socket.send(std::move(batch), zmq::send_flags::none);
    };
    for (auto& [number, batch] : sockets_->kept) {
      if (number < NumberOf(frames[2])) continue;
      zmq::message_t again;
      again.copy(batch);
      answer(number, std::move(again));
    }
    answer(kEndOfReplay, zmq::message_t());
  }
}

}  // namespace quire
