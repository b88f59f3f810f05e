#include "comm/base/log_line.h"

#include <fmt/format.h>

#include <ctime>

namespace quire {

namespace {

std::string Dump(const nlohmann::ordered_json& line) {
  return line.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

std::string Timestamp(std::chrono::system_clock::time_point time) {
  const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const std::time_t seconds = static_cast<std::time_t>(millis / 1000);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  (void)std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:03}Z", text, millis % 1000);
}

std::string JsonLogLine(std::chrono::system_clock::time_point time, LogLevel level, std::string_view message,
                        const LogFields& fields) {
  nlohmann::ordered_json line = {{"time", Timestamp(time)}, {"level", NameOf(level)}, {"message", message}};
  for (const auto& [name, value] : fields) line[name] = value;
  return Dump(line);
}

std::optional<std::string> AsJsonLogLine(std::string_view line) {
  if (!line.starts_with('{')) return std::nullopt;
  const auto parsed = nlohmann::ordered_json::parse(line, nullptr, false);
  if (!parsed.is_object()) return std::nullopt;
  return Dump(parsed);
}

}  // namespace quire
