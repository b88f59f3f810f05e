#include "coordinator/cluster/launcher.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "comm/error.h"

namespace quire {

namespace {

/// First executable file of that name in PATH.
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

[[noreturn]] void RunChild(const std::vector<std::string>& command, int error_pipe) {
  ::setpgid(0, 0);
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // our listening sockets are not for mpirun
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  const int null = ::open("/dev/null", O_RDONLY);
  if (null >= 0) ::dup2(null, STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);  // our standard output belongs to the user's answer, not to the workers
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  std::vector<char*> argv;
  for (const std::string& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  const int error = errno;
  (void)!::write(error_pipe, &error, sizeof(error));
  ::_exit(127);
}

}  // namespace

std::vector<std::string> MpirunCommand(const Topology& topology, const std::string& worker_binary,
                                       const std::string& data_endpoint, EpochId epoch,
                                       const std::string& session_dir) {
  std::vector<std::string> command = {"mpirun", "-np", std::to_string(topology.parallel.tensor)};
  const auto add = [&](std::initializer_list<std::string> arguments) { command.insert(command.end(), arguments); };
  const auto mca = [&](const char* key, const std::string& value) { add({"--mca", key, value}); };
  // One dead rank ends the job at once: membership is the coordinator's business (comm/PROTOCOL.md).
  mca("orte_enable_recovery", "0");
  mca("orte_abort_on_non_zero_status", "1");
  mca("odls_base_sigkill_timeout", "0");
  mca("orte_startup_timeout", "60");
  mca("orte_tmpdir_base", session_dir);
  // Shared memory between the ranks of this host; no probing of fabrics that are not used.
  mca("pml", "ob1");
  mca("btl", "self,vader");
  mca("btl_vader_single_copy_mechanism", "none");
  mca("btl_vader_backing_directory", session_dir);
  mca("oob_tcp_if_include", "lo");
  mca("mpi_yield_when_idle", "1");
  add({"--oversubscribe", "--bind-to", "none"});
  command.insert(command.end(), topology.launch.args.begin(), topology.launch.args.end());
  add({worker_binary, "--coordinator", data_endpoint, "--epoch", std::to_string(epoch)});
  if (!topology.transport.keys.empty()) add({"--keys", std::filesystem::absolute(topology.transport.keys)});
  return command;
}

std::optional<std::string> FindProgram(const std::string& name) {
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const auto beside = self.parent_path() / name;
  if (::access(beside.c_str(), X_OK) == 0) return beside;
  return FindInPath(name);
}

std::string FindWorkerBinary() {
  if (const auto found = FindProgram("quire-worker")) return *found;
  Fail(
      "quire-worker is neither beside this program nor in PATH; build it (it needs MPI: libopenmpi-dev) or install it");
}

void CheckMpirunAllowed() {
  const auto is_set = [](const char* name) { return std::getenv(name) != nullptr; };
  if (::geteuid() == 0 && !(is_set("OMPI_ALLOW_RUN_AS_ROOT") && is_set("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"))) {
    Fail(
        "mpirun refuses to run as root; run as an ordinary user (in a throw-away container, set "
        "OMPI_ALLOW_RUN_AS_ROOT=1 "
        "and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)");
  }
}

ChildProcess::ChildProcess(const std::vector<std::string>& command) {
  if (command[0].find('/') == std::string::npos && !FindInPath(command[0])) {
    Fail("{} is not installed (not found in PATH); on Debian and Ubuntu: apt-get install openmpi-bin", command[0]);
  }
  int error_pipe[2];
  if (::pipe2(error_pipe, O_CLOEXEC) != 0) Fail("cannot start {}: {}", command[0], std::strerror(errno));
  pid_ = ::fork();
  if (pid_ == 0) RunChild(command, error_pipe[1]);
  ::close(error_pipe[1]);
  int error = 0;
  const bool failed = pid_ < 0 || ::read(error_pipe[0], &error, sizeof(error)) == sizeof(error);
  ::close(error_pipe[0]);
  if (failed) {
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
    Fail("cannot start {}: {}", command[0], std::strerror(pid_ < 0 ? errno : error));
  }
}

ChildProcess::~ChildProcess() { Stop(); }

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
  if (WaitFor(1000)) return;
  ::kill(-pid_, SIGKILL);
  WaitFor(5000);
}

}  // namespace quire
