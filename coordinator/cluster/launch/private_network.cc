#include "coordinator/cluster/launch/private_network.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "comm/base/error.h"
#include "coordinator/cluster/launch/child_process.h"
#include "coordinator/cluster/launch/launcher.h"
#include "coordinator/cluster/launch/placement.h"

namespace quire {

namespace {

constexpr int kImpossible = 125;  // the exit status that env and similar tools use for their own failures

void WriteFile(const char* path, const std::string& text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  const bool written = fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (!written) Fail("cannot write {}: {}", path, std::strerror(error));
}

void Enter() {
  if (::unshare(CLONE_NEWNET) == 0) return;
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
    Fail("this system does not let user {} make network namespaces: {}", user, std::strerror(errno));
  WriteFile("/proc/self/setgroups", "deny");
  WriteFile("/proc/self/uid_map", fmt::format("{} {} 1", user, user));
  WriteFile("/proc/self/gid_map", fmt::format("{} {} 1", group, group));
}

void BringLoopbackUp() {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  bool up = fd >= 0 && ::ioctl(fd, SIOCGIFFLAGS, &request) == 0;
  request.ifr_flags |= IFF_UP;
  up = up && ::ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (!up) Fail("cannot bring the loopback interface of a network namespace up: {}", std::strerror(error));
}

/// Runs a test process behind `prefix`, the words that would be put before mpirun. Returns "" if the process succeeds,
/// otherwise its error message.
std::string Problem(const std::vector<std::string>& prefix) {
  std::vector<std::string> command = prefix;
  command.push_back("true");
  int output[2];
  if (::pipe2(output, O_CLOEXEC) != 0) return std::strerror(errno);
  const pid_t pid = ::fork();
  if (pid == 0) {
    BecomeProgram(command, output[1]);
    ::_exit(kImpossible);
  }
  ::close(output[1]);
  std::string said;
  char bytes[512];
  for (ssize_t count = 1; pid > 0 && (count = ::read(output[0], bytes, sizeof(bytes))) > 0;)
    said.append(bytes, static_cast<size_t>(count));
  ::close(output[0]);
  int status = 0;
  if (pid <= 0 || ::waitpid(pid, &status, 0) != pid) return "a process could not be started";
  if (status == 0) return "";
  return said.empty() ? "it ended without a word" : said.substr(0, said.find('\n'));
}

/// Returns the reason not to try a private network; empty when it should be tried.
std::string Objection(const Topology& topology) {
  const PrivateNetworkMode wish = topology.transport.private_network;
  if (wish == PrivateNetworkMode::kOff) return "transport.private_network is off";
  if (topology.launch.method == LaunchMethod::kExternal) return "workers are started by somebody else";
  if (!OnThisHost(topology)) return "workers are on several hosts";
  if (!topology.transport.bind.empty()) return "workers reach the coordinator by transport.bind";
  if (wish == PrivateNetworkMode::kAuto && MayUseGpus(topology))
    return "workers may use GPUs (transport.private_network: on has it nevertheless)";
  return "";
}

/// Returns the words to put before mpirun, so that mpirun loads the module that binds mpirun's sockets to loopback; no
/// words if the module is not installed.
std::vector<std::string> OnLoopback() {
  constexpr const char* kModule = "quire-loopback.so";
  for (const auto& path : {OwnFolder() / kModule, OwnFolder().parent_path() / "lib" / "quire" / kModule}) {
    const std::string name = path.string();
    if (::access(name.c_str(), R_OK) != 0 || name.find_first_of(" :") != name.npos) continue;
    const char* others = std::getenv("LD_PRELOAD");
    return {"env",
            fmt::format("LD_PRELOAD={}{}{}", name, others != nullptr ? ":" : "", others != nullptr ? others : "")};
  }
  return {};
}

}  // namespace

std::string PrivateNetwork::InWords() const {
  if (used) return "runs in a network of its own: nobody outside can reach it";
  return (on_loopback ? "listens on loopback alone while it runs, where other users of this host reach it: "
                      : "listens on all interfaces while it runs: ") +
         reason;
}

int BecomeInPrivateNetwork(char** command) {
  try {
    Enter();
    BringLoopbackUp();
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return kImpossible;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // a change of credentials may have cleared this setting
  ::execvp(command[0], command);
  fmt::print(stderr, "cannot start {}: {}\n", command[0], std::strerror(errno));
  return kImpossible;
}

PrivateNetwork ChoosePrivateNetwork(const Topology& topology) {
  PrivateNetwork chosen;
  chosen.reason = Objection(topology);
  if (chosen.reason.empty()) {
    const auto program = FindProgram("quire");
    chosen.prefix = {program.value_or("quire"), kInPrivateNetwork};
    chosen.reason = program ? Problem(chosen.prefix) : "quire is neither beside this program nor in PATH";
  }
  chosen.used = chosen.reason.empty();
  if (chosen.used) return chosen;
  chosen.prefix.clear();
  if (topology.transport.private_network == PrivateNetworkMode::kOn)
    FailSettings("transport.private_network is on, but {}; auto goes on without", chosen.reason);
  if (topology.launch.method == LaunchMethod::kMpirun && OnThisHost(topology)) chosen.prefix = OnLoopback();
  chosen.on_loopback = !chosen.prefix.empty();
  return chosen;
}

}  // namespace quire
