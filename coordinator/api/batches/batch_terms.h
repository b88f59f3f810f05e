#pragma once

#include <string>

#include "coordinator/api/batches/store_limits.h"

namespace quire {

/// Reads the body of POST /v1/batches. Throws ApiError 400 that names the field.
BatchTerms ReadBatchTerms(const std::string& body);

}  // namespace quire
