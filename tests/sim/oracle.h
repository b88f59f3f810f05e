#pragma once

#include <vector>

#include "coordinator/core/request.h"

namespace quire::sim {

/// What a client asked for, without anything that serving adds.
struct Ask {
  std::vector<TokenId> prompt;
  SamplingSpec sampling;  // of choice 0
  GenerationLimits limits;
  int n = 1;
  int sink_stops_after = 0;  // the text ends after so many tokens, as with a stop string; 0: never
  std::optional<BeamOptions> beams;
  ClientLimits client_limits;  // of its API key
};

struct Answer {
  std::vector<TokenId> tokens;
  FinishReason reason = FinishReason::kLength;
};

/// What the model thinks of one token of a prompt.
struct PromptScore {
  float logprob;
  int32_t rank;
  std::vector<std::pair<TokenId, float>> top;

  bool operator==(const PromptScore&) const = default;
};

/// Of every token of the prompt but the first, where the client asks for it.
std::vector<PromptScore> RightScores(const Ask& ask);

/// What is pooled of the prompt, where the client asks for it; else nothing.
std::vector<float> RightPooled(const Ask& ask);

/// The right answers, one per choice: one sequence after the other, no paging, no batching, no faults.
std::vector<Answer> RightAnswers(const Ask& ask);

}  // namespace quire::sim
