#pragma once

#include "comm/base/json.h"
#include "coordinator/api/requests/json_object.h"

namespace quire {

/// Reads the `format` of a custom tool into the JSON schema of the tool's one text. True: the text has to keep to it.
/// Throws ApiError for what it cannot be kept to.
bool AddCustomFormat(const JsonObject& format, OrderedJson& input);

}  // namespace quire
