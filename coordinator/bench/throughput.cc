#include "coordinator/bench/throughput.h"

#include <fmt/format.h>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/base/percentile.h"
#include "coordinator/bench/batch.h"
#include "coordinator/cluster/launch/deployment.h"

namespace quire {

int RunThroughputBench(const Topology& topology, const ThroughputBench& bench) {
  const ModelFiles model = ReadAsSettings(
      [&, &model = topology.model] { return ModelFiles::Open(model.path, model.load_format, model.AdapterPaths()); });
  const std::atomic<bool> never{false};
  Deployment deployment(topology, model, never);
  const BatchTimes times =
      RunBatch(deployment, 1, bench.num_prompts, bench.input_len, bench.output_len, model.spec().vocab_size);
  deployment.Stop("the bench is over");

  std::vector<double> first, per_token;
  for (const auto& tokens : times.tokens) {
    first.push_back(tokens.front());
    if (tokens.size() > 1)
      per_token.push_back((tokens.back() - tokens.front()) / static_cast<double>(tokens.size() - 1));
  }
  if (per_token.empty()) per_token.push_back(0);
  const double seconds = times.seconds;
  const EngineStats& stats = deployment.engine().stats();
  const double out = static_cast<double>(bench.num_prompts) * bench.output_len / seconds;
  const double total = static_cast<double>(bench.num_prompts) * (bench.input_len + bench.output_len) / seconds;
  const double micros_per_step = times.planning / static_cast<double>(stats.steps) * 1e6;
  if (bench.json) {
    fmt::print("{}\n", DumpJson({{"seconds", seconds},
                                 {"output_tokens_per_second", out},
                                 {"total_tokens_per_second", total},
                                 {"ttft_p50", Percentile(first, 0.5)},
                                 {"ttft_p99", Percentile(first, 0.99)},
                                 {"tpot_p50", Percentile(per_token, 0.5)},
                                 {"steps", stats.steps},
                                 {"schedule_micros_per_step", micros_per_step}}));
  } else {
    fmt::print("{} requests of {} + {} tokens in {:.2f} s\n", bench.num_prompts, bench.input_len, bench.output_len,
               seconds);
    fmt::print("output {:.1f} tok/s, total {:.1f} tok/s\n", out, total);
    fmt::print("time to first token p50 {:.3f} s, p99 {:.3f} s; per output token p50 {:.1f} ms\n",
               Percentile(first, 0.5), Percentile(first, 0.99), Percentile(per_token, 0.5) * 1e3);
    fmt::print("{} steps, scheduling {:.1f} us per step\n", stats.steps, micros_per_step);
  }
  return 0;
}

}  // namespace quire
