#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "comm/base/descriptor.h"

namespace quire {

/// The limits on what a peer may do. The gate closes the link of a peer that exceeds a limit.
struct LinkBounds {
  size_t most_bytes = SIZE_MAX;           // the most bytes that the peer may send in all
  std::chrono::milliseconds to_speak{0};  // time until the peer's first message or subscription begins; 0: no limit
};

/// Forwards bytes in both directions between the connections of accepted peers and the ZeroMQ socket that the gate
/// protects, on its own thread. Buffers are bounded: the gate stops reading from a side that sends faster than the
/// other side receives. When one side closes, the other side has three seconds to receive the remaining bytes.
class GateLinks {
 public:
  GateLinks();
  /// Forwards bytes for up to 200 ms more, then ends all links.
  ~GateLinks();
  GateLinks(const GateLinks&) = delete;
  GateLinks& operator=(const GateLinks&) = delete;

  /// Adds a link between a peer's connection and a connection to the ZeroMQ socket, both non-blocking. Returns the
  /// link's number. Any thread may call this and the next two functions.
  uint64_t Add(Descriptor outer, Descriptor inner, const LinkBounds& bounds = {});
  /// Closes both connections of a link.
  void End(uint64_t number);
  /// True for a link that has been added and has not ended.
  bool Lives(uint64_t number) const;

 private:
  struct Way;   // one direction of a link
  struct Link;  // a connection with its two directions of bytes

  void Run();
  void TakeNewOnes();
  bool Serve(Link& link, int side, uint32_t events);
  enum class Carried { kGoesOn, kAllRead, kNotTaken };  // going on; the sender has closed; the receiver has closed
  Carried Carry(Way& way);
  bool Watch(Link& link, uint64_t number);
  bool WatchSide(Link& link, int side, uint32_t events, uint64_t number);
  int MillisToWait() const;
  void EndLateOnes();
  void Erase(uint64_t number);

  Descriptor epoll_, wake_;
  mutable std::mutex mutex_;  // guards the next four members
  std::map<uint64_t, std::unique_ptr<Link>> new_ones_;
  std::vector<uint64_t> to_end_;
  std::set<uint64_t> living_;
  uint64_t last_number_ = 0;
  std::map<uint64_t, std::unique_ptr<Link>> links_;  // only the gate's thread uses links_ and the members below
  struct Ending {
    std::chrono::steady_clock::time_point at;
    uint64_t number;  // the link's number; the link may be gone
  };
  std::deque<Ending> ending_;  // links that are ending, in the order of `at`
  std::deque<Ending> silent_;  // deadlines of links whose peers have not sent a message yet, in the order of `at`
  std::vector<char> buffer_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace quire
