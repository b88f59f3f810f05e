#include "coordinator/api/openai/usage.h"

namespace quire {

void Usage::Add(const CallEvent& event) {
  completion_tokens += event.num_tokens;
  cached_tokens += event.cached_tokens;
  accepted_drafts += event.accepted_drafts;
  refused_drafts += event.refused_drafts;
}

Json Usage::ToJson() const {
  return {{"prompt_tokens", prompt_tokens},
          {"completion_tokens", completion_tokens},
          {"total_tokens", prompt_tokens + completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", cached_tokens}}},
          {"completion_tokens_details",
           {{"reasoning_tokens", reasoning_tokens},
            {"accepted_prediction_tokens", accepted_drafts},
            {"rejected_prediction_tokens", refused_drafts}}}};
}

}  // namespace quire
