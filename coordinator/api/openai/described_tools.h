#pragma once

#include "coordinator/api/requests/text_growth.h"
#include "coordinator/text/answers/tool_prompt.h"
#include "coordinator/text/templates/conversation.h"
#include "coordinator/text/templates/template_traits.h"

namespace quire {

// Words in place of tools, calls and results that a chat template does not show.

/// Moves the conversation's tools into its system message, or into the first turn where the template shows no system
/// message.
void DescribeTools(const JsonCallForm& form, const TemplateTraits& traits, Conversation& conversation);

/// Turns the calls of earlier answers into words of these answers. False: calls in this format are not written here.
/// Throws what `growth` throws.
bool WriteOutCalls(ToolFormat format, Conversation& conversation, TextGrowth& growth);

/// Turns the results of calls into words of the user's turns. A result joins the user's turn beside it, so that users
/// and assistants still alternate. Throws what `growth` throws: each result repeats the name of its function.
void WriteOutResults(Conversation& conversation, TextGrowth& growth);

}  // namespace quire
