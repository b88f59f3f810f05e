#include "coordinator/log/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "comm/base/log_line.h"

namespace quire {

namespace {

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

std::string& NameOfThread() {
  thread_local std::string name;
  return name;
}

/// Returns the fields of this thread's LogField objects, the oldest first.
LogFields& FieldsOfThread() {
  thread_local LogFields fields;
  return fields;
}

LogFields FieldsNow() {
  LogFields fields;
  if (!NameOfThread().empty()) fields.emplace_back("part", NameOfThread());
  fields.insert(fields.end(), FieldsOfThread().begin(), FieldsOfThread().end());
  return fields;
}

std::atomic<LogFormat>& FormatOfProcess() {
  static std::atomic<LogFormat> format{LogFormat::kText};
  return format;
}

LogLevel LevelOf(spdlog::level::level_enum level) {
  static constexpr auto kLevels = ChoicesOf(LogLevel{});
  const auto found = std::ranges::find_if(kLevels, [&](const auto& c) { return SpdlogLevel(c.value) == level; });
  QUIRE_CHECK(found != kLevels.end(), "spdlog has a level that is not logged here");
  return found->value;
}

/// Formats a message as a JSON object on a line of its own.
class JsonLine : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const std::string_view text(message.payload.data(), message.payload.size());
    const std::string line = JsonLogLine(message.time, LevelOf(message.level), text, FieldsNow()) + '\n';
    out.append(line.data(), line.data() + line.size());
  }
  std::unique_ptr<formatter> clone() const override { return std::make_unique<JsonLine>(); }
};

/// Formats the pattern %*: the thread's name, if it has one, and the message.
class Message : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    std::string text = WithoutControls({message.payload.data(), message.payload.size()});
    if (!NameOfThread().empty()) text = NameOfThread() + ": " + text;
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<Message>(); }
};

}  // namespace

void SetUpLog(LogLevel level) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("quire"));
  SetLogFormat(LogFormat::kText);
  SetLogLevel(level);
}

void SetLogFormat(LogFormat format) {
  FormatOfProcess() = format;
  if (format == LogFormat::kJson) return spdlog::set_formatter(std::make_unique<JsonLine>());
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<Message>('*').set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %*");
  spdlog::set_formatter(std::move(formatter));
}

std::string LineOfProgram(const std::string& line) {
  if (FormatOfProcess() == LogFormat::kText)
    return (NameOfThread().empty() ? "" : NameOfThread() + ": ") + WithoutControls(line);
  if (std::optional<std::string> own = AsJsonLogLine(line)) return *std::move(own);
  // Lines that are not JSON come from mpirun or from a worker that ends, and report problems.
  return JsonLogLine(std::chrono::system_clock::now(), LogLevel::kWarn, line, FieldsNow());
}

LogField::LogField(const char* name, std::string value) { FieldsOfThread().emplace_back(name, std::move(value)); }
LogField::LogField(const char* name, int64_t value) { FieldsOfThread().emplace_back(name, value); }
LogField::~LogField() { FieldsOfThread().pop_back(); }

LogName::LogName(std::string name) : before_(std::exchange(NameOfThread(), std::move(name))) {}
LogName::~LogName() { NameOfThread() = std::move(before_); }
const std::string& LogName::Current() { return NameOfThread(); }

void SetLogLevel(LogLevel level) { spdlog::set_level(SpdlogLevel(level)); }

LogLevel CurrentLogLevel() { return LevelOf(spdlog::get_level()); }

}  // namespace quire
