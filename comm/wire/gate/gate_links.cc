#include "comm/wire/gate/gate_links.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "comm/base/error.h"
#include "comm/wire/gate/first_message.h"

namespace quire {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kAtOnce = 256 << 10;  // bytes forwarded for one link before the other links are served
constexpr auto kFarewell = std::chrono::milliseconds(200);
constexpr auto kForTheRest = std::chrono::seconds(3);
constexpr uint64_t kWakeLinks = 0;  // links are numbered from 1

}  // namespace

struct GateLinks::Way {
  int from = -1, to = -1;
  std::vector<char> late;                 // bytes read from one side but not yet taken by the other side
  size_t sent = 0;                        // bytes of `late` already sent
  size_t left = SIZE_MAX;                 // bytes that `from` may still send
  std::unique_ptr<FirstMessage> awaited;  // set while the first message has a deadline
  bool full() const { return sent < late.size(); }
};

struct GateLinks::Link {
  Descriptor sides[2];  // the peer's connection, the ZeroMQ socket's connection
  Way ways[2];          // ways[i] reads from sides[i]
  uint32_t watched[2] = {0, 0};
  std::chrono::milliseconds to_speak{0};
  int ended = -1;  // the side that has closed while the other side receives the remaining bytes; -1: none
};

GateLinks::GateLinks()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), buffer_(kAtOnce) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeLinks;
  const bool made = epoll_.open() && wake_.open() && ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) == 0;
  if (!made) Fail("no descriptors are left for the workers' port: raise the limit of open files (ulimit -n)");
  thread_ = std::thread([this] { Run(); });
}

GateLinks::~GateLinks() {
  stopping_ = true;
  (void)::eventfd_write(wake_.get(), 1);
  thread_.join();
}

uint64_t GateLinks::Add(Descriptor outer, Descriptor inner, const LinkBounds& bounds) {
  auto link = std::make_unique<Link>();
  link->ways[0].from = link->ways[1].to = outer.get();
  link->ways[0].to = link->ways[1].from = inner.get();
  link->ways[0].left = bounds.most_bytes;
  link->to_speak = bounds.to_speak;
  if (bounds.to_speak.count() > 0) link->ways[0].awaited = std::make_unique<FirstMessage>();
  link->sides[0] = std::move(outer);
  link->sides[1] = std::move(inner);
  uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++last_number_;
    new_ones_.emplace(number, std::move(link));
    living_.insert(number);
  }
  (void)::eventfd_write(wake_.get(), 1);
  return number;
}

void GateLinks::End(uint64_t number) {
  {
    const std::lock_guard lock(mutex_);
    to_end_.push_back(number);
  }
  (void)::eventfd_write(wake_.get(), 1);
}

bool GateLinks::Lives(uint64_t number) const {
  const std::lock_guard lock(mutex_);
  return living_.contains(number);
}

void GateLinks::Erase(uint64_t number) {
  links_.erase(number);
  const std::lock_guard lock(mutex_);
  living_.erase(number);
}

void GateLinks::TakeNewOnes() {
  eventfd_t count = 0;
  (void)::eventfd_read(wake_.get(), &count);
  std::map<uint64_t, std::unique_ptr<Link>> taken;
  std::vector<uint64_t> to_end;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(new_ones_);
    to_end.swap(to_end_);
  }
  for (auto& [number, link] : taken) {
    if (link->to_speak.count() > 0) silent_.push_back({Clock::now() + link->to_speak, number});
    const auto added = links_.emplace(number, std::move(link)).first;
    if (!Watch(*added->second, number)) Erase(number);
  }
  for (const uint64_t number : to_end) Erase(number);
}

/// Sets the events that epoll reports of both sides. A side is watched for reading unless bytes from it still wait to
/// be forwarded, and for writing while bytes wait to be sent to it. Once one side has closed, only the other side is
/// watched, for writing, until a deadline ends the link. Returns false when epoll fails, which ends the link.
bool GateLinks::Watch(Link& link, uint64_t number) {
  if (link.ended >= 0) {  // the closed side reports its end forever, and nobody receives from the other side
    if (link.watched[link.ended] == 0) return true;
    ending_.push_back({Clock::now() + kForTheRest, number});
    return WatchSide(link, link.ended, 0, number) && WatchSide(link, 1 - link.ended, EPOLLOUT, number);
  }
  for (int side = 0; side < 2; ++side) {
    const uint32_t wanted = (link.ways[side].full() ? 0U : EPOLLIN) | (link.ways[1 - side].full() ? EPOLLOUT : 0U);
    if (!WatchSide(link, side, wanted | EPOLLRDHUP, number)) return false;
  }
  return true;
}

