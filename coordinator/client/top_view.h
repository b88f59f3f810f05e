#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/base/json.h"

namespace quire {

/// A reading of a server for `quire top`: the answers of /admin/status, /admin/requests and /admin/batches.
struct TopReading {
  Json status, requests;
  Json batches = {};   // null when the server has no batch directory
  double seconds = 0;  // time of the reading on a steady clock
};

/// The order of the listed requests. kState: running requests first. kClient: sorted by the client's name. The other
/// orders list the largest value first.
enum class TopOrder { kState, kAge, kPrompt, kOutput, kBlocks, kClient };

/// The part of the view that fits the terminal.
struct TopWindow {
  size_t width = 0, height = 0;  // columns and lines
  TopOrder order = TopOrder::kState;
  size_t first_request = 0;  // index of the first request that is shown
};

/// Returns at most `window.height` lines of at most `window.width` columns: the server, its throughput since the
/// reading `before` (null: unknown), the blocks and ranks of each replica, the models, the batches that are not over,
/// and the requests. Escapes control characters in clients' texts. Throws Error when the readings do not come from a
/// Quire server.
std::vector<std::string> TopView(const TopReading& now, const TopReading* before, const TopWindow& window);

}  // namespace quire
