#include "comm/wire/gate/gate_doors.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "comm/wire/gate/gate_sockets.h"

namespace quire {

namespace {

// Indices of the port's two sockets, in the order in which they began to listen. The program in the kernel (BPF)
// returns the index of the socket that gets a connection.
constexpr uint32_t kOthers = 0, kWorkers = 1;
// Offsets for the program in the kernel: where the IP header begins, where the source address is in an IPv4 and in an
// IPv6 header, and the bytes of one word of an address.
constexpr uint32_t kHeader = static_cast<uint32_t>(SKF_NET_OFF), kSourceOfV4 = 12, kSourceOfV6 = 8, kWord = 4;

sock_filter Load(uint32_t at) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kHeader + at); }
sock_filter Recall(uint32_t place) { return BPF_STMT(BPF_LD | BPF_MEM, place); }
sock_filter Keep(uint32_t place) { return BPF_STMT(BPF_ST, place); }
sock_filter Return(uint32_t socket) { return BPF_STMT(BPF_RET | BPF_K, socket); }
sock_filter SkipUnless(uint32_t value, size_t skipped) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, static_cast<uint8_t>(skipped));
}

/// Returns an IP address in words of 32 bits, one or four, in the byte order of the host.
std::vector<uint32_t> WordsOf(const sockaddr_storage& address) {
  const bool v6 = address.ss_family == AF_INET6;
  uint32_t words[4] = {};
  if (v6)
    std::memcpy(words, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, sizeof(words));
  else
    std::memcpy(words, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, sizeof(words[0]));
  std::vector<uint32_t> all;
  for (size_t i = 0; i < (v6 ? 4U : 1U); ++i) all.push_back(ntohl(words[i]));
  return all;
}

/// Appends steps that return kWorkers for a packet from one of the hosts of this IP version, and kOthers for any other
/// packet.
void CompareSources(const std::vector<sockaddr_storage>& hosts, bool v6, std::vector<sock_filter>& program) {
  const uint32_t num_words = v6 ? 4 : 1;
  for (uint32_t i = 0; i < num_words; ++i) {
    program.push_back(Load((v6 ? kSourceOfV6 : kSourceOfV4) + i * kWord));
    program.push_back(Keep(i));
  }
  for (const sockaddr_storage& host : hosts) {
    if ((host.ss_family == AF_INET6) != v6) continue;
    const std::vector<uint32_t> words = WordsOf(host);
    for (uint32_t i = 0; i < num_words; ++i) {
      program.push_back(Recall(i));
      program.push_back(SkipUnless(words[i], 2 * (num_words - 1 - i) + 1));
    }
    program.push_back(Return(kWorkers));
  }
  program.push_back(Return(kOthers));
}

/// Returns the program with which the kernel chooses the socket for a new connection.
std::vector<sock_filter> ProgramFor(const std::vector<sockaddr_storage>& hosts) {
  std::vector<sock_filter> v4, program;
  CompareSources(hosts, false, v4);
  program.push_back(BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kHeader));
  program.push_back(BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 4));  // the version of IP
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 4, 1, 0));
  program.push_back(BPF_STMT(BPF_JMP | BPF_JA, static_cast<uint32_t>(v4.size())));
  program.insert(program.end(), v4.begin(), v4.end());
  CompareSources(hosts, true, program);
  return program;
}

bool Attach(int listening, const std::vector<sockaddr_storage>& hosts) {
  std::vector<sock_filter> steps = ProgramFor(hosts);
  const sock_fprog program{static_cast<uint16_t>(steps.size()), steps.data()};
  return ::setsockopt(listening, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) == 0;
}

/// Returns a second socket that listens at the address of `first`. The descriptor is not open if the system does not
/// allow that.
Descriptor ListenBeside(int first) {
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  const int one = 1;
  if (::getsockname(first, reinterpret_cast<sockaddr*>(&own), &size) != 0) return {};
  // The first socket began to listen without this option, so another process cannot have shared its port.
  if (::setsockopt(first, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) != 0) return {};
  Descriptor second(::socket(own.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool listens = second.open() &&
                       ::setsockopt(second.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
                       ::setsockopt(second.get(), SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) == 0 &&
                       ::bind(second.get(), reinterpret_cast<const sockaddr*>(&own), size) == 0 &&
                       ::listen(second.get(), kGateBacklog) == 0 && Attach(second.get(), {});
  return listens ? std::move(second) : Descriptor();
}

}  // namespace

GateDoors::GateDoors(const std::string& endpoint, WorkerHosts& hosts)
    : others_(ListenOnTcp(endpoint)),
      workers_(ListenBeside(others_.get())),
      endpoint_(TcpEndpointOf(others_.get())),
      hosts_(hosts) {
  hosts_.AddThisHost();
}

void GateDoors::LearnHosts(Strangers& strangers) {
  const uint64_t version = hosts_.version();
  if (std::exchange(known_, version) == version) return;
  const std::vector<sockaddr_storage> hosts = hosts_.all();
  for (const sockaddr_storage& host : hosts) strangers.Accepted(NameOf(host).network);
  if (!workers_.open() || Attach(workers_.get(), hosts)) return;
  spdlog::warn("{}: the kernel does not take a list of {} hosts of workers: {}", endpoint_, hosts.size(),
               std::strerror(errno));
}

void GateDoors::Watch(int epoll, uint32_t events, int operation) const {
  for (const auto& [socket, mark] : {std::pair(others(), kOthersMark), std::pair(workers(), kWorkersMark)}) {
    if (socket < 0) continue;
    epoll_event event{};
    event.events = events;
    event.data.u64 = mark;
    (void)::epoll_ctl(epoll, operation, socket, &event);
  }
}

}  // namespace quire
