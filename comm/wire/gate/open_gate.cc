#include "comm/wire/gate/open_gate.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <atomic>
#include <cerrno>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "comm/base/error.h"
#include "comm/base/give_way.h"
#include "comm/wire/gate/gate_links.h"
#include "comm/wire/gate/gate_log.h"
#include "comm/wire/gate/gate_sockets.h"
#include "comm/wire/gate/open_places.h"

namespace quire {

namespace {

constexpr int kMillisWithoutDescriptors = 50;  // pause before the gate accepts again

}  // namespace

struct OpenGate::Impl {
  Impl(const std::string& at, const std::string& what, std::chrono::milliseconds speak)
      : log(what),
        to_speak(speak),
        listening(ListenOnTcp(at)),
        endpoint(TcpEndpointOf(listening.get())),
        wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (!wake.open()) Fail("no descriptors are left to listen on {}: ulimit -n", endpoint);
  }
  ~Impl() {
    if (!thread.joinable()) return;
    stopping = true;
    (void)::eventfd_write(wake.get(), 1);
    thread.join();
  }

  void Run();
  bool AcceptOne();
  bool HasRoomFor(const PeerName& name);

  GateLog log;
  const std::chrono::milliseconds to_speak;
  Descriptor listening;
  const std::string endpoint;
  PrivateSocket inner;
  Descriptor wake;
  GateLinks links;
  struct Peer {
    uint64_t link;
    PeerName name;
  };
  std::vector<Peer> peers;  // connected peers, the latest last; used by the thread alone
  std::atomic<bool> stopping{false};
  std::thread thread;
};

/// True when the port has room for this peer. If the port is full, disconnects the peer that PlaceFor chooses, if any.
bool OpenGate::Impl::HasRoomFor(const PeerName& name) {
  std::erase_if(peers, [&](const Peer& peer) { return !links.Lives(peer.link); });
  if (peers.size() < kMostPeers) return true;
  std::vector<PeerName> names;
  for (const Peer& peer : peers) names.push_back(peer.name);
  const std::optional<size_t> place = PlaceFor(name, names);
  if (!place) return false;
  const auto loser = peers.begin() + static_cast<ptrdiff_t>(*place);
  links.End(loser->link);
  peers.erase(loser);
  return true;
}

/// Accepts the next connection, if there is one. Returns false when the process has no file descriptors left.
bool OpenGate::Impl::AcceptOne() {
  sockaddr_storage peer{};
  Descriptor outer = AcceptPeer(listening.get(), peer);
  if (!outer.open()) return !LacksDescriptors(errno);
  const PeerName name = NameOf(peer);
  if (!HasRoomFor(name)) {
    log.Full(name.address, kMostPeers);
    return true;
  }
  Descriptor way_in = inner.Connect();
  if (!way_in.open()) return !LacksDescriptors(errno);
  const LinkBounds bounds = {.most_bytes = kMostBytes, .to_speak = to_speak};
  peers.push_back({links.Add(std::move(outer), std::move(way_in), bounds), name});
  return true;
}

void OpenGate::Impl::Run() {
  GiveWayToWorkers();
  bool lacks = false;
  while (!stopping) {
    pollfd waits[2] = {{wake.get(), POLLIN, 0}, {listening.get(), POLLIN, 0}};
    (void)::poll(waits, lacks ? 1 : 2, lacks ? kMillisWithoutDescriptors : -1);
    lacks = !stopping && !AcceptOne();
  }
}

OpenGate::OpenGate(const std::string& endpoint, const std::string& what, std::chrono::milliseconds to_speak)
    : impl_(std::make_unique<Impl>(endpoint, what, to_speak)) {}
OpenGate::~OpenGate() = default;
const std::string& OpenGate::endpoint() const { return impl_->endpoint; }
int OpenGate::ReleaseInner() { return impl_->inner.Release(); }
void OpenGate::Open() {
  impl_->thread = std::thread([impl = impl_.get()] { impl->Run(); });
}

}  // namespace quire
