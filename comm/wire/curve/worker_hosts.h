#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace quire {

/// Returns a copy of an IPv4 or IPv6 address.
sockaddr_storage Stored(const sockaddr& address);
/// Returns an IPv4 address that is written as IPv6 (::ffff:10.0.0.5) as IPv4, and any other address unchanged.
sockaddr_storage PlainAddress(const sockaddr_storage& address);
/// Returns the address in numbers as text, without its port: "10.0.0.5".
std::string AddressText(const sockaddr_storage& address);

/// The addresses from which a server's workers connect. All ports of a server share one object. Several threads may
/// use it at the same time.
class WorkerHosts {
 public:
  static constexpr size_t kMost = 128;

  /// Adds an address. Two addresses that differ only in their ports count as one. Does nothing when there are kMost
  /// addresses already.
  void Add(const sockaddr_storage& address);
  /// Adds the address at the other end of a connected socket.
  void AddPeer(int connected);
  /// Adds all addresses of a host. Asks the system's resolver for a name. Does nothing when the name has no address.
  void AddHost(const std::string& host);
  /// Adds the addresses of this host's interfaces, except link-local ones.
  void AddThisHost();

  std::vector<sockaddr_storage> all() const;
  /// Returns a number that grows with every new address.
  uint64_t version() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, sockaddr_storage> hosts_;  // keyed by the address as text; guarded by mutex_
};

}  // namespace quire
