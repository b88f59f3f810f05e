#pragma once

#include "kernels/cuda/decode_case.h"
#include "kernels/cuda/prefill_case.h"
#include "tests/support/random.h"

// Makes random steps of attention over the paged cache, as an engine may plan them: with the head groups of any rank,
// and any lengths.
namespace quire::kernels {

/// Returns chunks of prompts. About half of the steps have tiles that are split.
PrefillShape RandomPrefill(test::Random& random);

/// Returns a batch of contexts, of which some may be empty: for DecodeAttention if `planned`, otherwise for
/// PagedDecode.
DecodeShape RandomDecode(test::Random& random, bool planned);

}  // namespace quire::kernels
