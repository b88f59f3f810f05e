#pragma once

#include "coordinator/api/requests/text_growth.h"
#include "coordinator/text/answers/tool_prompt.h"
#include "coordinator/text/templates/conversation.h"
#include "coordinator/text/templates/template_traits.h"

namespace quire {

// Functions that write tools, calls and results as words, for chat templates that do not show them.

/// Describes the conversation's tools in its system message, or in the first turn where the template shows no system
/// message.
void DescribeTools(const JsonCallForm& form, const TemplateTraits& traits, Conversation& conversation);

/// Writes the calls of earlier answers into the answers' text. False when this program does not write calls in this
/// format. Throws what `growth` throws.
bool WriteOutCalls(ToolFormat format, Conversation& conversation, TextGrowth& growth);

/// Writes the results of calls into turns of the user. A result joins the user's turn beside it, so that users and
/// assistants still alternate. Throws what `growth` throws: each result repeats the name of its function.
void WriteOutResults(Conversation& conversation, TextGrowth& growth);

}  // namespace quire
