#pragma once

#include "comm/model/model_files.h"
#include "comm/topology/topology.h"
#include "coordinator/api/requests/pooling_request.h"
#include "coordinator/text/tokenizer.h"

namespace quire {

/// What is made of prompts besides texts: as the settings say (pooling, scoring), else as the model's own files do,
/// those of sentence-transformers beside an HF model (modules.json) or a GGUF's pooling_type. max_running: sequences
/// that may be pooled in one step, whose vectors must fit a frame. Throws Error for files that are broken, and for
/// settings that the model cannot be used with.
PoolingOptions PoolingOf(const ModelFiles& model, const Tokenizer& tokenizer, const Topology::Model& settings,
                         int max_running);

/// The settings that say what the model's files, or those, came to.
PoolingMode ModeOf(Pooling pooling);
ScoringMode ScoringOf(const PoolingOptions& options);

}  // namespace quire
