#include "coordinator/api/access/access_log.h"

#include <fmt/format.h>

#include <cmath>

#include "comm/base/json.h"
#include "comm/base/log_line.h"

namespace quire {

namespace {

constexpr size_t kLongestPath = 256;

/// Rounds to whole microseconds.
double Rounded(double seconds) { return std::round(seconds * 1e6) / 1e6; }

Json SecondsOrNull(const std::optional<double>& seconds) { return seconds ? Json(Rounded(*seconds)) : Json(); }

std::string JsonLine(const RequestRecord& record, const char* port, const std::string& time) {
  const nlohmann::ordered_json line = {{"time", time},
                                       {"port", port},
                                       {"client", record.client},
                                       {"request_id", record.id},
                                       {"peer", record.peer},
                                       {"method", record.method},
                                       {"path", record.path.substr(0, kLongestPath)},
                                       {"status", record.status},
                                       {"prompt_tokens", record.prompt_tokens},
                                       {"completion_tokens", record.completion_tokens},
                                       {"queue_seconds", SecondsOrNull(record.queue_seconds)},
                                       {"first_token_seconds", SecondsOrNull(record.first_token_seconds)},
                                       {"total_seconds", Rounded(record.seconds)},
                                       {"bytes", record.bytes}};
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string TextLine(const RequestRecord& record, const char* port, const std::string& time) {
  const auto or_dash = [](const std::string& text) { return text.empty() ? std::string("-") : text; };
  std::string line =
      fmt::format("{} {} client={} peer={} {} {} status={}", time, port, or_dash(record.client), or_dash(record.peer),
                  or_dash(record.method), DumpJson(record.path.substr(0, kLongestPath)), record.status);
  if (record.prompt_tokens > 0)
    line += fmt::format(" prompt_tokens={} completion_tokens={}", record.prompt_tokens, record.completion_tokens);
  if (record.queue_seconds) line += fmt::format(" queue={:.6f}", *record.queue_seconds);
  if (record.first_token_seconds) line += fmt::format(" first_token={:.6f}", *record.first_token_seconds);
  line += fmt::format(" total={:.6f} bytes={} id={}", record.seconds, record.bytes, DumpJson(record.id));
  return line;
}

}  // namespace

std::string AccessLine(const RequestRecord& record, const char* port, bool json,
                       std::chrono::system_clock::time_point now) {
  return json ? JsonLine(record, port, Timestamp(now)) : TextLine(record, port, Timestamp(now));
}

}  // namespace quire
