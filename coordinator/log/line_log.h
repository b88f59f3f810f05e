#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

namespace spdlog {
class async_logger;
namespace details {
class thread_pool;
}
}  // namespace spdlog

namespace quire {

/// Lines on their way to a file or to standard error, written by a thread of their own: a slow disk costs lines, never
/// the time of who writes them. Belongs to one thread.
class LineLog {
 public:
  /// Appends to the file, which is made for its user alone (the process's umask); empty: standard error. Throws Error
  /// when the file cannot be written.
  explicit LineLog(std::string file);
  ~LineLog();

  /// A line waits for as long as its file cannot be written, with at most 8,192 others; then the oldest one is lost.
  void Write(std::string_view line);
  /// Goes on in a new file when the old one was moved away; lines that the old one does not take now are lost. Throws
  /// Error, and then goes on in the old one.
  void Reopen();

 private:
  std::string file_;
  std::shared_ptr<std::atomic<bool>> is_over_ = std::make_shared<std::atomic<bool>>(false);  // of the file now open
  std::shared_ptr<spdlog::details::thread_pool> writer_;
  std::shared_ptr<spdlog::async_logger> logger_;
};

}  // namespace quire
