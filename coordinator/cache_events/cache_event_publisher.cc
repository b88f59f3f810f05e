#include "coordinator/cache_events/cache_event_publisher.h"

#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <utility>
#include <zmq.hpp>

#include "comm/base/give_way.h"
#include "coordinator/cache_events/cache_event_replays.h"
#include "coordinator/cache_events/event_endpoint.h"

namespace quire {

namespace {

constexpr std::chrono::seconds kToSubscribe{10};

double UnixSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

struct CacheEventPublisher::Sockets {
  ~Sockets() { ::close(wake_fd); }

  std::unique_ptr<OpenGate> publisher_gate;  // destroyed after the socket
  zmq::context_t context{1};
  zmq::socket_t publisher{context, zmq::socket_type::pub};
  std::unique_ptr<CacheEventReplays> replays;              // null without a replay endpoint
  int wake_fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);  // readable while batches may wait
  uint64_t next_number = 0;
};

CacheEventPublisher::CacheEventPublisher(const Topology::KvEvents& settings, CacheEventSource source)
    : settings_(settings),
      source_(std::move(source)),
      queue_(static_cast<size_t>(settings.max_queue_size)),
      sockets_(std::make_unique<Sockets>()) {
  sockets_->publisher_gate =
      OpenEventEndpoint(sockets_->publisher, settings_.endpoint, settings_.binds(), settings_.hwm, kToSubscribe);
  if (!settings_.replay_endpoint.empty()) {
    sockets_->replays =
        std::make_unique<CacheEventReplays>(sockets_->context, settings_.replay_endpoint, settings_.buffer_steps);
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
  GiveWayToWorkers();
  CacheEventReplays* const replays = sockets_->replays.get();
  std::array<zmq::pollitem_t, 2> items = {{{nullptr, sockets_->wake_fd, ZMQ_POLLIN, 0},
                                           {replays == nullptr ? nullptr : replays->handle(), 0, ZMQ_POLLIN, 0}}};
  int64_t told_lost = 0;
  std::chrono::milliseconds wait{-1};
  for (bool ending = false; !ending;) {
    zmq::poll(items.data(), replays == nullptr ? 1 : 2, wait);
    ending = ending_;
    uint64_t count = 0;
    (void)!::read(sockets_->wake_fd, &count, sizeof(count));
    for (const CacheEventQueue::Batch& batch : queue_.TakeAll()) Send(batch);
    if (replays != nullptr) wait = replays->Serve();
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
  if (sockets_->replays != nullptr) sockets_->replays->Keep(number, std::move(payload));
}

}  // namespace quire
