#pragma once

#include "comm/base/json.h"

namespace quire {

/// The input of a chat template from one request, in the order in which it was written.
struct Conversation {
  /// Objects with role and content (text), and optional API members: tool_calls in OpenAI's form with arguments as
  /// text, tool_call_id, name, reasoning_content. The content may be null beside tool_calls.
  OrderedJson messages = OrderedJson::array();
  OrderedJson tools;      // a list in OpenAI's form; null: none
  OrderedJson documents;  // a list of objects; null: none
  OrderedJson variables;  // an object of further variables by name; null: none
  bool add_generation_prompt = true;
};

}  // namespace quire
