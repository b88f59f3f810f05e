#pragma once

#include "comm/base/json.h"

namespace quire {

/// What a request brings to its model's template, in the order that it was written in.
struct Conversation {
  /// Objects with role and content (text), and what else the API has for them: tool_calls of OpenAI's form with their
  /// arguments as text, tool_call_id, name, reasoning_content. A content may be null beside tool_calls.
  OrderedJson messages = OrderedJson::array();
  OrderedJson tools;      // a list of OpenAI's objects; null: none
  OrderedJson documents;  // a list of objects; null: none
  OrderedJson variables;  // an object: what the template may read besides, by name; null: nothing
  bool add_generation_prompt = true;
};

}  // namespace quire
