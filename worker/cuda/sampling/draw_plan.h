#pragma once

#include <cstdint>
#include <vector>

#include "worker/engine/sequence_table.h"

namespace quire {

/// The grammar's answer about a row's next token (worker/sampling/draw.h).
struct HostMask {
  TokenConstraint::Outcome outcome = TokenConstraint::Outcome::kMasked;
  std::vector<uint32_t> allowed;  // empty: the row has no grammar
};

/// Says how the tokens of a step are sampled.
struct DrawPlan {
  std::vector<BatchMember> members;      // the members for which tokens are sampled
  std::vector<size_t> host_rows;         // indices into `members`: rows that only the host can sample
  std::vector<HostMask> masks;           // one mask per host row, filled once the grammars' masks were computed
  int num_candidates = 0;                // candidates per row from each shard; part of the launches' shape
  int64_t num_biases = 0, num_bans = 0;  // totals over all members
  bool surely_on_device = true;          // no row can turn out to need the host
};

}  // namespace quire
