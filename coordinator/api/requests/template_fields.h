#pragma once

#include "coordinator/api/requests/json_fields.h"
#include "coordinator/api/requests/openai_request.h"
#include "coordinator/text/templates/conversation.h"

namespace quire {

/// Reads chat_template_kwargs, enable_thinking, thinking (or think), reasoning_effort and documents, which a template
/// gets besides messages and tools. Throws ApiError for bad values.
void ReadTemplateFields(const RequestBody& body, const JsonFields& fields, Conversation& conversation);

}  // namespace quire
