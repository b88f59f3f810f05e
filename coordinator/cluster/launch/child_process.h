#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace quire {

/// Returns the folder in which this program's file is; empty when the system cannot tell it.
std::filesystem::path OwnFolder();

/// Returns the first executable file with this name in the folders of PATH; nullopt when there is none.
std::optional<std::string> FindInPath(const std::string& name);

/// Call it in a child after fork. Executes the program in its own process group, with empty standard input, both output
/// streams on `output`, no blocked signals and no other open descriptors. Returns errno if that fails.
int BecomeProgram(const std::vector<std::string>& command, int output);

/// A child process in its own process group. Its output on both streams is copied to our standard error line by line,
/// in the form of our log (LineOfProgram). The destructor ends and reaps the child.
class ChildProcess {
 public:
  /// Starts the program. Throws Error when it cannot be started. The child's standard input is empty. `on_line` gets
  /// every line of output on a separate thread.
  explicit ChildProcess(
      const std::vector<std::string>& command,
      std::function<void(const std::string&)> on_line = [](const std::string&) {});
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  /// Returns how the child has ended, such as "exited with status 1" or "was killed by signal 9"; nullopt while it
  /// runs.
  std::optional<std::string> Ended();
  /// Waits up to `millis` milliseconds. Returns true when the child has ended.
  bool WaitFor(int millis);
  /// Sends SIGTERM. If the child does not end within half a second, sends SIGKILL to its process group.
  void Stop();

 private:
  void ForwardLines();

  pid_t pid_ = -1;
  int output_ = -1;  // the read end of the pipe for the child's output
  int wake_ = -1;    // an eventfd: readable when the reader should stop
  std::optional<std::string> ended_;
  std::function<void(const std::string&)> on_line_;
  std::thread reader_;
};

}  // namespace quire
