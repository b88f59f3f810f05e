#pragma once

#include "coordinator/api/requests/json_fields.h"
#include "coordinator/api/requests/openai_request.h"
#include "coordinator/text/answers/tool.h"

namespace quire {

/// Reads tools, tool_choice and parallel_tool_calls of a chat request. Throws ApiError for bad values.
ToolUse ReadTools(const RequestBody& body, const JsonFields& fields);

/// Checks a tool of any endpoint: its name, and that its schema describes an object. Throws ApiError that names
/// `field`.
Tool CheckedTool(Tool tool, const std::string& field);

}  // namespace quire
