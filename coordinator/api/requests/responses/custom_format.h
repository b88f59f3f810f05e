#pragma once

#include "comm/base/json.h"
#include "coordinator/api/requests/json_object.h"

namespace quire {

/// Adds the constraint of a custom tool's `format` to `input`, the JSON schema of the tool's text argument. Returns
/// true if the text is constrained. Throws ApiError for a format that cannot be enforced.
bool AddCustomFormat(const JsonObject& format, OrderedJson& input);

}  // namespace quire
