#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "coordinator/core/decision_log.h"
#include "coordinator/core/engine/engine.h"

namespace quire {

/// Kinds of events for observers of a server (/admin/events).
enum class EventKind : uint8_t {
  kRequestQueued,
  kRequestStarted,
  kRequestEnded,  // finished, cancelled, aborted or timed out
  kRequestHeld,   // the request cannot start yet; the text gives the reason
  kPreempted,     // the request lost its blocks to an earlier request, or to a client below its share
  kResumed,       // the request runs again after a preemption
  kMigrated,      // the request moved to another replica, or came from another one
  kPinsBroken,    // pinned prefixes were given up for a request that could not run beside them
  kEpoch,         // a new worker group starts
  kWorkersLost,
  kPaused,
  kResumedServing,
  kDraining,
  kWorkersReplaced,
  kSettingsChanged,
  kModelState,  // the model was loaded or unloaded, or could not be loaded; the text says which
};
inline constexpr size_t kNumEventKinds = static_cast<size_t>(EventKind::kModelState) + 1;
const char* EventName(EventKind kind);

struct ServerEvent {
  EventKind kind{};
  int replica = -1;       // -1: all replicas
  RequestId request = 0;  // 0: no request
  std::string name;       // the request's id as its client knows it
  std::string text;       // one sentence
  uint64_t number = 0;    // from 1 on, without gaps; the feed sets number and `when`
  std::chrono::system_clock::time_point when{};
};

/// Keeps the latest events for any number of readers, each of which remembers the number of its last event. A slow
/// reader misses overwritten events. Kinds that requests cause have a maximum rate. Callable from any thread.
class EventFeed {
 public:
  static constexpr size_t kKept = 2048;
  static constexpr double kEventsPerSecond = 100, kBurst = 200;  // limits for each kind of event that requests cause

  /// Adds an event. Calls `make`, which builds the event, only if the rate allows the event.
  template <class Make>
  void Publish(EventKind kind, Make make) {
    if (MayPublish(kind)) Add(kind, make());
  }

  struct Batch {
    std::vector<ServerEvent> events;
    uint64_t lost = 0;  // events overwritten before the reader read them
    uint64_t left_out = 0;  // events dropped by the rate limit since the start
  };
  /// Returns at most `most` events after number `last`, the oldest first, and the counts of lost and dropped events.
  Batch After(uint64_t last, size_t most) const;
  /// Returns the events of a request that are not overwritten yet.
  std::vector<ServerEvent> OfRequest(const std::string& name) const;
  /// Returns the number of the newest event.
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

/// Passes the decisions of one replica's engine to the feed. Used on that engine's thread.
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
