#include "comm/wire/gate/open_gate.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/give_way.h"
#include "comm/wire/gate/gate_links.h"
#include "comm/wire/gate/gate_log.h"
#include "comm/wire/gate/gate_sockets.h"

namespace quire {

namespace {

constexpr int kMillisWithoutDescriptors = 50;  // then the gate tries again

}  // namespace

struct OpenGate::Impl {
  Impl(const std::string& at, const std::string& what)
      : log(what),
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

  GateLog log;
  Descriptor listening;
  const std::string endpoint;
  PrivateSocket inner;
  Descriptor wake;
  GateLinks links;
  std::atomic<bool> stopping{false};
  std::thread thread;
};

/// Accepts the next connection, if there is one. Returns false when the process has no file descriptors left.
bool OpenGate::Impl::AcceptOne() {
  sockaddr_storage peer{};
  Descriptor outer = AcceptPeer(listening.get(), peer);
  if (!outer.open()) return !LacksDescriptors(errno);
  if (links.size() >= kMostPeers) {
    log.Full(NameOf(peer).address, kMostPeers);
    return true;
  }
  Descriptor way_in = inner.Connect();
  if (!way_in.open()) return !LacksDescriptors(errno);
  links.Add(std::move(outer), std::move(way_in), kMostBytes);
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

OpenGate::OpenGate(const std::string& endpoint, const std::string& what)
    : impl_(std::make_unique<Impl>(endpoint, what)) {}
OpenGate::~OpenGate() = default;
const std::string& OpenGate::endpoint() const { return impl_->endpoint; }
int OpenGate::ReleaseInner() { return impl_->inner.Release(); }
void OpenGate::Open() {
  impl_->thread = std::thread([impl = impl_.get()] { impl->Run(); });
}

}  // namespace quire
