#pragma once

#include <cstdint>
#include <vector>

namespace quire {

/// A rank's part of a whole. The whole is a KV block, or a sequence's recurrent state, in the layout that a group of
/// one rank uses. A run has two numbers: the byte at which the run begins in the whole, and its length in bytes. If a
/// rank's part cannot be expressed as runs, `bytes` is 0 and there are no runs.
struct WholePart {
  int64_t bytes = 0;                // bytes of the whole
  std::vector<int64_t> given = {};  // begin and length of each run that this rank would send to a group of one rank
  std::vector<int64_t> taken = {};  // begin and length of each run that this rank would get from a group of one rank
};

}  // namespace quire
