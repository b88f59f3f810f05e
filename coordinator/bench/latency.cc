#include "coordinator/bench/latency.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/base/percentile.h"
#include "comm/model/architecture.h"
#include "coordinator/bench/batch.h"
#include "coordinator/cluster/hosts/ceilings.h"

namespace quire {

namespace {

/// Times in seconds. Each list has one entry for each round; `step` and `slowest` have none if answers have one token.
struct Rounds {
  std::vector<double> prefill;  // seconds until the last request's first token
  std::vector<double> step;     // median seconds between later tokens, one per round
  std::vector<double> slowest;  // 99th percentile of the gaps between tokens, in seconds
};

void AddRound(const BatchTimes& times, Rounds& rounds) {
  double prefill = 0;
  std::vector<double> gaps;
  for (const auto& tokens : times.tokens) prefill = std::max(prefill, tokens.front());
  for (const auto& tokens : times.tokens) {
    for (size_t i = 1; i < tokens.size(); ++i) {
      if (tokens[i - 1] >= prefill) gaps.push_back(tokens[i] - tokens[i - 1]);
    }
  }
  rounds.prefill.push_back(prefill);
  if (gaps.empty()) return;
  rounds.step.push_back(Percentile(gaps, 0.5));
  rounds.slowest.push_back(Percentile(gaps, 0.99));
}

std::string Range(const std::vector<double>& values, double unit) {
  const auto [least, most] = std::ranges::minmax(values);
  return fmt::format("{:.2f} ({:.2f} to {:.2f})", Percentile(values, 0.5) * unit, least * unit, most * unit);
}

std::string Share(double part, double whole) { return whole > 0 ? fmt::format("{:.0f} %", 100 * part / whole) : "-"; }

Json JsonOf(const std::vector<double>& values) {
  if (values.empty()) return nullptr;
  const auto [least, most] = std::ranges::minmax(values);
  return {{"median", Percentile(values, 0.5)}, {"least", least}, {"most", most}};
}

}  // namespace

int RunLatencyBench(const Topology& topology, const LatencyBench& bench) {
  const MachineCeilings ceilings = MeasureMachineCeilings(topology);
  const ModelFiles model = ReadAsSettings(
      [&, &model = topology.model] { return ModelFiles::Open(model.path, model.load_format, model.AdapterPaths()); });
  const std::atomic<bool> never{false};
  Deployment deployment(topology, model, never);
  double weight_bytes = 0;
  Json ranks = Json::array();
  for (const RankInfo& rank : deployment.group().ranks()) {
    weight_bytes += static_cast<double>(rank.weight_bytes);
    ranks.push_back({{"weight_bytes", rank.weight_bytes}, {"block_bytes", rank.bytes_per_block}});
  }
  const PoolSizes pools = deployment.engine().blocks().sizes();
  Rounds rounds;
  for (int i = 0; i <= bench.num_iters; ++i) {
    const auto first = static_cast<RequestId>(1 + i * bench.batch_size);
    const BatchTimes times =
        RunBatch(deployment, first, bench.batch_size, bench.input_len, bench.output_len, model.spec().vocab_size);
    if (i > 0) AddRound(times, rounds);
  }
  deployment.Stop("the bench is over");

  const double prompt_tokens = bench.batch_size * bench.input_len;
  const double operations = OperationsOfToken(model.spec()) * prompt_tokens / Percentile(rounds.prefill, 0.5);
  const double read_bytes = weight_bytes * ReadPart(model.spec(), bench.batch_size);
  const double read = rounds.step.empty() ? 0 : read_bytes / Percentile(rounds.step, 0.5);
  if (bench.json) {
    fmt::print("{}\n", DumpJson({{"prefill_seconds", JsonOf(rounds.prefill)},
                                 {"step_seconds", JsonOf(rounds.step)},
                                 {"step_p99_seconds", JsonOf(rounds.slowest)},
                                 {"prefill_operations_per_second", operations},
                                 {"weight_bytes", weight_bytes},
                                 {"ranks", ranks},
                                 {"blocks", pools.num_blocks - 1},
                                 {"host_blocks", pools.num_host_blocks},
                                 {"max_model_len", deployment.max_model_len()},
                                 {"step_read_bytes", read_bytes},
                                 {"read_bytes_per_second", read},
                                 {"ceilings", JsonOf(ceilings)}}));
    return 0;
  }
  fmt::print("{} at once, {} + {} tokens, {} rounds; medians (ranges)\n", bench.batch_size, bench.input_len,
             bench.output_len, bench.num_iters);
  fmt::print("ceilings of the machine: {}\n", TextOf(ceilings));
  fmt::print(
      "prompts: {} s, {:.0f} tok/s; products {:.0f} G operations a second, {} of fp32, {} of int16, {} of int8\n",
      Range(rounds.prefill, 1), prompt_tokens / Percentile(rounds.prefill, 0.5), operations * 1e-9,
      Share(operations, ceilings.multiply_add), Share(operations, ceilings.int16), Share(operations, ceilings.int8));
  if (rounds.step.empty()) return 0;
  fmt::print("a step after that: {} ms, 99 in 100 within {} ms; weights of {:.0f} MB{}, {} of the reading\n",
             Range(rounds.step, 1e3), Range(rounds.slowest, 1e3), weight_bytes * 1e-6,
             read_bytes < weight_bytes ? fmt::format(", about {:.0f} of them read", read_bytes * 1e-6) : "",
             Share(read, ceilings.read_bytes));
  return 0;
}

}  // namespace quire
