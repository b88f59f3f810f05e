#include "coordinator/log/line_log.h"

#include <fcntl.h>
#include <spdlog/async.h>
#include <spdlog/async_logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "comm/base/error.h"

namespace quire {

namespace {

constexpr size_t kWaitingLines = 8192;
constexpr auto kBetweenTries = std::chrono::milliseconds(50);

/// Writes lines to a file or to standard error. When a write fails, for example because the disk is full, later lines
/// wait, and the unwritten part of the line is tried again until it is written. Once is_over is true, a failed write is
/// not tried again: the line is lost, and may have been written in part.
class PatientFile : public spdlog::sinks::base_sink<std::mutex> {
 public:
  PatientFile(const std::string& file, std::shared_ptr<const std::atomic<bool>> is_over)
      : file_(file), is_over_(std::move(is_over)), descriptor_(Open(file)) {
    if (descriptor_ < 0) Fail("cannot write the log {}: {}", file, std::strerror(errno));
  }
  ~PatientFile() override {
    if (!file_.empty()) ::close(descriptor_);
  }

  bool IsSameFile(const PatientFile& other) const {
    struct stat here, there;
    return ::fstat(descriptor_, &here) == 0 && ::fstat(other.descriptor_, &there) == 0 && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino;
  }

 private:
  static int Open(const std::string& file) {
    if (file.empty()) return STDERR_FILENO;
    std::error_code ignored;  // an error shows when the file is opened
    std::filesystem::create_directories(std::filesystem::path(file).parent_path(), ignored);
    return ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);
  }

  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    for (size_t at = 0; at < line.size();) {
      const ssize_t written = ::write(descriptor_, line.data() + at, line.size() - at);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0 && !Wait(errno)) return;
      if (written > 0) at += static_cast<size_t>(written);
    }
    if (waits_) spdlog::info("the log {} takes lines again", Name());
    waits_ = false;
  }
  void flush_() override {}

  /// Pauses before another try to write. `error`: the errno of the failed try. Returns false when no more tries are
  /// made; the line is then lost.
  bool Wait(int error) {
    if (!waits_ && !file_.empty()) spdlog::error("the log {}: {}; its lines wait", Name(), std::strerror(error));
    waits_ = true;
    if (is_over_->load()) {
      if (!gave_up_ && !file_.empty()) spdlog::error("the log {}: lines that waited are lost", Name());
      gave_up_ = true;
      return false;
    }
    std::this_thread::sleep_for(kBetweenTries);
    return true;
  }
  std::string Name() const { return file_.empty() ? "on standard error" : file_; }

  const std::string file_;                                  // empty: standard error
  const std::shared_ptr<const std::atomic<bool>> is_over_;  // true: stop retrying lines
  const int descriptor_;
  bool waits_ = false, gave_up_ = false;
};

std::shared_ptr<spdlog::async_logger> Open(const std::string& file,
                                           const std::shared_ptr<spdlog::details::thread_pool>& writer,
                                           const std::shared_ptr<const std::atomic<bool>>& is_over) {
  auto sink = std::make_shared<PatientFile>(file, is_over);
  sink->set_pattern("%v");
  return std::make_shared<spdlog::async_logger>("lines", std::move(sink), writer,
                                                spdlog::async_overflow_policy::overrun_oldest);
}

const PatientFile& FileOf(const spdlog::async_logger& logger) {
  return static_cast<const PatientFile&>(*logger.sinks().front());
}

}  // namespace

LineLog::LineLog(std::string file)
    : file_(std::move(file)),
      writer_(std::make_shared<spdlog::details::thread_pool>(kWaitingLines, 1)),
      logger_(Open(file_, writer_, is_over_)) {}

/// Writes the waiting lines, without further tries when the disk fails.
LineLog::~LineLog() { is_over_->store(true); }

void LineLog::Write(std::string_view line) {
  logger_->log(spdlog::level::info, spdlog::string_view_t(line.data(), line.size()));
}

void LineLog::Reopen() {
  if (file_.empty()) return;
  auto is_over = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<spdlog::async_logger> logger = Open(file_, writer_, is_over);
  // If the path still leads to the same file, the waiting lines stay, because one of them may be partly written.
  if (FileOf(*logger).IsSameFile(FileOf(*logger_))) return;
  is_over_->store(true);
  is_over_ = std::move(is_over);
  logger_ = std::move(logger);
}

}  // namespace quire
