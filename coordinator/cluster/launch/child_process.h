#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace quire {

/// First executable file of that name in PATH.
std::optional<std::string> FindInPath(const std::string& name);

/// In a child after fork: becomes the program, in a process group of its own, with an empty standard input, both output
/// streams on `output`, no signals blocked and nothing else of ours open. Returns errno when that fails.
int BecomeProgram(const std::vector<std::string>& command, int output);

/// A child process in a process group of its own. What it says, on either stream, goes to our standard error, line by
/// line. Ended and reaped by its destructor.
class ChildProcess {
 public:
  /// Throws Error when the program cannot be started. The child's standard input is empty. `on_line` hears every line
  /// on a thread of its own.
  explicit ChildProcess(
      const std::vector<std::string>& command,
      std::function<void(const std::string&)> on_line = [](const std::string&) {});
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  /// "exited with status 1" or "was killed by signal 9" once it ended; nothing while it runs.
  std::optional<std::string> Ended();
  /// Waits for the end up to the given time; true when it has ended.
  bool WaitFor(int millis);
  /// SIGTERM, and SIGKILL to the whole group when that does not end it within half a second.
  void Stop();

 private:
  void ForwardLines();

  pid_t pid_ = -1;
  int output_ = -1;  // the end of the child's streams that we read
  int wake_ = -1;    // an eventfd: readable when nobody waits for more lines
  std::optional<std::string> ended_;
  std::function<void(const std::string&)> on_line_;
  std::thread reader_;
};

}  // namespace quire
