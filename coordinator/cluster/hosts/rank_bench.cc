#include "coordinator/cluster/hosts/rank_bench.h"

#include <fstream>
#include <sstream>

#include "comm/base/error.h"
#include "comm/topology/topology.h"
#include "coordinator/cluster/launch/child_process.h"
#include "coordinator/cluster/launch/launcher.h"
#include "coordinator/cluster/launch/private_network.h"
#include "coordinator/cluster/launch/runtime_dir.h"

namespace quire {

std::string RunOnRanks(int ranks, const std::string& flag, const std::vector<std::string>& more) {
  CheckMpirunAllowed();
  const RuntimeDir directory;
  const std::string results = directory.path() + "/results.json";
  std::vector<std::string> worker = {FindWorkerBinary(), flag, results};
  worker.insert(worker.end(), more.begin(), more.end());
  Topology topology;
  topology.parallel.tensor = ranks;
  std::vector<std::string> command = ChoosePrivateNetwork(topology).prefix;
  const auto line = MpirunCommand(topology, worker, directory.path(), {});
  command.insert(command.end(), line.begin(), line.end());
  ChildProcess mpirun(command);
  while (!mpirun.WaitFor(1000)) {
  }
  if (const std::string ended = *mpirun.Ended(); ended != "exited with status 0") Fail("mpirun {}", ended);
  std::ifstream file(results);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) Fail("{}: the ranks wrote no results", results);
  return text.str();
}

}  // namespace quire
