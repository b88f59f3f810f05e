#include "comm/wire/gate/gate_links.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "comm/base/error.h"

namespace quire {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kAtOnce = 256 << 10;  // bytes of one link before the other links get their turn
constexpr auto kFarewell = std::chrono::milliseconds(200);
constexpr auto kForTheRest = std::chrono::seconds(3);
constexpr uint64_t kWakeLinks = 0;  // links are numbered from 1

}  // namespace

struct GateLinks::Way {
  int from = -1, to = -1;
  std::vector<char> late;  // bytes read but not yet taken by the other side
  size_t sent = 0;         // bytes of `late` already sent
  size_t left = SIZE_MAX;  // bytes that `from` may still send
  bool full() const { return sent < late.size(); }
};

struct GateLinks::Link {
  explicit Link(std::atomic<int>& num_links) : count(num_links) { ++count; }
  ~Link() { --count; }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  std::atomic<int>& count;
  Descriptor sides[2];  // the peer's connection, the ZeroMQ socket's connection
  Way ways[2];          // ways[i] reads from sides[i]
  uint32_t watched[2] = {0, 0};
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

void GateLinks::Add(Descriptor outer, Descriptor inner, size_t most_bytes) {
  auto link = std::make_unique<Link>(num_links_);
  link->ways[0] = {.from = outer.get(), .to = inner.get(), .left = most_bytes};
  link->ways[1] = {.from = inner.get(), .to = outer.get()};
  link->sides[0] = std::move(outer);
  link->sides[1] = std::move(inner);
  {
    const std::lock_guard lock(mutex_);
    new_ones_.push_back(std::move(link));
  }
  (void)::eventfd_write(wake_.get(), 1);
}

void GateLinks::TakeNewOnes() {
  eventfd_t count = 0;
  (void)::eventfd_read(wake_.get(), &count);
  std::vector<std::unique_ptr<Link>> taken;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(new_ones_);
  }
  for (auto& link : taken) {
    const uint64_t number = ++last_number_;
    if (Watch(*link, number)) links_.emplace(number, std::move(link));
  }
}

/// Asks epoll for the events that each side needs: readable once the other side has taken everything, writable until it
/// has. Returns false when epoll fails, which ends the link.
bool GateLinks::Watch(Link& link, uint64_t number) {
  if (link.ended >= 0) {  // the closed side would report its end forever, and the other side has no receiver any more
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

/// Sets the events that epoll reports of one side. 0: no event at all, not even the side's end.
bool GateLinks::WatchSide(Link& link, int side, uint32_t events, uint64_t number) {
  const uint32_t before = std::exchange(link.watched[side], events);
  if (before == events) return true;
  epoll_event event{};
  event.events = events & ~EPOLLRDHUP;  // EPOLLRDHUP is only our mark of a side that is watched
  event.data.u64 = number * 2 + static_cast<uint64_t>(side);
  const int operation = events == 0 ? EPOLL_CTL_DEL : before == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  return ::epoll_ctl(epoll_.get(), operation, link.sides[side].get(), &event) == 0;
}

/// Forwards at most kAtOnce bytes in one direction.
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
  if (static_cast<size_t>(got) > way.left) return Carried::kAllRead;  // the rest counts as never sent
  way.left -= static_cast<size_t>(got);
  ssize_t sent = ::send(way.to, buffer_.data(), static_cast<size_t>(got), MSG_NOSIGNAL);
  if (sent < 0 && !waits()) return Carried::kNotTaken;
  sent = sent < 0 ? 0 : sent;
  way.late.assign(buffer_.data() + sent, buffer_.data() + got);
  return Carried::kGoesOn;
}

/// Handles an event on one side. Returns false when the link has ended.
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
  if (ending_.empty()) return -1;
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(ending_.front().at - Clock::now());
  return static_cast<int>(std::max<int64_t>(0, wait.count()));
}

void GateLinks::EndLateOnes() {
  for (; !ending_.empty() && ending_.front().at <= Clock::now(); ending_.pop_front())
    links_.erase(ending_.front().number);
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
      if (link == links_.end()) continue;  // the link ended with an earlier event of its other side
      if (!Serve(*link->second, static_cast<int>(mark % 2), event.events) || !Watch(*link->second, link->first))
        links_.erase(link);
    }
    EndLateOnes();
    if (stopping_ && links_.empty()) return;
    if (stopping_ && end == Clock::time_point::max()) end = Clock::now() + kFarewell;
  }
}

}  // namespace quire
