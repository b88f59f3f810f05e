#include "coordinator/log/line_log.h"

#include <spdlog/async.h>
#include <spdlog/async_logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "comm/base/error.h"

namespace quire {

namespace {

constexpr size_t kWaitingLines = 8192;

std::shared_ptr<spdlog::async_logger> Open(const std::string& file,
                                           const std::shared_ptr<spdlog::details::thread_pool>& writer) {
  spdlog::sink_ptr sink;
  try {
    if (file.empty())
      sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    else
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
  } catch (const spdlog::spdlog_ex& error) {
    Fail("cannot write the log {}: {}", file, error.what());
  }
  sink->set_pattern("%v");
  auto logger = std::make_shared<spdlog::async_logger>("lines", std::move(sink), writer,
                                                       spdlog::async_overflow_policy::overrun_oldest);
  logger->flush_on(spdlog::level::info);
  return logger;
}

}  // namespace

LineLog::LineLog(std::string file)
    : file_(std::move(file)),
      writer_(std::make_shared<spdlog::details::thread_pool>(kWaitingLines, 1)),
      logger_(Open(file_, writer_)) {}

LineLog::~LineLog() = default;

void LineLog::Write(std::string_view line) {
  logger_->log(spdlog::level::info, spdlog::string_view_t(line.data(), line.size()));
}

void LineLog::Reopen() {
  if (!file_.empty()) logger_ = Open(file_, writer_);
}

}  // namespace quire
