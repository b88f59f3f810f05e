#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/wire/step_plan.h"

namespace quire {

/// One sequence's part of a step: the sequence in `slot` computes tokens [start, start + count). `draws` is true when
/// this range reaches the sequence's last token; the step then samples the next token. `scores` are the prompt rows of
/// the range to score. The last `num_drafts` tokens are draft tokens; a token is also sampled in place of each of them.
/// With a slice of a pass, the range is the whole prompt if the slice completes the pass, and empty otherwise.
struct BatchMember {
  SlotId slot;
  int start;
  int count;
  bool draws;
  ScoredRows scores = {};
  int num_drafts = 0;
  Slice slice = {};

  bool in_slices() const { return slice.count > 0; }
  /// Returns the number of the member's rows from which a token is sampled.
  int num_rows() const { return draws ? 1 + num_drafts : 0; }
};

/// Tokens that a step in flight will sample: between 1 and max_tokens. The first one goes to `position` of the sequence
/// with number `serial` in `slot`.
struct PendingDraw {
  SlotId slot;
  uint64_t serial;
  size_t position;
  size_t max_tokens = 1;
};

}  // namespace quire
