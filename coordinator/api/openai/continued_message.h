#pragma once

#include <string>

#include "comm/base/json.h"
#include "coordinator/text/marked_text.h"

namespace quire {

/// For `continue_final_message`: the answer goes on from the last message's words. The last message gets a mark behind
/// its words before the template renders the conversation, and the rendered text is cut at the mark.

/// Puts a mark that no message contains behind the words of the last of `messages`; returns the mark. Takes time in
/// proportion to the conversation. Throws ApiError when the last message has no words.
std::string MarkEndOfLastMessage(OrderedJson& messages);

/// Returns the text up to the mark, so that the answer continues the message. Spaces at the message's end stay when the
/// template shows them. Throws ApiError when the template changed the mark.
MarkedText CutAtMark(const MarkedText& text, const std::string& mark);

}  // namespace quire
