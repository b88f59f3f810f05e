#include "comm/wire/gate/port_gate.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <optional>
#include <span>
#include <thread>

#include "comm/base/error.h"
#include "comm/base/give_way.h"
#include "comm/wire/curve/curve_server.h"
#include "comm/wire/gate/gate_doors.h"
#include "comm/wire/gate/gate_links.h"
#include "comm/wire/gate/gate_log.h"
#include "comm/wire/gate/gate_pace.h"
#include "comm/wire/gate/gate_reading.h"
#include "comm/wire/gate/gate_strangers.h"
#include "comm/wire/gate/handshake_words.h"

namespace quire {

using Awaits = Stranger::Awaits;

namespace {

using Clock = Stranger::Clock;

constexpr auto kPatience = std::chrono::seconds(3);  // time for the whole handshake
constexpr auto kBackOff = std::chrono::milliseconds(50);
constexpr int kAcceptedAtOnce = 32, kLookedAtAtOnce = 8;  // both: per round, before all sockets are polled again
constexpr uint64_t kWake = 1;  // epoll mark of a wake-up; the marks of connections follow

constexpr const char *kNoWord = "it does not speak CURVE as workers do", *kNoKey = "it does not know this server's key",
                     *kTooSlow = "its handshake did not end in time", *kGaveWay = "too many others came",
                     *kUnknownKey = "its key is no worker's";

}  // namespace

struct PortGate::Impl {
  Impl(const std::string& at, std::shared_ptr<CurveServer> c)
      : curve(std::move(c)),
        doors(at, curve->hosts()),
        epoll(::epoll_create1(EPOLL_CLOEXEC)),
        wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (!epoll.open() || !wake.open()) Fail("no descriptors are left to listen on {}: ulimit -n", doors.endpoint());
  }
  ~Impl() {
    if (!thread.joinable()) return;
    stopping = true;
    (void)::eventfd_write(wake.get(), 1);
    thread.join();
  }

  void Watch(int fd, uint32_t events, uint64_t mark, int operation) const {
    epoll_event event{};
    event.events = events;
    event.data.u64 = mark;
    (void)::epoll_ctl(epoll.get(), operation, fd, &event);
  }
  void WatchFor(const Stranger& stranger, int operation, bool inner_is_new = false) const;
  void Accept(int door);
  void Receive(Descriptor socket, const sockaddr_storage& peer);
  void Advance(Stranger& stranger);
  bool OnWord(Stranger& stranger);
  bool OnVerdict(Stranger& stranger);
  void LookAtHellos();
  bool Introduce(Stranger& stranger);
  void Delay(Stranger& stranger);
  void End(Stranger& stranger, const char* reason);
  int MillisToWait();
  void Run();

  const std::shared_ptr<CurveServer> curve;
  GateDoors doors;
  PrivateSocket inner;
  Descriptor epoll, wake;
  std::array<uint8_t, kGreetingBytes> greeting{};  // greeting of the ZeroMQ socket, the same for every client
  GateLinks links;
  Strangers strangers;
  GatePace pace;
  std::optional<Clock::time_point> resume;  // the time to accept again, after descriptors ran out
  uint64_t refused_before = 0;
  GateLog log{doors.endpoint()};
  std::atomic<bool> stopping{false};
  std::thread thread;
};

void PortGate::Impl::WatchFor(const Stranger& stranger, int operation, bool inner_is_new) const {
  const uint64_t mark = stranger.number * 2;
  const bool peer = AwaitsPeer(stranger.awaits);
  Watch(stranger.outer.get(), EPOLLRDHUP | (peer ? EPOLLIN : 0U), mark, operation);
  if (!stranger.inner.open()) return;
  Watch(stranger.inner.get(), EPOLLRDHUP | (peer ? 0U : EPOLLIN), mark + 1, inner_is_new ? EPOLL_CTL_ADD : operation);
}

void PortGate::Impl::Accept(int door) {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    sockaddr_storage peer{};
    Descriptor socket = AcceptPeer(door, peer);
    if (socket.open()) {
      Receive(std::move(socket), peer);
      continue;
    }
    if (!LacksDescriptors(errno)) return;
    // No file descriptors are left. Dropping a connection whose peer is not authenticated yet frees descriptors. The
    // kernel queues new connections meanwhile.
    if (Stranger* one = strangers.WhoGivesWay("")) End(*one, kGaveWay);
    doors.Watch(epoll.get(), 0, EPOLL_CTL_MOD);
    resume = Clock::now() + kBackOff;
    return;
  }
}

