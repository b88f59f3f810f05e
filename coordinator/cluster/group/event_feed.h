#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "coordinator/core/decision_log.h"
#include "coordinator/core/engine.h"

namespace quire {

/// What a server tells those who watch it.
enum class EventKind : uint8_t {
  kRequestQueued,
  kRequestStarted,
  kRequestEnded,  // finished, cancelled, aborted or out of time
  kRequestHeld,   // it cannot start yet, and why
  kPreempted,     // by seniority or by a client's share
  kResumed,       // after preemption
  kMigrated,      // left for another replica, or came from one
  kEpoch,         // workers begin anew
  kWorkersLost,
  kPaused,
  kResumedServing,
  kDraining,
  kWorkersReplaced,
  kSettingsChanged,
};
inline constexpr size_t kNumEventKinds = static_cast<size_t>(EventKind::kSettingsChanged) + 1;
const char* EventName(EventKind kind);

struct ServerEvent {
  EventKind kind{};
  int replica = -1;       // -1: of all
  RequestId request = 0;  // 0: of none
  std::string name;       // of that request, as its client knows it
  std::string text;       // for people
  uint64_t number = 0;    // from 1 on, without gaps; given by the feed, like the next
  std::chrono::system_clock::time_point when{};
};

/// The latest events, for any number of readers that each remember how far they have read. Who reads slowly loses what
/// is overwritten meanwhile, and holds nobody up. Kinds that come with every request have a rate that is not exceeded:
/// what comes faster is counted and left out. From any thread.
class EventFeed {
 public:
  static constexpr size_t kKept = 2048;
  static constexpr double kEventsPerSecond = 100, kBurst = 200;  // of one kind that comes with requests

  /// `make` returns the event, and is called only when the rate allows it.
  template <class Make>
  void Publish(EventKind kind, Make make) {
    if (MayPublish(kind)) Add(kind, make());
  }

  struct Batch {
    std::vector<ServerEvent> events;
    uint64_t lost = 0;  // before them: overwritten before they were read
    uint64_t left_out = 0;
  };
  /// The events after number `last`, oldest first, `most` at the most; and how many were ever left out.
  Batch After(uint64_t last, size_t most) const;
  /// What is still known of a request.
  std::vector<ServerEvent> OfRequest(const std::string& name) const;
  /// The number of the newest event.
  uint64_t newest() const;

 private:
  struct Allowance {
    double events = kBurst;
    std::chrono::steady_clock::time_point since{};
  };

  bool MayPublish(EventKind kind);
  void Add(EventKind kind, ServerEvent event);

  mutable std::mutex mutex_;
  std::deque<ServerEvent> events_;
  uint64_t newest_ = 0, left_out_ = 0;
  std::array<Allowance, kNumEventKinds> allowances_;
};

/// Tells the feed of what one replica's engine decides. On that engine's thread.
class EngineWatcher : public DecisionLog {
 public:
  EngineWatcher(EventFeed& feed, const Engine& engine, int replica) : feed_(feed), engine_(engine), replica_(replica) {}
  void OnDecision(const Decision& decision) override;

 private:
  EventFeed& feed_;
  const Engine& engine_;
  int replica_;
};

}  // namespace quire
