#pragma once

#include "comm/model/model_files.h"
#include "comm/topology/topology.h"
#include "coordinator/api/requests/pooling_request.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace quire {

/// Returns the options with which prompts become embeddings and scores: from the settings `pooling` and `scoring`, or
/// else from the model's files (modules.json of sentence-transformers, or pooling_type of a GGUF file). max_running:
/// the sequences that one step may pool; their embeddings must fit a frame. Throws Error for broken files and for
/// settings that the model does not support.
PoolingOptions PoolingOf(const ModelFiles& model, const Tokenizer& tokenizer, const Topology::Model& settings,
                         int max_running);

/// Return the values of the settings `pooling` and `scoring` that mean these options.
PoolingMode ModeOf(Pooling pooling);
ScoringMode ScoringOf(const PoolingOptions& options);

}  // namespace quire
