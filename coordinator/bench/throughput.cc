#include "coordinator/bench/throughput.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "comm/error.h"
#include "comm/json.h"
#include "coordinator/bench/random_prompt.h"
#include "coordinator/cluster/deployment.h"

namespace quire {

namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Notes when tokens arrive.
class TimingSink : public RequestSink {
 public:
  explicit TimingSink(Clock::time_point begin) : begin_(begin) {}
  bool OnToken(const TokenEvent&) override {
    times.push_back(SecondsSince(begin_));
    return false;
  }
  void OnFinish(int, FinishReason) override {}
  void OnError(RequestError, const std::string& message) override { throw Error(message); }

  std::vector<double> times;

 private:
  Clock::time_point begin_;
};

std::unique_ptr<Request> RandomRequest(RequestId id, const ThroughputBench& bench, int64_t vocab_size,
                                       std::shared_ptr<RequestSink> sink) {
  auto request = std::make_unique<Request>();
  request->id = id;
  request->limits.max_tokens = bench.output_len;
  request->sampling.temperature = 0;
  request->sequences = NewSequences(RandomPrompt(id, bench.input_len, vocab_size), 1);
  request->sink = std::move(sink);
  return request;
}

double Percentile(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(p * static_cast<double>(values.size() - 1) + 0.5)];
}

}  // namespace

int RunThroughputBench(const Topology& topology, const ThroughputBench& bench) {
  const ModelFiles model = ModelFiles::Open(topology.model.path);
  const std::atomic<bool> never{false};
  Deployment deployment(topology, model, never);
  Engine& engine = deployment.engine();

  const auto begin = Clock::now();
  std::vector<std::shared_ptr<TimingSink>> sinks;
  for (int i = 0; i < bench.num_prompts; ++i) {
    sinks.push_back(std::make_shared<TimingSink>(begin));
    const auto refusal =
        engine.Submit(RandomRequest(static_cast<RequestId>(i) + 1, bench, model.config().vocab_size, sinks.back()));
    if (refusal) Fail("{}", *refusal);
  }
  double planning = 0;
  const auto plan_next = [&] {
    const auto start = Clock::now();
    const StepPlan* next = engine.NextPlan(0);
    planning += SecondsSince(start);
    return next;
  };
  for (;;) {  // as EngineLoop does
    while (const StepPlan* plan = plan_next()) deployment.group().SendStep(*plan);
    if (engine.num_outstanding() == 0) break;
    const auto [tokens, times] = deployment.group().AwaitStep();
    engine.CommitStep(tokens, times);
  }
  const double seconds = SecondsSince(begin);
  deployment.Stop("the bench is over");

  std::vector<double> first, per_token;
  for (const auto& sink : sinks) {
    first.push_back(sink->times.front());
    if (sink->times.size() > 1)
      per_token.push_back((sink->times.back() - sink->times.front()) / static_cast<double>(sink->times.size() - 1));
  }
  if (per_token.empty()) per_token.push_back(0);
  const double out = static_cast<double>(bench.num_prompts) * bench.output_len / seconds;
  const double total = static_cast<double>(bench.num_prompts) * (bench.input_len + bench.output_len) / seconds;
  const double micros_per_step = planning / static_cast<double>(engine.stats().steps) * 1e6;
  if (bench.json) {
    fmt::print("{}\n", DumpJson({{"seconds", seconds},
                                 {"output_tokens_per_second", out},
                                 {"total_tokens_per_second", total},
                                 {"ttft_p50", Percentile(first, 0.5)},
                                 {"ttft_p99", Percentile(first, 0.99)},
                                 {"tpot_p50", Percentile(per_token, 0.5)},
                                 {"steps", engine.stats().steps},
                                 {"schedule_micros_per_step", micros_per_step}}));
  } else {
    fmt::print("{} requests of {} + {} tokens in {:.2f} s\n", bench.num_prompts, bench.input_len, bench.output_len,
               seconds);
    fmt::print("output {:.1f} tok/s, total {:.1f} tok/s\n", out, total);
    fmt::print("time to first token p50 {:.3f} s, p99 {:.3f} s; per output token p50 {:.1f} ms\n",
               Percentile(first, 0.5), Percentile(first, 0.99), Percentile(per_token, 0.5) * 1e3);
    fmt::print("{} steps, scheduling {:.1f} us per step\n", engine.stats().steps, micros_per_step);
  }
  return 0;
}

}  // namespace quire
