#include "coordinator/plan/step_runs.h"

#include <algorithm>
#include <atomic>
#include <exception>

#include "comm/base/error.h"
#include "coordinator/bench/batch.h"
#include "coordinator/cluster/launch/deployment.h"

namespace quire {

namespace {

constexpr double kLeastSeconds = 1;  // least time measured, because other programs use the cores, too

/// Returns the topology of one stage of `ranks` workers on this host, with KV blocks for the longest run of `streams`
/// sequences. With recurrent states, the number of blocks stays as in `whole`.
Topology StageHere(const Topology& whole, const ModelSpec& spec, int ranks, int threads, int streams) {
  Topology one = whole;
  one.nodes.clear();
  one.parallel = {};
  one.parallel.tensor = ranks;
  one.threads_per_worker = threads;
  one.launch.method = LaunchMethod::kMpirun;
  one.launch.worker.clear();
  one.transport = {};
  one.cache.disk = {};
  one.cache.host_swap_bytes = 0;
  one.scheduler.max_running = std::max(one.scheduler.max_running, streams);
  if (spec.num_state_layers() > 0) return one;  // how many blocks a state takes is known once the workers run
  const int blocks_each = (kRunPrompt + kRunDrawn) / one.cache.block_size + 2;
  one.cache.num_blocks = blocks_each * (streams + 2);
  return one;
}

/// Returns the mean seconds between a batch's tokens from the time when all its requests have a token; 0 if no token
/// follows.
double StepSeconds(const BatchTimes& times) {
  double begin = 0, end = 0;
  for (const auto& tokens : times.tokens) begin = std::max(begin, tokens.front());
  for (const auto& tokens : times.tokens) end = std::max(end, tokens.back());
  const auto& longest = times.tokens.back();
  const auto steps = std::ranges::count_if(longest, [&](double at) { return at > begin; });
  return steps > 0 ? (end - begin) / static_cast<double>(steps) : 0;
}

}  // namespace

double StepRuns::Seconds(int ranks, int threads, int streams) {
  QUIRE_CHECK(std::ranges::find(streams_, streams) != streams_.end(), "steps of {} sequences are not measured",
              streams);
  for (int attempt = 1; !seconds_.contains({ranks, threads, streams}); ++attempt) {
    try {
      Run(ranks, threads);
    } catch (const std::exception& error) {
      if (attempt == 1) continue;  // a busy machine may lose a group of workers
      Fail("{} workers of this host do not run the model for a measurement ({}); give --peaks to reckon instead", ranks,
           error.what());
    }
  }
  return seconds_.at({ranks, threads, streams});
}

void StepRuns::Run(int ranks, int threads) {
  const Topology topology = StageHere(topology_, model_.spec(), ranks, threads, *std::ranges::max_element(streams_));
  const std::atomic<bool> never{false};
  Deployment deployment(topology, model_, never);
  RequestId next = 1;
  for (const int streams : streams_) {
    double took = 0, sum = 0;
    for (int round = 0; took < kLeastSeconds; ++round) {
      const BatchTimes times = RunBatch(deployment, next, streams, kRunPrompt, kRunDrawn, model_.spec().vocab_size);
      next += static_cast<RequestId>(streams);
      if (round == 0) continue;  // the first round is slower: it touches new memory pages
      took += times.seconds;
      sum += StepSeconds(times) * times.seconds;
    }
    seconds_[{ranks, threads, streams}] = sum / took;
  }
  deployment.Stop("the measurement is over");
}

}  // namespace quire
