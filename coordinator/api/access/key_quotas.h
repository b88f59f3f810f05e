#pragma once

#include <atomic>
#include <chrono>
#include <climits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "comm/topology/topology.h"
#include "coordinator/api/access/pending_places.h"
#include "coordinator/api/http/http_types.h"
#include "coordinator/core/request.h"

namespace quire {

/// What single API keys may have pending and may use up (server.key_limits): choices that wait or run, and tokens a
/// minute, prompts and answers counted alike, and bodies that are read for nothing. What may run at a time, and the
/// blocks, are the scheduler's to keep; see EngineLimits. On the I/O thread.
class KeyQuotas {
 public:
  using Clock = std::chrono::steady_clock;

  /// limits: by key name; "default" is for all others. max_running: sequences of all replicas.
  KeyQuotas(std::map<std::string, Topology::KeyLimits> limits, int max_running)
      : limits_(std::move(limits)), max_running_(max_running) {}

  /// Other limits from now on.
  void SetLimits(std::map<std::string, Topology::KeyLimits> limits) { limits_ = std::move(limits); }

  /// The answer 429 when the client has too much pending for `choices` more, or has used up its tokens; 400 when so
  /// many are too many even by themselves. It names the limit, and a 429 says when to try again.
  std::optional<HttpResponse> Refuse(const std::string& client, int choices, Clock::time_point now = Clock::now());
  /// What it counts of a client's tokens that a body is read and nothing is generated: about as many as its text has.
  static int64_t TokensOfBody(size_t bytes) { return 1 + static_cast<int64_t>(bytes) / 4; }
  /// What the scheduler is to keep for this client's requests.
  ClientLimits EngineLimits(const std::string& client) const;
  /// Where tokens that the client takes are counted, from any thread; null where nobody asks.
  std::shared_ptr<std::atomic<int64_t>> Meter(const std::string& client);
  /// Clients of whom something is pending; nothing is kept of the others.
  size_t num_pending_clients() const { return pending_.num_clients(); }

  /// Choices of a call that is pending, for as long as this lives.
  class Place {
   public:
    Place(KeyQuotas& quotas, const std::string& client, int choices) : taken_(quotas.pending_, client) {
      taken_.Resize(choices);
    }

   private:
    PendingPlaces::Taken taken_;
  };

 private:
  /// A bucket that holds what may be used up in a minute and fills at that rate. A call that is under way may take it
  /// below 0; the next one waits until it is above.
  struct Bucket {
    double tokens;
    Clock::time_point filled;
    std::shared_ptr<std::atomic<int64_t>> taken;  // and not subtracted yet
  };
  const Topology::KeyLimits& LimitsOf(const std::string& client) const;
  Bucket& BucketOf(const std::string& client, Clock::time_point now);

  std::map<std::string, Topology::KeyLimits> limits_;
  int max_running_;
  PendingPlaces pending_{INT_MAX};         // only counted here: each client has a limit of its own
  std::map<std::string, Bucket> buckets_;  // by client; limits need keys, so there are no more than those
};

}  // namespace quire