/// Sets the events that epoll reports of one side. With `events` 0, epoll reports nothing, not even the side's end.
bool GateLinks::WatchSide(Link& link, int side, uint32_t events, uint64_t number) {
  const uint32_t before = std::exchange(link.watched[side], events);
  if (before == events) return true;
  epoll_event event{};
  event.events = events & ~EPOLLRDHUP;  // EPOLLRDHUP is only our mark of a side that is watched
  event.data.u64 = number * 2 + static_cast<uint64_t>(side);
  const int operation = events == 0 ? EPOLL_CTL_DEL : before == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  return ::epoll_ctl(epoll_.get(), operation, link.sides[side].get(), &event) == 0;
}

/// Forwards in one direction: first the bytes that still wait, then at most kAtOnce new bytes.
GateLinks::Carried GateLinks::Carry(Way& way) {
  const auto waits = [] { return errno == EAGAIN || errno == EINTR; };
  while (way.full()) {
    const ssize_t sent = ::send(way.to, way.late.data() + way.sent, way.late.size() - way.sent, MSG_NOSIGNAL);
    if (sent < 0) return waits() ? Carried::kGoesOn : Carried::kNotTaken;
    way.sent += static_cast<size_t>(sent);
  }
  way.late.clear();
  way.sent = 0;
  const ssize_t got = ::recv(way.from, buffer_.data(), buffer_.size(), 0);
  if (got <= 0) return got < 0 && waits() ? Carried::kGoesOn : Carried::kAllRead;
  if (static_cast<size_t>(got) > way.left) return Carried::kAllRead;  // the bytes beyond the limit count as never sent
  way.left -= static_cast<size_t>(got);
  if (way.awaited && way.awaited->Reached({buffer_.data(), static_cast<size_t>(got)})) way.awaited.reset();
  ssize_t sent = ::send(way.to, buffer_.data(), static_cast<size_t>(got), MSG_NOSIGNAL);
  if (sent < 0 && !waits()) return Carried::kNotTaken;
  sent = sent < 0 ? 0 : sent;
  way.late.assign(buffer_.data() + sent, buffer_.data() + got);
  return Carried::kGoesOn;
}

/// Handles the events on one side. Returns false when the link must be removed.
bool GateLinks::Serve(Link& link, int side, uint32_t events) {
  const bool ended = (events & (EPOLLHUP | EPOLLERR)) != 0;
  if (link.ended >= 0) return !ended && Carry(link.ways[link.ended]) == Carried::kGoesOn;
  if (ended) link.ended = side;
  for (const int from : {1 - side, side}) {
    if (link.ended >= 0 || (events & (from == side ? EPOLLIN : EPOLLOUT)) == 0) continue;
    const Carried carried = Carry(link.ways[from]);
    if (carried == Carried::kAllRead) return false;
    if (carried == Carried::kNotTaken) link.ended = 1 - from;  // the ended side may have sent bytes before its end
  }
  return true;
}

int GateLinks::MillisToWait() const {
  if (stopping_) return 10;
  auto next = Clock::time_point::max();
  for (const auto* queue : {&ending_, &silent_})
    if (!queue->empty()) next = std::min(next, queue->front().at);
  if (next == Clock::time_point::max()) return -1;
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
  return static_cast<int>(std::max<int64_t>(0, wait.count()));
}

void GateLinks::EndLateOnes() {
  for (; !ending_.empty() && ending_.front().at <= Clock::now(); ending_.pop_front()) Erase(ending_.front().number);
  for (; !silent_.empty() && silent_.front().at <= Clock::now(); silent_.pop_front()) {
    const auto link = links_.find(silent_.front().number);
    if (link != links_.end() && link->second->ways[0].awaited) Erase(link->first);
  }
}

void GateLinks::Run() {
  std::array<epoll_event, 64> events;
  auto end = Clock::time_point::max();
  while (Clock::now() < end) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), MillisToWait());
    for (int i = 0; i < count; ++i) {
      const epoll_event event = events[static_cast<size_t>(i)];
      const uint64_t mark = event.data.u64;
      if (mark == kWakeLinks) {
        TakeNewOnes();
        continue;
      }
      const auto link = links_.find(mark / 2);
      if (link == links_.end()) continue;  // an earlier event of the link's other side has ended the link
      if (!Serve(*link->second, static_cast<int>(mark % 2), event.events) || !Watch(*link->second, link->first))
        Erase(link->first);
    }
    EndLateOnes();
    if (stopping_ && links_.empty()) return;
    if (stopping_ && end == Clock::time_point::max()) end = Clock::now() + kFarewell;
  }
}

}  // namespace quire
