#include "tests/bench/memory_trace.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include "comm/base/error.h"

namespace quire {

namespace {

/// Seeded random numbers. This class makes its own distributions, because those of <random> differ between standard
/// libraries.
class Draw {
 public:
  explicit Draw(uint64_t seed) : bits_(seed) {}

  /// Returns a number in [0, 1).
  double Unit() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }
  int Between(int low, int high) { return low + static_cast<int>(Unit() * (high - low + 1)); }
  double Exponential(double mean) { return -mean * std::log1p(-Unit()); }
  double LogNormal(double mu, double sigma) { return std::exp(mu + sigma * Normal()); }

 private:
  /// Returns a standard normal number by Box and Muller's method. The method's second number is not used.
  double Normal() {
    const double radius = std::sqrt(Exponential(2));
    return radius * std::cos(2 * std::numbers::pi * Unit());
  }

  std::mt19937_64 bits_;
};

/// The distribution of exp(x), where x is normal with mean mu and standard deviation sigma.
struct LogNormalLength {
  double mu, sigma;
};

struct LengthModel {
  LogNormalLength prompt, output;
};

// The means after the cut at 2048 tokens are those of Kwon et al., SOSP 2023 (arXiv 2309.06180), figure 11. The sigmas
// are estimated from its histograms: chat prompts range from a greeting to a pasted document, instructions are similar.
// The mus are fitted so that the lengths after the cut have those means.
constexpr LengthModel kShareGptModel{{4.469, 1.2}, {5.496, 0.9}};
constexpr LengthModel kAlpacaModel{{2.781, 0.6}, {3.662, 0.9}};

int Rounded(double length) { return static_cast<int>(std::clamp(std::round(length), 1.0, 1e9)); }

/// Chooses the lengths of a request at random. Lengths that are too long are chosen again, because published traces
/// leave such requests out.
TraceRequest DrawLengths(const LengthModel& model, int max_model_len, Draw& draw) {
  TraceRequest request;
  do {
    request.prompt_tokens = Rounded(draw.LogNormal(model.prompt.mu, model.prompt.sigma));
    request.output_tokens = Rounded(draw.LogNormal(model.output.mu, model.output.sigma));
  } while (request.prompt_tokens + request.output_tokens > max_model_len);
  return request;
}

TraceRequest DrawRequest(const TraceSpec& spec, Draw& draw) {
  if (spec.lengths == LengthDistribution::kShareGpt) return DrawLengths(kShareGptModel, spec.max_model_len, draw);
  if (spec.lengths == LengthDistribution::kAlpaca) return DrawLengths(kAlpacaModel, spec.max_model_len, draw);
  TraceRequest request;
  request.prompt_tokens = draw.Between(1, spec.max_model_len / 2);
  request.output_tokens = draw.Between(1, spec.max_model_len / 2);
  return request;
}

}  // namespace

std::string_view NameOf(LengthDistribution lengths) {
  if (lengths == LengthDistribution::kShareGpt) return "sharegpt";
  return lengths == LengthDistribution::kAlpaca ? "alpaca" : "uniform";
}

LengthDistribution LengthDistributionNamed(std::string_view name) {
  for (const auto lengths : {LengthDistribution::kShareGpt, LengthDistribution::kAlpaca, LengthDistribution::kUniform})
    if (NameOf(lengths) == name) return lengths;
  Fail("no length distribution is called \"{}\"; there are sharegpt, alpaca and uniform", name);
}

std::vector<TraceRequest> MakeTrace(const TraceSpec& spec) {
  // Below this length, choosing again until the lengths fit would take almost for ever.
  constexpr int kShortestModelLen = 32;
  if (spec.max_model_len < kShortestModelLen) {
    Fail("a trace needs a maximum model length of {} or more tokens, not {}", kShortestModelLen, spec.max_model_len);
  }
  Draw lengths(spec.seed), gaps(~spec.seed);
  std::vector<TraceRequest> trace;
  double now = 0;
  for (int i = 0; i < spec.num_requests; ++i) {
    trace.push_back(DrawRequest(spec, lengths));
    if (spec.requests_per_second > 0) now += gaps.Exponential(1 / spec.requests_per_second);
    trace.back().arrival_seconds = now;
  }
  return trace;
}

double MeanTokens(std::span<const TraceRequest> trace) {
  double tokens = 0;
  for (const TraceRequest& request : trace) tokens += request.prompt_tokens + request.output_tokens;
  return trace.empty() ? 0 : tokens / static_cast<double>(trace.size());
}

}  // namespace quire
