#pragma once

#include <string>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/api/requests/pooling_request.h"

namespace quire {

// Functions that read what config.json says about a classifier's classes. `outputs`: the number of classes. `path`: the
// file's path, for errors. The functions throw Error for broken files.

/// Returns the function that turns a classifier's logits into probabilities. An activation that the configuration names
/// for sentence-transformers decides first, then HF's problem_type. Without both, a single logit goes through the
/// sigmoid, several logits through the softmax.
ClassScale ScaleOf(const Json& config, int64_t outputs, const std::string& path);
/// Returns the names of the classes, of at most 1,024 bytes each: the name in id2label, or "LABEL_" and the number for
/// a class without a name there.
std::vector<std::string> LabelsOf(const Json& config, int64_t outputs, const std::string& path);

}  // namespace quire
