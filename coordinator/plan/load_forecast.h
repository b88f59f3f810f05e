#pragma once

#include <cstdint>
#include <vector>

#include "comm/topology/topology.h"
#include "coordinator/plan/request_trace.h"
#include "coordinator/plan/speed_plan.h"

namespace quire {

/// The results of a trace's requests at one arrival rate.
struct LoadRow {
  double rate = 0;               // multiple of the trace's arrival rate
  double requests_a_second = 0;  // arrivals per second
  // Generated tokens per second, from the first arrival to the last token.
  double tokens_a_second = 0;
  int64_t answered = 0, refused = 0, timed_out = 0;  // refused: too long, or too many were waiting
  // Prompt tokens of answered requests. cached_tokens: the part that was found in the prefix cache.
  int64_t prompt_tokens = 0, cached_tokens = 0;
  double mean_running = 0;                      // sequences in a step
  std::vector<double> first_token, each_token;  // of each request, seconds: to its first token; mean between its tokens
};

/// Simulates a server with this topology: its real engine, scheduler and block manager run on a virtual clock. Requests
/// arrive as in the trace, `rate` times as fast, and a step takes as long as StepCosts expects. With several replicas,
/// simulates the first one with its part of the requests.
LoadRow Forecast(const Topology& topology, const ModelSpec& spec, const MemoryPlan& plan, const PeakRates& peaks,
                 const std::vector<TracedRequest>& trace, double rate);

}  // namespace quire
