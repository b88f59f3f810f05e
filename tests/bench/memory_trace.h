#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace quire {

/// One request of a trace: when it comes, and how long it is in the end. Only the client and the oracle know
/// output_tokens beforehand.
struct TraceRequest {
  double arrival_seconds = 0;
  int prompt_tokens = 0;
  int output_tokens = 0;

  bool operator==(const TraceRequest&) const = default;
};

/// Where the lengths of a trace come from.
enum class LengthDistribution {
  kShareGpt,  // chat: long and varied; means 161 and 338 at max_model_len 2048
  kAlpaca,    // instructions: short; means 19 and 58
  kUniform,   // prompt and output each 1 .. max_model_len / 2
};

/// "sharegpt", "alpaca" or "uniform".
std::string_view NameOf(LengthDistribution lengths);

/// The distribution of that name; throws Error for other names.
LengthDistribution LengthDistributionNamed(std::string_view name);

struct TraceSpec {
  LengthDistribution lengths = LengthDistribution::kShareGpt;
  int num_requests = 1000;
  double requests_per_second = 0;  // Poisson arrivals; 0: all at time 0
  int max_model_len = 2048;        // no request has more tokens in all; at least 32
  uint64_t seed = 1;
};

/// Requests in order of arrival. The same spec gives the same trace on every machine, and two specs that differ only in
/// requests_per_second give the same lengths.
std::vector<TraceRequest> MakeTrace(const TraceSpec& spec);

/// Tokens per request, prompt and output.
double MeanTokens(std::span<const TraceRequest> trace);

}  // namespace quire
