#pragma once

#include "coordinator/api/requests/json_fields.h"
#include "coordinator/api/requests/openai_request.h"
#include "coordinator/text/answers/tool.h"

namespace quire {

/// tools, tool_choice and parallel_tool_calls of a chat request. Throws ApiError for what is wrong.
ToolUse ReadTools(const RequestBody& body, const JsonFields& fields);

/// One tool from its parts, whatever endpoint they came through: checks the name, and that the schema is one of an
/// object. `field` is named in errors.
Tool CheckedTool(Tool tool, const std::string& field);

}  // namespace quire
