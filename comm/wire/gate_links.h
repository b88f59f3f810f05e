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

/// Carries the bytes of peers that have been let in between their connections and the socket behind the gate, on a
/// thread of its own. What cannot be passed on yet is bounded: the side that is too fast is not read. When one side
/// ends, the other one has three seconds to take what that side had written.
class GateLinks {
 public:
  GateLinks();
  /// Passes on what is under way, for a moment.
  ~GateLinks();
  GateLinks(const GateLinks&) = delete;
  GateLinks& operator=(const GateLinks&) = delete;

  /// From any thread: a peer's connection and the one to the socket behind, neither of which blocks.
  void Add(Descriptor outer, Descriptor inner);

 private:
  struct Way;   // one direction
  struct Link;  // both

  void Run();
  void TakeNewOnes();
  bool Serve(Link& link, int side, uint32_t events);
  enum class Carried { kGoesOn, kAllRead, kNotTaken };  // so far; and where either side has ended
  Carried Carry(Way& way);
  bool Watch(Link& link, uint64_t number);
  bool WatchSide(Link& link, int side, uint32_t events, uint64_t number);
  int MillisToWait() const;
  void EndLateOnes();

  Descriptor epoll_, wake_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Link>> new_ones_;      // guarded by mutex_
  std::map<uint64_t, std::unique_ptr<Link>> links_;  // the thread's, as is what follows
  uint64_t last_number_ = 0;
  struct Ending {
    std::chrono::steady_clock::time_point at;
    uint64_t number;  // of a link, which may be gone
  };
  std::deque<Ending> ending_;  // the first ends first
  std::vector<char> buffer_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace quire
