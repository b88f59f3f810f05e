#include "coordinator/metrics/history.h"

#include <algorithm>
#include <utility>

#include "comm/base/json.h"

namespace quire {

namespace {

constexpr const char* kColumns[] = {"time",
                                    "running",
                                    "waiting",
                                    "blocks",
                                    "used_blocks",
                                    "cached_blocks",
                                    "resident_bytes",
                                    "host_used_bytes",
                                    "host_bytes",
                                    "tokens_per_second",
                                    "refused",
                                    "failed",
                                    "cores",
                                    "host_busy",
                                    "first_token_p50",
                                    "first_token_p95",
                                    "first_token_p99",
                                    "inter_token_p50",
                                    "inter_token_p95",
                                    "inter_token_p99"};

double Grown(double before, double now) { return std::max(0.0, now - before); }

uint64_t NewIn(const std::vector<CountedBucket>& before, const std::vector<CountedBucket>& now, size_t bucket) {
  const uint64_t old = bucket < before.size() ? before[bucket].at_most : 0;
  return now[bucket].at_most - std::min(old, now[bucket].at_most);
}

/// Computes the columns from tokens_per_second on, which compare two readings. nullopt: the column has no value.
std::vector<std::optional<double>> Derive(const HistoryReading& before, const HistoryReading& now) {
  const double seconds = std::max(1e-3, now.time - before.time);
  const double host = Grown(before.host_seconds, now.host_seconds);
  std::vector<std::optional<double>> derived = {
      Grown(static_cast<double>(before.generated_tokens), static_cast<double>(now.generated_tokens)) / seconds,
      Grown(static_cast<double>(before.refused), static_cast<double>(now.refused)),
      Grown(static_cast<double>(before.failed), static_cast<double>(now.failed)),
      Grown(before.cores_seconds, now.cores_seconds) / seconds,
      host > 0 ? std::optional(std::min(1.0, Grown(before.host_busy_seconds, now.host_busy_seconds) / host))
               : std::nullopt};
  for (const double share : {0.5, 0.95, 0.99})
    derived.push_back(QuantileBetween(before.first_token, now.first_token, share));
  for (const double share : {0.5, 0.95, 0.99})
    derived.push_back(QuantileBetween(before.inter_token, now.inter_token, share));
  return derived;
}

}  // namespace

std::optional<double> QuantileBetween(const std::vector<CountedBucket>& before, const std::vector<CountedBucket>& now,
                                      double share) {
  if (now.empty()) return std::nullopt;
  const uint64_t all = NewIn(before, now, now.size() - 1);
  if (all == 0) return std::nullopt;
  const double wanted = share * static_cast<double>(all);
  double low = 0, below = 0;
  for (size_t i = 0; i < now.size(); ++i) {
    const auto at_most = static_cast<double>(NewIn(before, now, i));
    if (at_most >= wanted && at_most > below) {
      const bool last = i + 1 == now.size();  // the last bucket has no upper bound
      return last ? low : low + (now[i].bound - low) * (wanted - below) / (at_most - below);
    }
    low = now[i].bound;
    below = at_most;
  }
  return low;
}

void History::Add(HistoryReading now) {
  if (last_) {
    Row row{now, Derive(*last_, now)};
    row.now.first_token.clear();
    row.now.inter_token.clear();
    rows_.push_back(std::move(row));
    if (rows_.size() > kRows) rows_.pop_front();
  }
  last_ = std::move(now);
}

Json History::Report(double since) const {
  Json rows = Json::array();
  for (const Row& row : rows_) {
    const HistoryReading& r = row.now;
    if (r.time <= since) continue;
    Json cells = {r.time,          r.running,        r.waiting,         r.blocks,    r.used_blocks,
                  r.cached_blocks, r.resident_bytes, r.host_used_bytes, r.host_bytes};
    for (const std::optional<double>& value : row.derived) cells.push_back(value ? Json(*value) : Json(nullptr));
    rows.push_back(std::move(cells));
  }
  return {{"period_seconds", kPeriod.count()}, {"columns", kColumns}, {"rows", std::move(rows)}};
}

}  // namespace quire
