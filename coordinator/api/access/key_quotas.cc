#include "coordinator/api/access/key_quotas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace quire {

namespace {

HttpResponse TryLater(const std::string& message, int64_t seconds) {
  HttpResponse response = ErrorResponse(429, message);
  response.headers.emplace_back("Retry-After", std::to_string(seconds));
  return response;
}

}  // namespace

const Topology::KeyLimits& KeyQuotas::LimitsOf(const std::string& client) const {
  static const Topology::KeyLimits kNone;
  for (const std::string& name : {client, std::string("default")}) {
    if (const auto it = limits_.find(name); it != limits_.end()) return it->second;
  }
  return kNone;
}

ClientLimits KeyQuotas::EngineLimits(const std::string& client) const {
  const Topology::KeyLimits& limits = LimitsOf(client);
  return {limits.max_running_seqs, limits.max_blocks};
}

KeyQuotas::Bucket& KeyQuotas::BucketOf(const std::string& client, Clock::time_point now) {
  const double rate = static_cast<double>(LimitsOf(client).tokens_per_minute);
  const auto [it, is_new] = buckets_.try_emplace(client, Bucket{rate, now, nullptr});
  Bucket& bucket = it->second;
  if (is_new) bucket.taken = std::make_shared<std::atomic<int64_t>>(0);
  const std::chrono::duration<double> since = now - bucket.filled;
  bucket.tokens = std::min(
      rate, bucket.tokens - static_cast<double>(bucket.taken->exchange(0)) + rate * std::max(0.0, since.count()) / 60);
  bucket.filled = now;
  return bucket;
}

std::shared_ptr<std::atomic<int64_t>> KeyQuotas::Meter(const std::string& client) {
  return LimitsOf(client).tokens_per_minute > 0 ? BucketOf(client, Clock::now()).taken : nullptr;
}

std::optional<HttpResponse> KeyQuotas::Refuse(const std::string& client, int choices, Clock::time_point now) {
  const Topology::KeyLimits& limits = LimitsOf(client);
  if (limits.max_queued_reqs >= 0) {
    const int running = limits.max_running_seqs > 0 ? limits.max_running_seqs : max_running_;
    const int64_t most = int64_t{limits.max_queued_reqs} + running;
    if (choices > most)
      return ErrorResponse(400, fmt::format("{} choices are more than max_queued_reqs of this API key, {}, beside {} "
                                            "that may run",
                                            choices, limits.max_queued_reqs, running));
    const int64_t pending = int64_t{pending_.taken_by(client)} + choices;
    if (pending > most)
      return TryLater(fmt::format("max_queued_reqs of this API key, {} beside {} that may run, would be exceeded by {} "
                                  "pending choices; try again later",
                                  limits.max_queued_reqs, running, pending),
                      1);
  }
  if (limits.tokens_per_minute == 0) return std::nullopt;
  const Bucket& bucket = BucketOf(client, now);
  if (bucket.tokens > 0) return std::nullopt;
  const double per_second = static_cast<double>(limits.tokens_per_minute) / 60;
  const auto seconds = static_cast<int64_t>(std::floor(-bucket.tokens / per_second)) + 1;
  return TryLater(fmt::format("tokens_per_minute of this API key, {}, are used up; try again in {} s",
                              limits.tokens_per_minute, seconds),
                  seconds);
}

}  // namespace quire