void PortGate::Impl::Receive(Descriptor socket, const sockaddr_storage& peer) {
  PeerName name = NameOf(peer);
  while (!strangers.HasRoom(name.network)) End(*strangers.WhoGivesWay(name.network), kGaveWay);
  if (!SendWhole(socket.get(), greeting)) return;
  WatchFor(strangers.Add(std::move(socket), std::move(name), Clock::now() + kPatience), EPOLL_CTL_ADD);
}

/// Processes all messages that have arrived on the connection. May delete `stranger`.
void PortGate::Impl::Advance(Stranger& stranger) {
  for (;;) {
    const Awaits awaits = stranger.awaits;
    const int fd = AwaitsPeer(awaits) ? stranger.outer.get() : stranger.inner.get();
    const Reading reading = ReadWord(fd, awaits, stranger.word);
    if (reading == Reading::kMore) return;
    if (reading != Reading::kWhole)
      return End(stranger, reading == Reading::kWrong && AwaitsPeer(awaits) ? kNoWord : nullptr);
    if (!OnWord(stranger)) return;
  }
}

/// Handles a complete handshake message. Returns false when nothing more is to be read, or `stranger` is gone.
bool PortGate::Impl::OnWord(Stranger& stranger) {
  const std::vector<uint8_t> word = std::exchange(stranger.word, {});
  bool passed_on = true;
  switch (stranger.awaits) {
    case Awaits::kGreeting:
      stranger.said = word;
      stranger.awaits = Awaits::kHello;
      return true;
    case Awaits::kHello:
      stranger.said.insert(stranger.said.end(), word.begin(), word.end());
      stranger.awaits = Awaits::kTurn;
      strangers.AwaitTurn(stranger);
      WatchFor(stranger, EPOLL_CTL_MOD);
      return false;
    case Awaits::kInnerGreeting:
      stranger.awaits = Awaits::kWelcome;
      return true;
    case Awaits::kWelcome:
      passed_on = SendWhole(stranger.outer.get(), word);
      stranger.awaits = Awaits::kInitiate;
      break;
    case Awaits::kInitiate:
      passed_on = SendWhole(stranger.inner.get(), word);
      stranger.awaits = Awaits::kVerdict;
      break;
    case Awaits::kVerdict:
      stranger.word = word;
      return OnVerdict(stranger);
    case Awaits::kTurn:
      break;
  }
  if (!passed_on) return End(stranger, nullptr), false;
  WatchFor(stranger, EPOLL_CTL_MOD);
  return true;
}

bool PortGate::Impl::OnVerdict(Stranger& stranger) {
  const bool passed_on = SendWhole(stranger.outer.get(), stranger.word);
  if (passed_on && !StateOfCommand(stranger.word, kReadyCommand).wrong) {
    for (const int fd : {stranger.outer.get(), stranger.inner.get()}) Watch(fd, 0, 0, EPOLL_CTL_DEL);
    strangers.Accepted(stranger.name.network);
    curve->hosts().AddPeer(stranger.outer.get());
    links.Add(std::move(stranger.outer), std::move(stranger.inner));
    strangers.Remove(stranger.number);
    return false;
  }
  // The ZAP handler has counted the refusal, unless this was the test connection of CheckThatStrangersAreRefused.
  const uint64_t refused = curve->num_refused();
  if (std::exchange(refused_before, refused) != refused) log.TurnedAway(stranger.name.address, kUnknownKey, refused);
  End(stranger, nullptr);
  return false;
}

void PortGate::Impl::LookAtHellos() {
  for (int i = 0; i < kLookedAtAtOnce && strangers.anybody_waits(); ++i) {
    const auto now = Clock::now();
    if (pace.next() > now) return;
    Stranger* const next = strangers.NextTurn();
    if (next == nullptr) return;
    const bool knows_us = curve->CanOpen(std::span<const uint8_t>(next->said).subspan(kGreetingBytes));
    pace.Spend(now, knows_us ? GatePace::kHandshake : GatePace::kLook);
    if (!knows_us) {
      End(*next, kNoKey);
      continue;
    }
    strangers.KnowsKey(*next);
    if (Introduce(*next)) continue;
    if (next->inner.open() || (!LacksDescriptors(errno) && errno != EAGAIN))
      End(*next, nullptr);
    else
      Delay(*next);
  }
}

