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

/// Writes lines to a file or to standard error on a thread of its own. A slow disk may cost lines, but never delays the
/// caller. Use it from one thread.
class LineLog {
 public:
  /// Appends to `file`; empty: standard error. A new file can be read by its user only. Throws Error when the file
  /// cannot be opened.
  explicit LineLog(std::string file);
  ~LineLog();

  /// Queues a line. While the file cannot be written, up to 8,192 lines wait; then the oldest waiting line is lost.
  void Write(std::string_view line);
  /// Opens a new file when the old file was moved away. Waiting lines are lost if writing them to the old file fails
  /// once more. On failure throws Error and continues with the old file.
  void Reopen();

 private:
  std::string file_;
  // The flag is true once the open file is given up.
  std::shared_ptr<std::atomic<bool>> is_over_ = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<spdlog::details::thread_pool> writer_;
  std::shared_ptr<spdlog::async_logger> logger_;
};

}  // namespace quire
