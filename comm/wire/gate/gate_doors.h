#pragma once

#include <cstdint>
#include <string>

#include "comm/base/descriptor.h"
#include "comm/wire/curve/worker_hosts.h"
#include "comm/wire/gate/gate_strangers.h"

namespace quire {

/// Two listening sockets on one TCP port: one for hosts of workers, one for all other hosts. The kernel chooses by the
/// peer's address. Each socket has its own queue of new connections, so a flood from other hosts can fill only the
/// queue of other hosts. If the kernel cannot choose, one socket listens for all hosts.
class GateDoors {
 public:
  /// The values that identify the two sockets in epoll events.
  static constexpr uint64_t kOthersMark = 0, kWorkersMark = UINT64_MAX;

  /// Listens as ListenOnTcp does. Adds the addresses of this host to `hosts`, which must outlive this object. Throws
  /// Error when it cannot listen.
  GateDoors(const std::string& endpoint, WorkerHosts& hosts);

  /// Returns the socket for hosts that are not in the list of workers' hosts.
  int others() const { return others_.get(); }
  /// Returns the socket for listed hosts; -1 when others() listens for all hosts.
  int workers() const { return workers_.get(); }
  /// Returns the bound endpoint, with the port that the system chose.
  const std::string& endpoint() const { return endpoint_; }

  /// Tells the kernel and `strangers` about hosts that were added since the last call.
  void LearnHosts(Strangers& strangers);
  /// Calls epoll_ctl for each of the two sockets.
  void Watch(int epoll, uint32_t events, int operation) const;

 private:
  Descriptor others_, workers_;
  std::string endpoint_;
  WorkerHosts& hosts_;
  uint64_t known_ = 0;  // the version of hosts_ that LearnHosts took over
};

}  // namespace quire
