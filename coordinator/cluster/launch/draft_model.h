#pragma once

#include "comm/model/model_files.h"
#include "comm/topology/topology.h"
#include "comm/wire/messages.h"

namespace quire {

/// Returns the settings of the draft model or prediction layer that the topology asks for, for the assignment of a
/// group that serves `model`. The settings have 0 tokens if the topology asks for no such model or layer. Reads only
/// headers of files. Throws SettingsError, which names both models, when the draft model cannot be opened or does not
/// fit `model`. Vocabularies are compared elsewhere (text/tokenizer/same_tokens.h).
DraftModelSettings DraftModelOf(const Topology& topology, const ModelFiles& model);

/// Returns the most rows that sequences with drafts may have together in one step; 0: no sequence has drafts.
int32_t MostDraftRows(const Topology& topology);

}  // namespace quire
