#pragma once

#include "comm/base/json.h"

namespace quire {

/// The input of a chat template. The members of its JSON objects have the same order as in the request.
struct Conversation {
  /// Objects with role and content (text). The objects may have members of the API: tool_calls in OpenAI's form with
  /// arguments as text, tool_call_id, name, reasoning_content. Beside tool_calls, the content may be null.
  OrderedJson messages = OrderedJson::array();
  OrderedJson tools;      // a list in OpenAI's form; null: none
  OrderedJson documents;  // a list of objects; null: none
  OrderedJson variables;  // an object of further variables by name; null: none
  bool add_generation_prompt = true;
};

}  // namespace quire
