#include "tests/bench/memory_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "comm/base/error.h"

namespace quire {

namespace {

constexpr std::array kPolicies{KvPolicy::kPaged, KvPolicy::kOracle, KvPolicy::kPowerOfTwo, KvPolicy::kReserveMax};
constexpr int kLargestBlock = 256;  // tokens of the largest block that is measured

// Offered rates, as multiples of the paged server's throughput when all requests arrive at time 0. Some exceed 1,
// because that throughput includes the end of the trace, when few requests are left.
constexpr std::array kRateShares{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.4, 1.6};

/// Returns the run with these lengths and this policy; aborts when there is none.
const MemoryRun& Find(const std::vector<MemoryRun>& runs, LengthDistribution lengths, KvPolicy policy) {
  const auto run = std::find_if(runs.begin(), runs.end(),
                                [&](const MemoryRun& r) { return r.lengths == lengths && r.policy == policy; });
  QUIRE_CHECK(run != runs.end(), "no run of {} on {}", NameOf(policy), NameOf(lengths));
  return *run;
}

std::vector<TraceRequest> TraceOf(const MemoryBench& bench, LengthDistribution lengths, double rate) {
  return MakeTrace({lengths, bench.num_requests, rate, bench.setup.max_model_len, bench.seed});
}

MemoryRun RunOne(const MemoryBench& bench, LengthDistribution lengths, KvPolicy policy, int block_size, double rate) {
  MemorySetup setup = bench.setup;
  setup.block_size = block_size;
  return {lengths, policy, block_size, rate, SimulateMemory(policy, setup, TraceOf(bench, lengths, rate))};
}

void RunTrace(const MemoryBench& bench, LengthDistribution lengths, MemoryReport& report) {
  const int block_size = bench.setup.block_size;
  for (const KvPolicy policy : kPolicies) {
    report.policies.push_back(RunOne(bench, lengths, policy, block_size, 0));
  }
  for (int size = 1; size <= kLargestBlock; size *= 2) {
    report.block_sizes.push_back(RunOne(bench, lengths, KvPolicy::kPaged, size, 0));
  }
  const double full = Find(report.policies, lengths, KvPolicy::kPaged).result.requests_per_second;
  for (const KvPolicy policy : kPolicies) {
    for (const double share : kRateShares) {
      report.rates.push_back(RunOne(bench, lengths, policy, block_size, share * full));
    }
  }
}

void PutPolicyTable(const MemoryReport& report, LengthDistribution lengths, std::string& out) {
  auto put = std::back_inserter(out);
  const auto trace = TraceOf(report.bench, lengths, 0);
  fmt::format_to(put, "\n{}: {} requests of {:.0f} tokens on average, all at once\n", NameOf(lengths), trace.size(),
                 MeanTokens(trace));
  fmt::format_to(put, "{:<13}{:>7}{:>10}{:>10}{:>10}{:>7}{:>8}{:>8}{:>6}{:>9}{:>9}{:>10}\n", "% of slots", "live",
                 "reserved", "internal", "external", "free", "waste", "batch", "peak", "tok/s", "speedup", "req/s*");
  const double least = Find(report.policies, lengths, KvPolicy::kReserveMax).result.output_tokens_per_second;
  for (const KvPolicy policy : kPolicies) {
    const MemoryResult& r = Find(report.policies, lengths, policy).result;
    const auto rate = SustainedRate(report, lengths, policy);
    fmt::format_to(
        put, "{:<13}{:>7.1f}{:>10.1f}{:>10.1f}{:>10.1f}{:>7.1f}{:>8.2f}{:>8.1f}{:>6}{:>9.1f}{:>8.2f}x{:>10}\n",
        NameOf(policy), 100 * r.shares.live, 100 * r.shares.reserved, 100 * r.shares.internal, 100 * r.shares.external,
        100 * r.shares.free, 100 * r.kv_waste, r.mean_batch, r.peak_batch, r.output_tokens_per_second,
        r.output_tokens_per_second / least, rate ? fmt::format("{:.2f}", *rate) : "-");
  }
  const MemoryResult& paged = Find(report.policies, lengths, KvPolicy::kPaged).result;
  fmt::format_to(put, "paged: {} preemptions, {} tokens computed\n", paged.preemptions, paged.computed_tokens);
}

void PutBlockSizeTable(const MemoryReport& report, LengthDistribution lengths, std::string& out) {
  std::string sizes, wastes, speeds;
  for (const MemoryRun& run : report.block_sizes) {
    if (run.lengths != lengths) continue;
    sizes += fmt::format("{:>8}", run.block_size);
    wastes += fmt::format("{:>8.2f}", 100 * run.result.kv_waste);
    speeds += fmt::format("{:>8.1f}", run.result.output_tokens_per_second);
  }
  out += fmt::format("{:<13}{}\n{:<13}{}\n{:<13}{}\n", "block size", sizes, "waste %", wastes, "tok/s", speeds);
}

Json JsonOf(const MemoryRun& run) {
  const MemoryResult& r = run.result;
  Json json{{"trace", NameOf(run.lengths)},
            {"policy", NameOf(run.policy)},
            {"requests_per_second_offered", run.requests_per_second},
            {"live", r.shares.live},
            {"reserved", r.shares.reserved},
            {"internal", r.shares.internal},
            {"external", r.shares.external},
            {"free", r.shares.free},
            {"kv_waste", r.kv_waste},
            {"mean_batch", r.mean_batch},
            {"peak_batch", r.peak_batch},
            {"steps", r.steps},
            {"computed_tokens", r.computed_tokens},
            {"preemptions", r.preemptions},
            {"makespan_seconds", r.makespan_seconds},
            {"busy_seconds", r.busy_seconds},
            {"output_tokens_per_second", r.output_tokens_per_second},
            {"requests_per_second", r.requests_per_second},
            {"normalised_latency", r.normalised_latency}};
  if (run.policy == KvPolicy::kPaged) json["block_size"] = run.block_size;
  return json;
}

Json JsonOf(const MemorySetup& setup) {
  return {{"capacity_tokens", setup.capacity_tokens},
          {"max_model_len", setup.max_model_len},
          {"block_size", setup.block_size},
          {"max_step_tokens", setup.max_step_tokens},
          {"max_running", setup.max_running},
          {"fixed_seconds", setup.cost.fixed_seconds},
          {"seconds_per_token", setup.cost.seconds_per_token},
          {"seconds_per_context_token", setup.cost.seconds_per_context_token}};
}

}  // namespace

MemoryReport RunMemoryBench(const MemoryBench& bench) {
  if (bench.num_requests < 1) Fail("the memory bench needs 1 or more requests, not {}", bench.num_requests);
  MemoryReport report{bench, {}, {}, {}};
  for (const LengthDistribution lengths : bench.traces) RunTrace(bench, lengths, report);
  return report;
}

std::optional<double> SustainedRate(const MemoryReport& report, LengthDistribution lengths, KvPolicy policy) {
  const double limit = report.bench.latency_limit;
  const MemoryRun* below = nullptr;
  for (const MemoryRun& run : report.rates) {  // ascending
    if (run.lengths != lengths || run.policy != policy) continue;
    if (run.result.normalised_latency < limit) {
      below = &run;
    } else if (below == nullptr) {
      return std::nullopt;
    } else {
      const double low = below->result.normalised_latency, high = run.result.normalised_latency;
      const double share = (limit - low) / (high - low);
      return below->requests_per_second + share * (run.requests_per_second - below->requests_per_second);
    }
  }
  return std::nullopt;
}

std::string TableOf(const MemoryReport& report) {
  const MemorySetup& setup = report.bench.setup;
  std::string out = fmt::format(
      "simulated server: {} KV slots, sequences of at most {} tokens, blocks of {}\n"
      "step = {:g} ms + {:g} ms per token + {:g} us per context token\n"
      "waste: % of the allocated slots without a token; speedup: of tok/s over reserve max;\n"
      "req/s*: Poisson rate at a mean latency of {:g} s per output token\n",
      setup.capacity_tokens, setup.max_model_len, setup.block_size, 1e3 * setup.cost.fixed_seconds,
      1e3 * setup.cost.seconds_per_token, 1e6 * setup.cost.seconds_per_context_token, report.bench.latency_limit);
  for (const LengthDistribution lengths : report.bench.traces) {
    PutPolicyTable(report, lengths, out);
    PutBlockSizeTable(report, lengths, out);
  }
  return out;
}

Json JsonOf(const MemoryReport& report) {
  Json json{{"setup", JsonOf(report.bench.setup)},
            {"num_requests", report.bench.num_requests},
            {"seed", report.bench.seed},
            {"latency_limit", report.bench.latency_limit}};
  for (const auto& [name, runs] :
       {std::pair{"policies", &report.policies}, {"block_sizes", &report.block_sizes}, {"rates", &report.rates}}) {
    Json& list = json[name] = Json::array();
    for (const MemoryRun& run : *runs) list.push_back(JsonOf(run));
  }
  for (const LengthDistribution lengths : report.bench.traces) {
    for (const KvPolicy policy : kPolicies) {
      const auto rate = SustainedRate(report, lengths, policy);
      json["sustained_rates"][NameOf(lengths)][NameOf(policy)] = rate ? Json(*rate) : Json();
    }
  }
  return json;
}

}  // namespace quire
