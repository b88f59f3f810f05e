#pragma once

#include <string>

#include "comm/model/model_files.h"
#include "comm/topology/topology.h"
#include "coordinator/api/requests/openai_request.h"

namespace quire {

/// Sampling settings of requests that bring none: those of the model's generation_config.json, as vLLM has them, if the
/// settings say auto and there is such a file. Throws Error for a file that is broken or has values out of range.
SamplingDefaults SamplingDefaultsOf(const ModelFiles& model, const Topology::Model& settings);

/// In words: what differs from what is usual.
std::string DescribeDefaults(const SamplingDefaults& defaults);

}  // namespace quire
