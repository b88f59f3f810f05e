#include "coordinator/cluster/hosts/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coordinator/cluster/launch/child_process.h"

namespace quire {

namespace {

constexpr size_t kMaxOutput = 64 << 10;

}  // namespace

ProgramResult RunProgram(const std::vector<std::string>& command, std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  ProgramResult result;
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return result;
  const pid_t pid = ::fork();
  if (pid == 0) {
    BecomeProgram(command, pipe[1]);
    ::_exit(127);
  }
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
  // A program that has closed its output may still run until the deadline.
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
