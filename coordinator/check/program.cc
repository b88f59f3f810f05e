#include "coordinator/check/program.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace quire {

namespace {

constexpr size_t kMaxOutput = 64 << 10;

[[noreturn]] void Become(const std::vector<std::string>& command, int output) {
  ::setpgid(0, 0);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  const int null = ::open("/dev/null", O_RDONLY);
  if (null >= 0) ::dup2(null, STDIN_FILENO);
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

}  // namespace

ProgramResult RunProgram(const std::vector<std::string>& command, std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  ProgramResult result;
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return result;
  const pid_t pid = ::fork();
  if (pid == 0) Become(command, pipe[1]);
  ::close(pipe[1]);
  const auto deadline = Clock::now() + limit;
  for (bool open = pid > 0; open;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd waiting{pipe[0], POLLIN, 0};
    if (left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count())) == 0) {
      result.timed_out = true;
      break;
    }
    char bytes[4096];
    const ssize_t count = ::read(pipe[0], bytes, sizeof(bytes));
    open = count > 0;
    if (open && result.output.size() < kMaxOutput) result.output.append(bytes, static_cast<size_t>(count));
  }
  ::close(pipe[0]);
  if (pid <= 0) return result;
  // Whoever closed its output without an end has a moment more.
  int status = 0;
  pid_t ended = 0;
  while (!result.timed_out && (ended = ::waitpid(pid, &status, WNOHANG)) == 0) {
    if (Clock::now() > deadline) result.timed_out = true;
    ::usleep(2000);
  }
  if (ended == 0) {
    ::kill(-pid, SIGKILL);
    ::waitpid(pid, &status, 0);
  }
  if (!result.timed_out && WIFEXITED(status)) result.status = WEXITSTATUS(status);
  return result;
}

}  // namespace quire
