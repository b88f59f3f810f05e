#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/api/requests/json_object.h"

namespace quire {

/// One entry of the Messages API's `context_management.edits`.
struct ContextEdit {
  bool of_thoughts = false;  // else of uses of tools
  int64_t keep = 0;          // so many of the latest stay
  // Of uses of tools: when it is done, and to what.
  int64_t above_tokens = -1, above_uses = -1;  // of the prompt; -1: whatever they are
  int64_t least_tokens = 0;                    // nothing is done where it would save fewer
  bool all_inputs = false;                     // inputs are cleared, too
  std::set<std::string> inputs_of, excluded;   // names of tools: whose inputs are cleared, and whose uses stay
};

/// What a request wants done to its history before the model sees it.
struct ContextEdits {
  bool asked = false;  // the answer says what was done
  std::vector<ContextEdit> edits;
};

/// Throws ApiError for what is wrong, for edits that this server cannot do, and for a second edit of one type, because
/// each edit renders and tokenises the conversation. max_model_len: edits that wait for a longer prompt are never done.
ContextEdits ReadContextEdits(const JsonObject& config, int64_t max_model_len);

/// Does the edits to a conversation's messages, in OpenAI's form. count: the tokens of the prompt that messages come
/// to; called where an edit may have something to do. Gives the API's list of the edits that were done.
OrderedJson ApplyContextEdits(const ContextEdits& edits, OrderedJson& messages,
                              const std::function<int64_t(const OrderedJson& messages)>& count);

}  // namespace quire
