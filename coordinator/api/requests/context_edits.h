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
  bool of_thoughts = false;  // true: clears thoughts; false: clears uses of tools
  int64_t keep = 0;          // number of the latest messages with thoughts, or tool uses, that are not cleared
  // The members below apply only to edits of tool uses.
  int64_t above_tokens = -1, above_uses = -1;  // done only when the prompt has more tokens, or uses; -1: no condition
  int64_t least_tokens = 0;                    // the edit is not done when it would save fewer tokens
  bool all_inputs = false;                     // the inputs of all cleared uses are cleared, too
  std::set<std::string> inputs_of, excluded;   // tools whose inputs are cleared; tools whose uses stay
};

/// The edits that a request wants applied to its conversation before the model sees the conversation.
struct ContextEdits {
  bool asked = false;  // the answer reports the edits that were done
  std::vector<ContextEdit> edits;
};

/// Reads the edits. Throws ApiError for invalid edits, for edits that this server does not support, and for a second
/// edit of the same type. Each edit renders and tokenises the conversation. An edit that asks for a summary is accepted
/// only if its trigger is at least max_model_len tokens, because such an edit is never applied.
ContextEdits ReadContextEdits(const JsonObject& config, int64_t max_model_len);

/// Applies the edits to messages in OpenAI's form. `count` returns the number of tokens of the prompt that given
/// messages make; `count` is called only when an edit might change something. Returns the edits that were applied, in
/// the API's form.
OrderedJson ApplyContextEdits(const ContextEdits& edits, OrderedJson& messages,
                              const std::function<int64_t(const OrderedJson& messages)>& count);

}  // namespace quire
