#pragma once

#include <string>

#include "comm/model/model_files.h"
#include "comm/topology/topology.h"
#include "coordinator/api/requests/openai_request.h"

namespace quire {

/// Default sampling settings for requests that omit them, and their source.
struct ChosenSampling {
  SamplingDefaults values;
  GenerationConfigMode source = GenerationConfigMode::kNone;  // never kAuto
};

/// Quire's own sampling defaults. With these defaults a small model samples fewer unlikely tokens.
constexpr SamplingDefaults kQuireSampling = {.temperature = 0.8f, .top_p = 0.95f, .min_p = 0.05f, .top_k = 40};

/// Chooses the defaults as `settings` says. A model's files may set defaults in generation_config.json, or in the
/// metadata `general.sampling.*` of GGUF. In the mode auto, files that set none of temperature, top_k, top_p and min_p
/// leave Quire's own defaults in force, but their repetition penalty still applies. Throws Error for a broken file or
/// values out of range.
ChosenSampling SamplingDefaultsOf(const ModelFiles& model, const Topology::Model& settings);

/// Returns all sampling defaults as text, with their source.
std::string DescribeDefaults(const ChosenSampling& chosen);

}  // namespace quire
