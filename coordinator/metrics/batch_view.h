#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace quire {

/// A client's batch as an operator sees it. Times are seconds since 1970; 0: not yet.
struct BatchView {
  std::string id, client, endpoint, status;
  bool over = false;
  int64_t created_at = 0, expires_at = 0, ended_at = 0;
  int64_t total = 0, completed = 0, failed = 0;  // requests; total is 0 until the input file has been read
  int running = 0;                               // requests that are in the engine or on their way to it
  std::string why_waiting;                       // empty: the batch does not wait
};

/// Selects the batches that a list shows.
struct BatchFilter {
  std::string status, client;  // empty: batches of every status, or of every client
  size_t limit = 0;
};

/// Batches of all clients: first the batches that are not over, the oldest first, then the ended batches, the latest
/// first.
struct BatchViews {
  std::vector<BatchView> batches;  // at most BatchFilter::limit batches
  size_t matching = 0;             // batches that match the filter, listed or not
};

}  // namespace quire
