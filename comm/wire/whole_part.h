#pragma once

#include <cstdint>
#include <vector>

namespace quire {

/// A rank's part of something whole: a KV block, or a sequence's recurrent state, as a group of one rank has it. A run
/// is two numbers: where it begins in the whole, and its bytes. 0 bytes and no runs: this rank cannot cut it.
struct WholePart {
  int64_t bytes = 0;                // bytes of the whole
  std::vector<int64_t> given = {};  // the runs that this rank would send to a group of one rank
  std::vector<int64_t> taken = {};  // the runs that this rank would get from there
};

}  // namespace quire
