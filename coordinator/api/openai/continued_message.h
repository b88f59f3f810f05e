#pragma once

#include <string>

#include "comm/base/json.h"
#include "coordinator/text/marked_text.h"

namespace quire {

// With `continue_final_message` the answer continues the last message. MarkEndOfLastMessage puts a mark at the end of
// that message, the template renders the conversation, and CutAtMark cuts the rendered text at the mark.

/// Appends a mark that no message contains, and a space, to the last message's text. Returns the mark. The time is
/// proportional to the conversation. Throws ApiError when the last message has no text.
std::string MarkEndOfLastMessage(OrderedJson& messages);

/// Returns the text before the mark. Spaces at the message's end stay if the template kept the space after the mark.
/// Throws ApiError when the template changed the mark.
MarkedText CutAtMark(const MarkedText& text, const std::string& mark);

}  // namespace quire
