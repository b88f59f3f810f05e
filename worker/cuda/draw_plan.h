#pragma once

#include <cstdint>
#include <vector>

#include "worker/engine/sequence_table.h"

namespace quire {

/// What a row's grammar says of its next token (worker/sampling/draw.h).
struct HostMask {
  TokenConstraint::Outcome outcome = TokenConstraint::Outcome::kMasked;
  std::vector<uint32_t> allowed;  // empty: the row has no grammar
};

/// How a step's tokens are drawn.
struct DrawPlan {
  std::vector<BatchMember> members;      // those that draw
  std::vector<size_t> host_rows;         // of those: rows whose settings only the host's sampler knows
  std::vector<HostMask> masks;           // of the host's rows, once their grammars were asked
  int num_candidates = 0;                // that each shard reports of a row: part of the shape of the launches
  int64_t num_biases = 0, num_bans = 0;  // of all members
  bool surely_on_device = true;          // no row can turn out to need the host
};

}  // namespace quire
