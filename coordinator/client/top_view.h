#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/base/json.h"

namespace quire {

/// A reading of a server for `quire top`: the answers of /admin/status and /admin/requests.
struct TopReading {
  Json status, requests;
  double seconds = 0;  // time of the reading on a steady clock
};

/// Returns at most `height` lines of at most `width` columns: the server, its throughput since the reading `before`
/// (null: unknown), the blocks and ranks of each replica, and the requests, running ones first. Text from clients has
/// no control characters. Throws Error when the readings do not come from a Quire server.
std::vector<std::string> TopView(const TopReading& now, const TopReading* before, size_t width, size_t height);

}  // namespace quire
