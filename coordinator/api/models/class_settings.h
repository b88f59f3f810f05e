#pragma once

#include <string>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/api/requests/pooling_request.h"

namespace quire {

// Functions that read what config.json says about a classifier's classes. `outputs`: the number of classes. `path`: the
// file's path, for errors. The functions throw Error for broken files.

/// Returns the function by which the classes' numbers become probabilities. An activation that sentence-transformers
/// names decides first, then HF's problem_type. Without both, a single number goes through the sigmoid, several numbers
/// through the softmax.
ClassScale ScaleOf(const Json& config, int64_t outputs, const std::string& path);
/// Returns the classes' names, of at most 1,024 bytes each: id2label, or HF's names for classes without one.
std::vector<std::string> LabelsOf(const Json& config, int64_t outputs, const std::string& path);

}  // namespace quire
