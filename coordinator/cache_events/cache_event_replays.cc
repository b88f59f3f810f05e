#include "coordinator/cache_events/cache_event_replays.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "coordinator/cache_events/event_endpoint.h"

namespace quire {

namespace {

constexpr size_t kMostKeptBytes = 64 << 20;
constexpr int kQueued = 256;         // batches that wait for a client that reads slowly, at most
constexpr int kRequestsAtOnce = 64;  // requests that one call of Serve() reads
constexpr int kBatchesAtOnce = 256;  // batches that one call of Serve() sends
// The time that Serve() returns while the queues of all clients are full: kSoon if the call has sent something,
// otherwise kLater.
constexpr std::chrono::milliseconds kSoon{5}, kLater{100};
constexpr uint64_t kEndOfReplay = ~uint64_t{0};

}  // namespace

CacheEventReplays::CacheEventReplays(zmq::context_t& context, const std::string& endpoint, int max_batches)
    : max_batches_(static_cast<size_t>(max_batches)), socket_(context, zmq::socket_type::router) {
  socket_.set(zmq::sockopt::router_mandatory, 1);  // a full queue is reported
  gate_ = OpenEventEndpoint(socket_, endpoint, true, kQueued, std::chrono::seconds(0));
}

void CacheEventReplays::Keep(uint64_t number, zmq::message_t batch) {
  kept_bytes_ += batch.size();
  kept_.push_back({number, std::move(batch)});
  while (kept_.size() > max_batches_ || kept_bytes_ > kMostKeptBytes) {
    kept_bytes_ -= kept_.front().batch.size();
    kept_.pop_front();
  }
}

std::chrono::milliseconds CacheEventReplays::Serve() {
  ReadRequests();
  int budget = kBatchesAtOnce;
  bool has_sent = false;
  for (size_t blocked = 0; budget > 0 && blocked < replays_.size(); --budget) {
    Replay& replay = replays_.front();
    const Sent sent = SendNext(replay);
    blocked = sent == Sent::kNotNow ? blocked + 1 : 0;
    has_sent |= sent == Sent::kBatch;
    if (sent == Sent::kEnd || sent == Sent::kClientIsGone) {
      replays_.pop_front();
    } else {
      replays_.splice(replays_.end(), replays_, replays_.begin());  // the next call begins with the next client
    }
  }
  if (replays_.empty()) return std::chrono::milliseconds(-1);
  if (budget == 0) return std::chrono::milliseconds(0);
  return has_sent ? kSoon : kLater;
}

void CacheEventReplays::ReadRequests() {
  for (int read = 0; read < kRequestsAtOnce; ++read) {
    std::vector<zmq::message_t> frames;
    do {
      if (!socket_.recv(frames.emplace_back(), zmq::recv_flags::dontwait)) return;
    } while (frames.back().more());
    if (frames.size() != 3 || frames[1].size() != 0 || frames[2].size() != 8) continue;  // not a request for a replay
    std::string client = frames[0].to_string();
    if (std::ranges::find(replays_, client, &Replay::client) != replays_.end()) continue;
    replays_.push_back({std::move(client), NumberOf(frames[2])});
  }
}

CacheEventReplays::Sent CacheEventReplays::SendNext(Replay& replay) {
  try {
    if (kept_.empty() || replay.next > kept_.back().number)
      return Send(replay.client, kEndOfReplay, zmq::message_t()) ? Sent::kEnd : Sent::kNotNow;
    replay.next = std::max(replay.next, kept_.front().number);
    Kept& kept = kept_[static_cast<size_t>(replay.next - kept_.front().number)];
    zmq::message_t again;
    again.copy(kept.batch);  // shares the bytes
    if (!Send(replay.client, kept.number, std::move(again))) return Sent::kNotNow;
    ++replay.next;
    return Sent::kBatch;
  } catch (const zmq::error_t&) {
    return Sent::kClientIsGone;
  }
}

bool CacheEventReplays::Send(const std::string& client, uint64_t number, zmq::message_t batch) {
  // Only the first frame can be refused: the queue counts whole messages.
  const auto flags = zmq::send_flags::sndmore | zmq::send_flags::dontwait;
  if (!socket_.send(zmq::message_t(client.data(), client.size()), flags)) return false;
  socket_.send(zmq::message_t(), zmq::send_flags::sndmore);
  socket_.send(NumberMessage(number), zmq::send_flags::sndmore);
  socket_.send(std::move(batch), zmq::send_flags::none);
  return true;
}

}  // namespace quire
