#pragma once

#include <string>

#include "comm/model/model_files.h"
#include "comm/topology/topology.h"
#include "coordinator/api/requests/openai_request.h"

namespace quire {

/// Default sampling settings for requests that omit them. The defaults come from the model's generation_config.json, as
/// in vLLM, if the setting is auto and the file exists. Throws Error for a broken file or values out of range.
SamplingDefaults SamplingDefaultsOf(const ModelFiles& model, const Topology::Model& settings);

/// The values that differ from the usual defaults, as text.
std::string DescribeDefaults(const SamplingDefaults& defaults);

}  // namespace quire
