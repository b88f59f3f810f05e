#include "coordinator/cluster/hosts/link_bench.h"

#include <fmt/format.h>

#include <chrono>
#include <string>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "coordinator/cluster/hosts/node_probe.h"
#include "coordinator/cluster/hosts/program.h"
#include "coordinator/cluster/launch/launcher.h"
#include "coordinator/cluster/launch/private_network.h"
#include "coordinator/cluster/launch/runtime_dir.h"

namespace quire {

namespace {

constexpr std::chrono::seconds kStartLimit{60};
constexpr std::chrono::seconds kCutLimit{30};  // time limit for each division of the ranks and each number of rows
constexpr const char* kWord = "links ";        // rank 0's line with results begins with it (worker/bench/bench_links.h)

/// Returns the JSON list in the line that begins with kWord; empty if there is no such line.
std::string ResultIn(const std::string& output) {
  const size_t begin = output.starts_with(kWord) ? 0 : output.find(std::string("\n") + kWord);
  if (begin == std::string::npos) return "";
  const size_t json = output.find('[', begin);
  return json == std::string::npos ? "" : output.substr(json, output.find('\n', json) - json);
}

/// Returns the first line that contains letters: mpirun puts lines of dashes around its messages.
std::string FirstWords(const std::string& output) {
  const size_t begin = output.find_first_not_of("- \n");
  return begin == std::string::npos ? "no output" : FirstLine(output.substr(begin));
}

}  // namespace

std::vector<MeasuredWait> MeasureWaits(const Topology& topology, const std::vector<NodeRanks>& placement,
                                       const std::vector<std::pair<int, int>>& cuts, int64_t row_bytes,
                                       const std::vector<int>& rows) {
  CheckMpirunAllowed();
  const RuntimeDir directory;
  std::string list;
  for (const auto& [tensor, pipeline] : cuts) list += fmt::format("{}{}x{}", list.empty() ? "" : ",", tensor, pipeline);
  const std::vector<std::string> worker = {WorkerBinary(topology),
                                           "--bench-links",
                                           list,
                                           "--bench-row-bytes",
                                           std::to_string(row_bytes),
                                           "--bench-rows",
                                           fmt::format("{}", fmt::join(rows, ","))};
  std::vector<std::string> command = ChoosePrivateNetwork(topology).prefix;
  const auto mpirun = MpirunCommand(topology, worker, directory.path(), placement);
  command.insert(command.end(), mpirun.begin(), mpirun.end());
  const auto limit = kStartLimit + kCutLimit * static_cast<int>(cuts.size() * rows.size());
  const ProgramResult result = RunProgram(command, limit);
  const std::string found = ResultIn(result.output);
  if (result.timed_out) Fail("the ranks did not measure their links within {} s", limit.count());
  if (result.status != 0 || found.empty())
    Fail("the ranks did not measure their links: {}", FirstWords(result.output));
  std::vector<MeasuredWait> waits;
  for (const Json& one : ParseJson(found, "results of the ranks")) {
    waits.push_back(
        {one.at("tensor"), one.at("pipeline"), one.at("rows"), one.at("sum_seconds"), one.at("turn_seconds")});
  }
  return waits;
}

}  // namespace quire
