#include "coordinator/cluster/launch/child_process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "comm/base/error.h"
#include "coordinator/log/log.h"

namespace quire {

namespace {

constexpr size_t kLongestLine = 4096;  // longer lines are forwarded in pieces

[[noreturn]] void RunChild(const std::vector<std::string>& command, int output, int error_pipe) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  const int error = BecomeProgram(command, output);
  (void)!::write(error_pipe, &error, sizeof(error));
  ::_exit(127);
}

}  // namespace

int BecomeProgram(const std::vector<std::string>& command, int output) {
  ::setpgid(0, 0);
  const int null = ::open("/dev/null", O_RDONLY);
  if (null >= 0) ::dup2(null, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);  // this program's standard output is only for answers to the user
  ::dup2(output, STDERR_FILENO);
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // the child must not inherit this process's listening sockets
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  std::vector<char*> argv;
  for (const std::string& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  return errno;
}

std::filesystem::path OwnFolder() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

std::optional<std::string> FindInPath(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string rest = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    const std::string candidate = rest.substr(0, colon) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
  }
  return std::nullopt;
}

ChildProcess::ChildProcess(const std::vector<std::string>& command, std::function<void(const std::string&)> on_line)
    : on_line_(std::move(on_line)) {
  if (command[0].find('/') == std::string::npos && !FindInPath(command[0])) {
    Fail("{} is not installed (not found in PATH); on Debian and Ubuntu: apt-get install openmpi-bin", command[0]);
  }
  int error_pipe[2] = {-1, -1}, output[2] = {-1, -1};
  if (::pipe2(error_pipe, O_CLOEXEC) != 0 || ::pipe2(output, O_CLOEXEC) != 0)
    Fail("cannot start {}: {}", command[0], std::strerror(errno));
  pid_ = ::fork();
  if (pid_ == 0) RunChild(command, output[1], error_pipe[1]);
  ::close(error_pipe[1]);
  ::close(output[1]);
  int error = 0;
  const bool failed = pid_ < 0 || ::read(error_pipe[0], &error, sizeof(error)) == sizeof(error);
  ::close(error_pipe[0]);
  output_ = output[0];
  if (failed) {
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
    ::close(output_);
    Fail("cannot start {}: {}", command[0], std::strerror(pid_ < 0 ? errno : error));
  }
  wake_ = ::eventfd(0, EFD_CLOEXEC);
  reader_ = std::thread([this, name = LogName::Current()] {
    const LogName named(name);
    ForwardLines();
  });
}

ChildProcess::~ChildProcess() {
  Stop();
  const uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof(one));
  reader_.join();
  ::close(wake_);
  ::close(output_);
}

/// Forwards the child's output until no process has the other end of the pipe open, or the destructor asks to stop.
void ChildProcess::ForwardLines() {
  std::string line;
  const auto tell = [&] {
    const std::string told = LineOfProgram(line) + '\n';
    (void)!::write(STDERR_FILENO, told.data(), told.size());
    on_line_(line);
    line.clear();
  };
  for (;;) {
    pollfd ready[] = {{output_, POLLIN, 0}, {wake_, POLLIN, 0}};
    if (::poll(ready, 2, -1) < 0 && errno != EINTR) break;
    char bytes[4096];
    const ssize_t count = (ready[0].revents & (POLLIN | POLLHUP)) != 0 ? ::read(output_, bytes, sizeof(bytes)) : -1;
    if (count == 0 || (count < 0 && (ready[1].revents & POLLIN) != 0)) break;
    for (ssize_t i = 0; i < count; ++i) {
      if (bytes[i] == '\n' || line.size() == kLongestLine) tell();
      if (bytes[i] != '\n') line += bytes[i];
    }
  }
  if (!line.empty()) tell();
}

std::optional<std::string> ChildProcess::Ended() {
  int status = 0;
  if (!ended_ && ::waitpid(pid_, &status, WNOHANG) == pid_) {
    ended_ = WIFSIGNALED(status) ? fmt::format("was killed by signal {}", WTERMSIG(status))
                                 : fmt::format("exited with status {}", WEXITSTATUS(status));
  }
  return ended_;
}

bool ChildProcess::WaitFor(int millis) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(millis);
  while (!Ended() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return ended_.has_value();
}

void ChildProcess::Stop() {
  if (Ended()) return;
  ::kill(pid_, SIGTERM);
  if (WaitFor(500)) return;
  ::kill(-pid_, SIGKILL);
  WaitFor(5000);
}

}  // namespace quire
