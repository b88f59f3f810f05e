#include "coordinator/bench/allreduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <vector>

#include "comm/error.h"
#include "comm/json.h"
#include "coordinator/cluster/child_process.h"
#include "coordinator/cluster/launcher.h"
#include "coordinator/cluster/runtime_dir.h"

namespace quire {

namespace {

/// The mpirun line of a server, with other work for the workers.
std::vector<std::string> BenchCommand(const AllReduceBenchCommand& bench, const std::string& session_dir,
                                      const std::string& results) {
  Topology topology;
  topology.parallel.tensor = bench.ranks;
  const std::vector<std::string> worker = {FindWorkerBinary(),
                                           "--bench-allreduce",
                                           results,
                                           "--bench-min-bytes",
                                           std::to_string(bench.min_bytes),
                                           "--bench-max-bytes",
                                           std::to_string(bench.max_bytes),
                                           "--bench-rounds",
                                           std::to_string(bench.rounds)};
  return MpirunCommand(topology, worker, session_dir, {});
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) Fail("{}: the ranks wrote no results", path);
  return text.str();
}

std::string SizeText(int64_t bytes) {
  return bytes < 1 << 20 ? fmt::format("{} KiB", bytes >> 10) : fmt::format("{} MiB", bytes >> 20);
}

void PrintTable(const Json& report) {
  std::vector<std::string> methods;
  std::map<int64_t, std::map<std::string, Json>> rows;
  for (const Json& result : report["results"]) {
    const std::string method = result["method"];
    if (std::ranges::find(methods, method) == methods.end()) methods.push_back(method);
    rows[result["bytes"]][method] = result;
  }
  fmt::print("fp32 sums over {} ranks on {}; microseconds, median and p99\n", report["ranks"].get<int>(),
             report["host"].get<std::string>());
  fmt::print("{:>10} {:>7}", "message", "rounds");
  for (const std::string& method : methods) fmt::print(" {:>21}", method);
  fmt::print("\n");
  for (const auto& [bytes, results] : rows) {
    fmt::print("{:>10} {:>7}", SizeText(bytes), results.begin()->second["rounds"].get<int>());
    for (const std::string& method : methods) {
      const auto found = results.find(method);
      if (found == results.end()) {
        fmt::print(" {:>21}", "-");
      } else {
        fmt::print(" {:>10.1f} {:>10.1f}", found->second["median_micros"].get<double>(),
                   found->second["p99_micros"].get<double>());
      }
    }
    fmt::print("\n");
  }
  for (const std::string& method : methods) {
    fmt::print("{}: {}\n", method, report["notes"][method].get<std::string>());
  }
}

}  // namespace

int RunAllReduceBenchCommand(const AllReduceBenchCommand& bench) {
  CheckMpirunAllowed();
  const RuntimeDir directory;
  const std::string results = directory.path() + "/allreduce.json";
  ChildProcess mpirun(BenchCommand(bench, directory.path(), results));
  while (!mpirun.WaitFor(1000)) {
  }
  if (const std::string ended = *mpirun.Ended(); ended != "exited with status 0") Fail("mpirun {}", ended);
  const std::string text = ReadFile(results);
  PrintTable(ParseJson(text, "results of the ranks"));
  if (bench.json_file.empty()) return 0;
  std::ofstream file(bench.json_file);
  file << text;
  if (!file.flush()) Fail("{}: cannot be written", bench.json_file);
  return 0;
}

}  // namespace quire
