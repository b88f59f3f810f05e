#include "coordinator/grammars/grammar_trials.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "comm/base/error.h"
#include "coordinator/grammars/frame_socket.h"
#include "coordinator/http/api_error.h"
#include "coordinator/text/tokenizer/encode_bounds.h"

namespace quire {

namespace {

using Clock = std::chrono::steady_clock;

/// Returns the processor time that a process has used; 0 if the time cannot be read.
std::chrono::nanoseconds ProcessTime(pid_t pid) {
  clockid_t clock{};
  timespec now{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &now) != 0) return {};
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

/// Adds the processor time that a process takes during this object's life to a sum.
class ProcessMeter {
 public:
  ProcessMeter(pid_t pid, std::chrono::nanoseconds& sum) : pid_(pid), begin_(ProcessTime(pid)), sum_(sum) {}
  ~ProcessMeter() { sum_ += std::max(ProcessTime(pid_) - begin_, std::chrono::nanoseconds(0)); }
  ProcessMeter(const ProcessMeter&) = delete;
  ProcessMeter& operator=(const ProcessMeter&) = delete;

 private:
  pid_t pid_;
  std::chrono::nanoseconds begin_;
  std::chrono::nanoseconds& sum_;
};

/// Executes the compiler in the child process after fork, with `socket` as its standard input. Allocates no memory,
/// because another thread may have held the allocator's lock at the fork.
[[noreturn]] void BecomeCompiler(char* const* argv, int socket) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpgid(0, 0);  // signals from a terminal to the server must not reach it
  ::dup2(socket, STDIN_FILENO);
  ::close_range(3, ~0U, 0);  // before the open: the server may have used up all descriptors
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ::dup2(null, STDOUT_FILENO);
  ::dup2(null, STDERR_FILENO);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execv(argv[0], argv);
  ::_exit(127);
}

[[noreturn]] void NoTime() {
  throw ApiError(503, "the server has no time to compile the request's grammar; try again later");
}

}  // namespace

GrammarTrials::GrammarTrials(std::shared_ptr<const Vocabulary> vocabulary, std::vector<std::string> command,
                             Limits limits)
    : vocabulary_(std::move(vocabulary)), command_(std::move(command)), limits_(limits) {}

/// Throws ApiError 503. `error` tells why this machine could not start a process for a trial.
void GrammarTrials::NoProcess(int error) {
  if (!std::exchange(told_of_lack_, true))
    spdlog::error("no process can be started for grammars: {}; later refusals are not told of", std::strerror(error));
  NoTime();
}

/// Kills the compiler's process. Returns in words how the process ended; "" if there was none.
std::string GrammarTrials::End() {
  if (pid_ == 0) return "";
  ::kill(pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
  ::close(fd_);
  pid_ = 0;
  return WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                             : fmt::format("exit status {}", WEXITSTATUS(status));
}

void GrammarTrials::Start(const std::stop_token& stop) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) NoProcess(errno);
  std::vector<char*> argv;
  for (std::string& word : command_) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) BecomeCompiler(argv.data(), sockets[1]);
  const int error = errno;  // if fork failed: the reason
  ::close(sockets[1]);
  if (pid < 0) {
    ::close(sockets[0]);
    NoProcess(error);
  }
  pid_ = pid;
  fd_ = sockets[0];
  const ProcessMeter meter(pid, spent_);
  const FrameSocket socket(fd_);
  const auto deadline = Clock::now() + limits_.wall;
  bool ready = socket.Send(Encode(*vocabulary_, 0, 0));
  while (ready && !socket.Readable(std::chrono::milliseconds(10))) {
    if (stop.stop_requested()) throw Stopped();
    ready = Clock::now() < deadline;
  }
  if (ready && socket.Receive()) return;
  spdlog::error("the process that compiles grammars does not start: {}", End());
  NoTime();
}

/// Returns the error in the grammar; "" for a correct grammar; nullopt when the process ended during the trial. Throws
/// when the trial takes too long, or a stop was requested.
std::optional<std::string> GrammarTrials::Ask(const GrammarSource& source, const std::stop_token& stop) {
  const FrameSocket socket(fd_);
  const auto deadline = Clock::now() + limits_.wall;
  const auto most = ProcessTime(pid_) + limits_.processor;
  const ProcessMeter meter(pid_, spent_);
  bool gone = !socket.Send(Encode(GrammarMessage{++last_ticket_, source}, 0, 0));
  while (!gone && !socket.Readable(std::chrono::milliseconds(10))) {
    if (stop.stop_requested()) throw Stopped();
    if (Clock::now() > deadline) NoTime();
    if (ProcessTime(pid_) > most) {
      Fail("takes more than {} s to compile; make it smaller",
           std::chrono::duration<double>(limits_.processor).count());
    }
  }
  const auto frame = gone ? std::nullopt : socket.Receive();
  if (!frame) return std::nullopt;
  return std::get<GrammarReady>(Decode(*frame)).problem;
}

void GrammarTrials::EndIfIdle() {
  if (const std::unique_lock lock(in_use_, std::try_to_lock); lock.owns_lock()) End();
}

void GrammarTrials::Try(const GrammarSource& source, const std::stop_token& stop) {
  const std::lock_guard lock(in_use_);
  std::optional<std::string> problem;
  try {
    // The process may have ended because of a grammar that it compiled before. So try once more: if a new process ends,
    // too, this grammar is the cause.
    for (bool is_new = false; !problem;) {
      if (is_new) Fail("cannot be compiled: it breaks the compiler");
      is_new = pid_ == 0;
      if (is_new) Start(stop);
      problem = Ask(source, stop);
      if (problem) break;
      const std::string end = End();
      if (!std::exchange(told_of_end_, true))
        spdlog::error("the process that compiles grammars ended ({}); later ends are not told of", end);
    }
  } catch (...) {
    End();  // the process is busy with a grammar that has timed out or was cancelled
    throw;
  }
  if (!problem->empty()) throw Error(*problem);
}

}  // namespace quire
