#pragma once

#include "kernels/cuda/decode_case.h"
#include "kernels/cuda/prefill_case.h"
#include "tests/support/random.h"

// Random steps of attention over the paged cache, as an engine may plan them: the head groups of any rank, any lengths.
namespace quire::kernels {

/// Returns chunks of prompts. About half of the steps have tiles that are split.
PrefillShape RandomPrefill(test::Random& random);

/// Returns a batch of contexts, some of them empty: for DecodeAttention if `planned`, otherwise for PagedDecode.
DecodeShape RandomDecode(test::Random& random, bool planned);

}  // namespace quire::kernels
