#include "coordinator/cluster/hosts/ceilings.h"

#include <fmt/format.h>

#include "comm/base/json.h"
#include "comm/model/architecture.h"
#include "coordinator/cluster/hosts/rank_bench.h"
#include "coordinator/cluster/launch/placement.h"

namespace quire {

MachineCeilings MeasureMachineCeilings(const Topology& topology) {
  const int ranks = topology.parallel.num_ranks();
  const int threads = ThreadsOfWorker(topology, ranks);
  const Json measured = ParseJson(RunOnRanks(ranks, "--bench-ceilings", {"--bench-threads", std::to_string(threads)}),
                                  "results of the ranks");
  return {ranks,
          threads,
          measured.at("isa"),
          measured.at("read_bytes"),
          measured.at("steady_bytes"),
          measured.at("multiply_add"),
          measured.at("int16"),
          measured.at("int8")};
}

std::string TextOf(const MachineCeilings& c) {
  const std::string int8 = c.int8 > 0 ? fmt::format("{:.0f}", c.int8 * 1e-9) : "no";
  return fmt::format(
      "{:.1f} GB/s read ({:.1f} steadily), {:.0f} GFLOP/s fp32, {:.0f} int16 and {} int8 GOP/s ({} x {} threads, {})",
      c.read_bytes * 1e-9, c.steady_bytes * 1e-9, c.multiply_add * 1e-9, c.int16 * 1e-9, int8, c.ranks, c.threads,
      c.isa);
}

Json JsonOf(const MachineCeilings& c) {
  return {{"ranks", c.ranks},
          {"threads", c.threads},
          {"isa", c.isa},
          {"read_bytes", c.read_bytes},
          {"steady_bytes", c.steady_bytes},
          {"multiply_add", c.multiply_add},
          {"int16", c.int16},
          {"int8", c.int8}};
}

double OperationsOfToken(const ModelSpec& spec) { return 2 * static_cast<double>(LayerMatrixNumbers(spec)); }

}  // namespace quire
