#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/base/descriptor.h"

namespace quire {

/// Forwards bytes in both directions between the connections of accepted peers and the ZeroMQ socket that the gate
/// protects, on its own thread. Buffers are bounded: while a side sends faster than the other side receives, it is not
/// read. When one side closes, the other side has three seconds to receive the remaining bytes.
class GateLinks {
 public:
  GateLinks();
  /// Keeps forwarding for up to 200 ms, then ends all links.
  ~GateLinks();
  GateLinks(const GateLinks&) = delete;
  GateLinks& operator=(const GateLinks&) = delete;

  /// Adds a link between a peer's connection and a connection to the ZeroMQ socket, both non-blocking. The link ends if
  /// the peer sends more than `most_bytes` in all. May be called from any thread.
  void Add(Descriptor outer, Descriptor inner, size_t most_bytes = SIZE_MAX);
  /// Returns the number of links that have been added and have not ended. May be called from any thread.
  int size() const { return num_links_; }

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

  Descriptor epoll_, wake_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Link>> new_ones_;      // guarded by mutex_
  std::map<uint64_t, std::unique_ptr<Link>> links_;  // this and the members below are used by the thread only
  uint64_t last_number_ = 0;
  struct Ending {
    std::chrono::steady_clock::time_point at;
    uint64_t number;  // the link's number; the link may be gone
  };
  std::deque<Ending> ending_;  // links that are ending, in the order of `at`
  std::vector<char> buffer_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> num_links_{0};
  std::thread thread_;
};

}  // namespace quire
