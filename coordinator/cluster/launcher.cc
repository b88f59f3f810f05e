#include "coordinator/cluster/launcher.h"

#include <unistd.h>

#include <filesystem>

#include "comm/error.h"
#include "coordinator/cluster/child_process.h"

namespace quire {

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

}  // namespace quire
