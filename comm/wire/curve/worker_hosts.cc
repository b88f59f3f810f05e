#include "comm/wire/curve/worker_hosts.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>

namespace quire {

namespace {

bool IsIp(const sockaddr* address) {
  return address != nullptr && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
}

bool IsLinkLocal(const sockaddr_storage& address) {
  return address.ss_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

}  // namespace

sockaddr_storage Stored(const sockaddr& address) {
  sockaddr_storage stored{};
  std::memcpy(&stored, &address, address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  return stored;
}

sockaddr_storage PlainAddress(const sockaddr_storage& address) {
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (address.ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) return address;
  sockaddr_storage plain{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(plain);
  v4.sin_family = AF_INET;
  v4.sin_port = v6.sin6_port;
  std::memcpy(&v4.sin_addr, v6.sin6_addr.s6_addr + 12, sizeof(v4.sin_addr));
  return plain;
}

std::string AddressText(const sockaddr_storage& address) {
  char text[NI_MAXHOST] = {};
  const socklen_t size = address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  const auto* any = reinterpret_cast<const sockaddr*>(&address);
  return ::getnameinfo(any, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) == 0 ? text : "?";
}

void WorkerHosts::Add(const sockaddr_storage& address) {
  const sockaddr_storage plain = PlainAddress(address);
  const std::lock_guard lock(mutex_);
  if (hosts_.size() < kMost) hosts_.emplace(AddressText(plain), plain);
}

void WorkerHosts::AddPeer(int connected) {
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  if (::getpeername(connected, reinterpret_cast<sockaddr*>(&peer), &size) == 0) Add(peer);
}

void WorkerHosts::AddHost(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, ::freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (IsIp(one->ai_addr)) Add(Stored(*one->ai_addr));
  }
}

void WorkerHosts::AddThisHost() {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(found, ::freeifaddrs);
  for (const ifaddrs* one = found; one != nullptr; one = one->ifa_next) {
    if (!IsIp(one->ifa_addr)) continue;
    const sockaddr_storage address = Stored(*one->ifa_addr);
    if (!IsLinkLocal(address)) Add(address);
  }
}

std::vector<sockaddr_storage> WorkerHosts::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<sockaddr_storage> all;
  for (const auto& [text, address] : hosts_) all.push_back(address);
  return all;
}

uint64_t WorkerHosts::version() const {
  const std::lock_guard lock(mutex_);
  return hosts_.size();
}

}  // namespace quire
