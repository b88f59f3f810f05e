#pragma once

#include <string>

#include "coordinator/api/requests/json_fields.h"

namespace quire {

/// Reads `prediction`, {"type": "content", "content": a text or a list of text parts}: the answer that the client
/// expects. Returns "" when the field is absent. Throws ApiError for another form.
std::string ReadPrediction(const JsonFields& fields);

}  // namespace quire
