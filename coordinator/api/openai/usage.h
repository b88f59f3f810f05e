#pragma once

#include "comm/base/json.h"
#include "coordinator/api/openai/event_queue.h"

namespace quire {

/// The tokens of a call, over all its prompts and choices.
struct Usage {
  int prompt_tokens = 0;
  int completion_tokens = 0;
  int cached_tokens = 0;     // part of prompt_tokens
  int reasoning_tokens = 0;  // part of completion_tokens
  int accepted_drafts = 0;   // draft tokens among completion_tokens
  int refused_drafts = 0;    // draft tokens that were computed and are not in the answer
  /// Adds the counts of an event, without reasoning_tokens.
  void Add(const CallEvent& event);
  Json ToJson() const;
};

}  // namespace quire
