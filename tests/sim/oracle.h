#pragma once

#include <vector>

#include "coordinator/core/request.h"

namespace quire::sim {

/// A client's request, without the members that the engine adds later.
struct Ask {
  std::vector<TokenId> prompt;
  SamplingSpec sampling;  // sampling of choice 0
  GenerationLimits limits;
  int n = 1;
  int sink_stops_after = 0;  // the text ends after this many tokens, as at a stop string; 0: never
  std::optional<BeamOptions> beams;
  ClientLimits client_limits;  // limits of the client's API key
  int adapter = 0;             // number of the LoRA adapter (Request::adapter)
};

struct Answer {
  std::vector<TokenId> tokens;
  FinishReason reason = FinishReason::kLength;
};

/// The model's scores of one prompt token.
struct PromptScore {
  float logprob;
  int32_t rank;
  std::vector<std::pair<TokenId, float>> top;

  bool operator==(const PromptScore&) const = default;
};

/// Returns the right scores of every prompt token except the first; empty when the client asks for no scores.
std::vector<PromptScore> RightScores(const Ask& ask);

/// Returns the prompt's right pooled vector; empty when the client asks for none.
std::vector<float> RightPooled(const Ask& ask);

/// Returns the right answers, one for each choice. Computes one sequence after another, without paging, batching or
/// faults.
std::vector<Answer> RightAnswers(const Ask& ask);

}  // namespace quire::sim
