#pragma once

#include <chrono>
#include <string>

#include "coordinator/api/http/request_record.h"

namespace quire {

/// One line of the access log. `port` is "data" or "admin". As JSON an object; as text the fields that are known, by
/// name, with what a client chose (path, request id) in quotes. Times are seconds.
std::string AccessLine(const RequestRecord& record, const char* port, bool json,
                       std::chrono::system_clock::time_point now);

/// 2026-11-22T16:00:00.123Z
std::string Timestamp(std::chrono::system_clock::time_point now);

}  // namespace quire
