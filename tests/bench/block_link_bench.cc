// Measures how fast KV blocks go from worker to worker, and compares this speed with that of a plain socket. Threads
// act as workers over loopback, so the benchmark measures the work of both sides without a network.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sodium.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <thread>
#include <vector>

#include "comm/base/error.h"
#include "comm/collective/block_receiver.h"
#include "comm/collective/block_sender.h"

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kBlocks = 512;
constexpr size_t kBlockBytes = 720 << 10;  // the size of 16 tokens of SmolLM2-135M in fp32, all heads
constexpr int kRounds = 5;

double Seconds(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Returns the bytes per second over one TCP connection, which is written and read in pieces of 256 KiB, the size
/// of a chunk.
double PlainTcp(int64_t bytes) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener, any, size) != 0 || ::listen(listener, 1) != 0 || ::getsockname(listener, any, &size) != 0)
    Fail("no socket");
  std::thread reader([&] {
    const int from = ::accept(listener, nullptr, nullptr);
    std::vector<std::byte> piece(256 << 10);
    for (int64_t left = bytes; left > 0;) {
      const ssize_t got = ::read(from, piece.data(), piece.size());
      if (got <= 0) break;
      left -= got;
    }
    ::close(from);
  });
  const int to = ::socket(AF_INET, SOCK_STREAM, 0);
  if (::connect(to, any, size) != 0) Fail("no connection");
  const std::vector<std::byte> piece(256 << 10);
  const auto begin = Clock::now();
  for (int64_t left = bytes; left > 0;) {
    const ssize_t sent = ::write(to, piece.data(), std::min(static_cast<size_t>(left), piece.size()));
    if (sent <= 0) break;
    left -= sent;
  }
  reader.join();
  const double seconds = Seconds(begin);
  ::close(to);
  ::close(listener);
  return static_cast<double>(bytes) / seconds;
}

struct Case {
  const char* name;
  size_t givers, takers;
  bool tcp, keys;
};

/// Returns the bytes of each block that rank `self` of `selves` ranks exchanges with each rank of the other group.
/// Every rank of a group has an even part of each block. Two ranks exchange the bytes that both have.
std::vector<BlockRuns> RunsOf(size_t self, size_t selves, size_t others) {
  std::vector<BlockRuns> all;
  const size_t own_begin = self * kBlockBytes / selves, own_end = (self + 1) * kBlockBytes / selves;
  for (size_t other = 0; other < others; ++other) {
    const size_t begin = std::max(own_begin, other * kBlockBytes / others);
    const size_t end = std::min(own_end, (other + 1) * kBlockBytes / others);
    BlockRuns& runs = all.emplace_back();
    if (begin < end) runs.push_back({static_cast<int64_t>(begin - own_begin), static_cast<int64_t>(end - begin)});
  }
  return all;
}

/// Sends all blocks from the sending workers (givers) to the receiving workers (takers), kRounds times. Returns the
/// bytes per second of the fastest round, summed over all sending workers.
double Exchange(const Case& what) {
  std::vector<WorkerKeys> keys(what.givers);
  std::vector<std::string> public_keys, taker_keys(what.takers);
  for (WorkerKeys& pair : keys) {
    pair.own = MakeCurveKeyPair();
    public_keys.push_back(pair.own.public_key);
  }
  std::deque<BlockReceiver> takers;
  for (size_t t = 0; t < what.takers; ++t) {
    std::shared_ptr<CurveServer> curve;
    if (what.keys) {
      CurveKeyPair own = MakeCurveKeyPair();
      taker_keys[t] = own.public_key;
      curve = std::make_shared<CurveServer>(CoordinatorKeys{std::move(own), public_keys});
    }
    takers.emplace_back(
        what.tcp ? "tcp://127.0.0.1:0" : fmt::format("ipc:///tmp/quire-link-bench.{}.{}", ::getpid(), t), 1,
        std::move(curve));
  }
  std::vector<std::vector<std::byte>> from(what.givers), to(what.takers);
  for (auto& memory : from) memory.assign(kBlocks * (kBlockBytes / what.givers + 1), std::byte{1});
  for (auto& memory : to) memory.resize(kBlocks * (kBlockBytes / what.takers + 1));
  const auto blocks = [](std::vector<std::byte>& memory) {
    BlockMemory all;
    const size_t each = memory.size() / kBlocks;
    for (size_t b = 0; b < kBlocks; ++b) all.push_back(std::span(memory).subspan(b * each, each));
    return all;
  };
  std::deque<BlockSender> givers;
  for (size_t g = 0; g < what.givers; ++g)
    givers.emplace_back(BlockSender::Self{fmt::format("g{}", g), static_cast<Rank>(g), what.keys ? &keys[g] : nullptr});
  double best = 0;
  for (uint64_t round = 1; round <= kRounds; ++round) {
    for (size_t t = 0; t < what.takers; ++t)
      takers[t].Expect(round, blocks(to[t]), RunsOf(t, what.takers, what.givers));
    const auto begin = Clock::now();
    std::vector<std::thread> threads;
    for (size_t g = 0; g < what.givers; ++g) {
      std::vector<BlockDestination> destinations;
      const std::vector<BlockRuns> runs = RunsOf(g, what.givers, what.takers);
      for (size_t t = 0; t < what.takers; ++t) destinations.push_back({takers[t].endpoint(), taker_keys[t], runs[t]});
      givers[g].Send(round, 1, blocks(from[g]), std::move(destinations));
      threads.emplace_back([&giver = givers[g]] {
        while (giver.Poll().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      });
    }
    std::atomic<bool> good = true;
    for (BlockReceiver& taker : takers) {
      threads.emplace_back([&] {
        for (;;) {
          Channel* channels[] = {&taker.channel()};
          Channel::Wait(channels, -1, 100);
          const auto ended = taker.Poll();
          if (ended.empty()) continue;
          if (!ended[0].problem.empty()) good = false;
          return;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (!good) Fail("{}: a transfer failed", what.name);
    best = std::max(best, static_cast<double>(kBlocks * kBlockBytes) / Seconds(begin));
  }
  return best;
}

}  // namespace
}  // namespace quire

int main() {
  using namespace quire;
  if (::sodium_init() < 0) return 1;
  double plain = 0;
  for (int i = 0; i < kRounds; ++i) plain = std::max(plain, PlainTcp(static_cast<int64_t>(kBlocks * kBlockBytes)));
  fmt::print("{:<44} {:5.2f} GB/s\n", "one TCP connection, no work", plain / 1e9);
  const Case cases[] = {
      {"1 rank to 1, Unix socket", 1, 1, false, false}, {"1 rank to 1, TCP", 1, 1, true, false},
      {"1 rank to 1, TCP with keys", 1, 1, true, true}, {"2 ranks to 2, TCP", 2, 2, true, false},
      {"2 ranks to 3, TCP", 2, 3, true, false},         {"2 ranks to 3, TCP with keys", 2, 3, true, true}};
  for (const Case& what : cases) {
    const double speed = Exchange(what);
    fmt::print("{:<44} {:5.2f} GB/s, {:3.0f} %\n", what.name, speed / 1e9, 100 * speed / plain);
  }
}
