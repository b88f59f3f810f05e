#pragma once

#include <string>

#include "coordinator/api/requests/json_fields.h"

namespace quire {

/// Returns the text of `prediction`, the answer that the client expects: {"type": "content", "content": a text or a
/// list of text parts}. Joins parts. Returns "" when the field is absent. Throws ApiError for another form.
std::string ReadPrediction(const JsonFields& fields);

}  // namespace quire
