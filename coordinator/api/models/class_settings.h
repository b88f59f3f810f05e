#pragma once

#include <string>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/api/requests/pooling_request.h"

namespace quire {

// Functions that read what config.json says about a classifier's classes. `outputs`: the number of classes. `path`: the
// file's path, for errors. They throw Error for broken files.

/// Returns the function by which the classes' numbers become probabilities. sentence-transformers' name for it comes
/// first, then HF's kind of problem. A single number without either is the sigmoid's.
ClassScale ScaleOf(const Json& config, int64_t outputs, const std::string& path);
/// Returns the classes' names, of at most 1,024 bytes each: id2label, or HF's names for classes without one.
std::vector<std::string> LabelsOf(const Json& config, int64_t outputs, const std::string& path);

}  // namespace quire
