#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace quire {

/// One request of a trace: its arrival and its lengths. Only the client and KvPolicy::kOracle know output_tokens
/// beforehand.
struct TraceRequest {
  double arrival_seconds = 0;
  int prompt_tokens = 0;
  int output_tokens = 0;

  bool operator==(const TraceRequest&) const = default;
};

/// The distribution of the lengths of a trace. The means are those of prompt and output tokens.
enum class LengthDistribution {
  kShareGpt,  // chat: long and varied; means 161 and 338 at max_model_len 2048
  kAlpaca,    // instructions: short; means 19 and 58
  kUniform,   // prompt and output each 1 .. max_model_len / 2
};

/// Returns "sharegpt", "alpaca" or "uniform".
std::string_view NameOf(LengthDistribution lengths);

/// Returns the distribution of that name. Throws Error for other names.
LengthDistribution LengthDistributionNamed(std::string_view name);

struct TraceSpec {
  LengthDistribution lengths = LengthDistribution::kShareGpt;
  int num_requests = 1000;
  double requests_per_second = 0;  // Poisson arrivals; 0: all at time 0
  int max_model_len = 2048;        // no request has more tokens in all; at least 32
  uint64_t seed = 1;
};

/// Makes requests, in order of arrival. The same spec gives the same trace on every machine. Two specs that differ only
/// in requests_per_second give the same lengths.
std::vector<TraceRequest> MakeTrace(const TraceSpec& spec);

/// Returns the mean number of tokens per request, prompt and output together.
double MeanTokens(std::span<const TraceRequest> trace);

}  // namespace quire
