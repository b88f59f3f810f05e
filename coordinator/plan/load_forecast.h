#pragma once

#include <cstdint>
#include <vector>

#include "comm/topology/topology.h"
#include "coordinator/plan/request_trace.h"
#include "coordinator/plan/speed_plan.h"

namespace quire {

/// What became of a trace's requests at one rate.
struct LoadRow {
  double rate = 0;                                   // of arrivals, as a multiple of the trace's
  double requests_a_second = 0;                      // that came
  double tokens_a_second = 0;                        // of answers, from the first arrival to the last token
  int64_t answered = 0, refused = 0, timed_out = 0;  // refused: too long, or too many waited
  int64_t prompt_tokens = 0, cached_tokens = 0;      // of those that were answered; the second from the prefix cache
  double mean_running = 0;                           // sequences of a step
  std::vector<double> first_token, each_token;       // seconds: until the first, and between the others of a request
};

/// The engine of a server with this topology, its real scheduler and blocks, on a clock of its own: requests come as
/// the trace says, `rate` times as fast, and a step takes what StepCosts expects. Of several replicas it is the first,
/// with its part of the requests.
LoadRow Forecast(const Topology& topology, const ModelSpec& spec, const MemoryPlan& plan, const PeakRates& peaks,
                 const std::vector<TracedRequest>& trace, double rate);

}  // namespace quire
