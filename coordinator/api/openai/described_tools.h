#pragma once

#include "coordinator/api/requests/text_growth.h"
#include "coordinator/text/answers/tool_prompt.h"
#include "coordinator/text/templates/conversation.h"
#include "coordinator/text/templates/template_traits.h"

namespace quire {

// Functions that write tools, calls and results as words, for chat templates that do not show them.

/// Describes the conversation's tools in its system message, or in the first user message if the template shows no
/// system message.
void DescribeTools(const JsonCallForm& form, const TemplateTraits& traits, Conversation& conversation);

/// Writes the calls of earlier answers into the answers' text. Returns false if this program cannot write calls in this
/// format. Throws what `growth` throws.
bool WriteOutCalls(ToolFormat format, Conversation& conversation, TextGrowth& growth);

/// Turns results of calls into user messages. A result is joined with the results and user messages that follow it, so
/// that user and assistant messages still alternate. Each result repeats the name of its function, so the texts are
/// counted in `growth`. Throws what `growth` throws.
void WriteOutResults(Conversation& conversation, TextGrowth& growth);

}  // namespace quire