/// Puts the connection back into the queue, because connecting to the ZeroMQ socket failed. Drops another connection if
/// descriptors or memory ran out (errno).
void PortGate::Impl::Delay(Stranger& stranger) {
  const int error = errno;
  log.KeptWaiting(stranger.name.address, error);
  pace.Spend(Clock::now(), kBackOff);
  strangers.AwaitTurn(stranger);
  if (error == EAGAIN) return;  // the ZeroMQ socket's backlog is full
  if (Stranger* one = strangers.WhoGivesWay(""); one != nullptr && one != &stranger) End(*one, kGaveWay);
}

/// Connects to the ZeroMQ socket and sends the peer's messages to it. Returns false on failure. If connecting failed,
/// `stranger.inner` is not open, and errno tells the reason.
bool PortGate::Impl::Introduce(Stranger& stranger) {
  stranger.inner = inner.Connect();
  if (!stranger.inner.open() || !SendWhole(stranger.inner.get(), stranger.said)) return false;
  stranger.said = {};
  stranger.awaits = Awaits::kInnerGreeting;
  WatchFor(stranger, EPOLL_CTL_MOD, true);
  return true;
}

/// Closes the connection. `reason` says why the peer is refused; null when the peer left.
void PortGate::Impl::End(Stranger& stranger, const char* reason) {
  if (reason != nullptr) {
    refused_before = curve->CountRefused();
    log.TurnedAway(stranger.name.address, reason, refused_before);
  }
  strangers.Remove(stranger.number);
}

int PortGate::Impl::MillisToWait() {
  auto until = Clock::time_point::max();
  if (const Stranger* oldest = strangers.Oldest()) until = oldest->deadline;
  if (strangers.anybody_waits()) until = std::min(until, pace.next());
  if (resume) until = std::min(until, *resume);
  if (until == Clock::time_point::max()) return -1;
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  return static_cast<int>(std::max<int64_t>(0, wait.count()));
}

void PortGate::Impl::Run() {
  GiveWayToWorkers();
  std::array<epoll_event, 64> events;
  while (!stopping) {
    const int count = ::epoll_wait(epoll.get(), events.data(), events.size(), MillisToWait());
    for (int i = 0; i < count; ++i) {
      const epoll_event event = events[static_cast<size_t>(i)];
      if (event.data.u64 == GateDoors::kOthersMark) Accept(doors.others());
      if (event.data.u64 == GateDoors::kWorkersMark) Accept(doors.workers());
      Stranger* const stranger = strangers.Find(event.data.u64 / 2);
      if (stranger == nullptr) continue;
      const bool expected = AwaitsPeer(stranger->awaits) == (event.data.u64 % 2 == 0);
      if (expected && stranger->awaits != Awaits::kTurn)
        Advance(*stranger);
      else if ((event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)
        End(*stranger, nullptr);
    }
    doors.LearnHosts(strangers);
    LookAtHellos();
    const auto now = Clock::now();
    for (Stranger* late = strangers.Oldest(); late != nullptr && late->deadline <= now; late = strangers.Oldest())
      End(*late, kTooSlow);
    if (resume && *resume <= now) {
      resume.reset();
      doors.Watch(epoll.get(), EPOLLIN, EPOLL_CTL_MOD);
    }
  }
}

PortGate::PortGate(const std::string& endpoint, std::shared_ptr<CurveServer> curve)
    : impl_(std::make_unique<Impl>(endpoint, std::move(curve))) {}
PortGate::~PortGate() = default;
const std::string& PortGate::endpoint() const { return impl_->doors.endpoint(); }
int PortGate::ReleaseInner() { return impl_->inner.Release(); }

void PortGate::Open() {
  AskForGreeting(impl_->inner, impl_->doors.endpoint(), impl_->greeting);
  impl_->doors.LearnHosts(impl_->strangers);
  impl_->doors.Watch(impl_->epoll.get(), EPOLLIN, EPOLL_CTL_ADD);
  impl_->Watch(impl_->wake.get(), EPOLLIN, kWake, EPOLL_CTL_ADD);
  impl_->thread = std::thread([impl = impl_.get()] { impl->Run(); });
}

}  // namespace quire
