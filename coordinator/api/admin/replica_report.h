#pragma once

#include "comm/base/json.h"
#include "coordinator/cluster/replicas/replica.h"

namespace quire {

/// serving, paused, recovering or failed.
const char* StateOf(const Replica& replica);
/// Without the health, which is the reader's to judge; see HealthOf.
Json RankJson(const RankInfo& info, Rank rank);
/// ok; late (no beat for a second); starting (its group is started again); lost.
const char* HealthOf(const RankInfo& info, const Replica& replica);

/// What the clients have that were served last; a server without keys has no end of them.
Json ClientsJson(const Engine& engine);
Json LossJson(const LossLog::Entry& loss);
/// Null without a journal.
Json JournalJson(const std::optional<JournalHealth>& health);

}  // namespace quire
