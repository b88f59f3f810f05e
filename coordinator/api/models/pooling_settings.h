#pragma once

#include "comm/model/model_files.h"
#include "comm/topology/topology.h"
#include "coordinator/api/requests/pooling_request.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace quire {

/// Returns the options by which prompts become vectors, scores and classes: from the settings `pooling` and `scoring`,
/// or else from the model's files (modules.json of sentence-transformers, or pooling_type of a GGUF file). The vectors
/// of a step must fit into one message of a worker. If they do not, pooling that only the files name is left out, and a
/// setting that asks for pooling is refused. Throws Error for such a setting, for settings that the model does not
/// support, and for broken files.
PoolingOptions PoolingOf(const ModelFiles& model, const Tokenizer& tokenizer, const Topology& topology);

/// Return the values of the settings `pooling` and `scoring` that select these options.
PoolingMode ModeOf(Pooling pooling);
ScoringMode ScoringOf(const PoolingOptions& options);

}  // namespace quire
