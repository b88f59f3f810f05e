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
#include "coordinator/core/request.h"
#include "coordinator/http/http_types.h"

namespace quire {

/// Enforces the limits of single API keys (server.key_limits): the choices that wait or run, and the tokens per minute.
/// Prompt tokens and answer tokens count alike. A request that generates nothing is charged for the tokens of its body.
/// The scheduler enforces the limits of running sequences and blocks (EngineLimits). Only the I/O thread uses this
/// class.
class KeyQuotas {
 public:
  using Clock = std::chrono::steady_clock;

  /// `limits` has the limits of API keys by key name; the entry "default" is for all other keys. `max_running` is the
  /// number of sequences that all replicas may run.
  KeyQuotas(std::map<std::string, Topology::KeyLimits> limits, int max_running)
      : limits_(std::move(limits)), max_running_(max_running) {}

  /// Replaces the limits, also for clients with pending choices.
  void SetLimits(std::map<std::string, Topology::KeyLimits> limits) { limits_ = std::move(limits); }

  /// Returns 429 when the client has too many pending choices for `choices` more, or has used up its tokens. Returns
  /// 400 when `choices` alone exceeds the limit. The answer names the limit; a 429 has Retry-After. nullopt: the call
  /// may begin.
  std::optional<HttpResponse> Refuse(const std::string& client, int choices, Clock::time_point now = Clock::now());
  /// Returns the number of tokens that are charged for a request that generates nothing: about as many tokens as its
  /// body of `bytes` bytes has.
  static int64_t TokensOfBody(size_t bytes) { return 1 + static_cast<int64_t>(bytes) / 4; }
  /// Returns the limits that the scheduler must enforce for this client's requests.
  ClientLimits EngineLimits(const std::string& client) const;
  /// Returns the counter to which threads add the tokens that the client has used; null when the client has no limit of
  /// tokens. Call this on the I/O thread; any thread may add to the counter.
  std::shared_ptr<std::atomic<int64_t>> Meter(const std::string& client);
  /// Returns the number of clients with pending choices; other clients take no memory in this object.
  size_t num_pending_clients() const { return pending_.num_clients(); }

  /// While an object of this class lives, it counts the choices of one pending call.
  class Place {
   public:
    Place(KeyQuotas& quotas, const std::string& client, int choices) : taken_(quotas.pending_, client) {
      taken_.Resize(choices);
    }

   private:
    PendingPlaces::Taken taken_;
  };

 private:
  /// A token bucket. The bucket holds tokens_per_minute and refills at that rate. A running call may take the bucket
  /// below 0; further calls are then refused until the bucket is above 0.
  struct Bucket {
    double tokens;
    Clock::time_point filled;
    std::shared_ptr<std::atomic<int64_t>> taken;  // tokens not subtracted yet
  };
  const Topology::KeyLimits& LimitsOf(const std::string& client) const;
  Bucket& BucketOf(const std::string& client, Clock::time_point now);

  std::map<std::string, Topology::KeyLimits> limits_;
  int max_running_;
  PendingPlaces pending_{INT_MAX};         // counts only; KeyQuotas checks the limit of each client
  std::map<std::string, Bucket> buckets_;  // client -> bucket; bounded by the number of keys, because limits need keys
};

}  // namespace quire
