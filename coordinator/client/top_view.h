#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/base/json.h"

namespace quire {

/// A server as `quire top` shows it: what /admin/status and /admin/requests said.
struct TopReading {
  Json status, requests;
  double seconds = 0;  // when, of any steady clock
};

/// Lines of at most `width` columns, at most `height` of them: the server, its throughput since the reading before
/// (null: none yet), the blocks and ranks of each replica, and the requests, those that run first. What strangers wrote
/// is free of control characters. Throws Error where the readings are not what a server of Quire says.
std::vector<std::string> TopView(const TopReading& now, const TopReading* before, size_t width, size_t height);

}  // namespace quire
