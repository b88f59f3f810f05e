#include "coordinator/log/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

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

/// Formats %*: the thread's name, if it has one, and the message.
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
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<Message>('*').set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %*");
  spdlog::set_formatter(std::move(formatter));
  SetLogLevel(level);
}

LogName::LogName(std::string name) : before_(std::exchange(NameOfThread(), std::move(name))) {}
LogName::~LogName() { NameOfThread() = std::move(before_); }
const std::string& LogName::Current() { return NameOfThread(); }

void SetLogLevel(LogLevel level) { spdlog::set_level(SpdlogLevel(level)); }

LogLevel CurrentLogLevel() {
  static constexpr auto kLevels = ChoicesOf(LogLevel{});
  const auto current =
      std::ranges::find(kLevels, spdlog::get_level(), [](const auto& c) { return SpdlogLevel(c.value); });
  QUIRE_CHECK(current != kLevels.end(), "spdlog has a level that was not set here");
  return current->value;
}

}  // namespace quire
