#pragma once

#include <chrono>
#include <string>

#include "coordinator/http/request_record.h"

namespace quire {

/// Returns one line of the access log. `port` is "data" or "admin". With `json` the line is an object. Otherwise the
/// line is text, with most fields as name=value. Measurements that are missing are left out, and texts that the client
/// chose (path, request id) are in quotes. Durations are in seconds.
std::string AccessLine(const RequestRecord& record, const char* port, bool json,
                       std::chrono::system_clock::time_point now);

}  // namespace quire
