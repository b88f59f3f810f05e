#include "coordinator/bench/allreduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "comm/base/json.h"
#include "comm/model/formats/mapped_file.h"
#include "coordinator/cluster/hosts/rank_bench.h"

namespace quire {

namespace {

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
  const std::string text =
      RunOnRanks(bench.ranks, "--bench-allreduce",
                 {"--bench-min-bytes", std::to_string(bench.min_bytes), "--bench-max-bytes",
                  std::to_string(bench.max_bytes), "--bench-rounds", std::to_string(bench.rounds)});
  PrintTable(ParseJson(text, "results of the ranks"));
  if (!bench.json_file.empty()) WriteTextFile(bench.json_file, text);
  return 0;
}

}  // namespace quire
