#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/collective/mpi_bootstrap.h"

namespace quire {

struct LinksBench {
  std::string cuts;       // ways to divide a model among all ranks: ranks per stage x number of stages, as "2x1,1x2"
  int64_t row_bytes = 0;  // bytes of a token's row, a multiple of 4
  std::vector<int> rows;  // numbers of rows in a step
};

/// Rank 0 prints this word and then JSON on one line.
inline constexpr const char* kLinksWord = "links ";

/// Measures what ranks wait for in a step, for each way to divide the model among the ranks (cut) and each number of
/// rows, with the collectives that the server uses: an all-reduce of the rows over the ranks of a stage, and a turn:
/// the rows go through all stages, and the sampled tokens come back. Rank 0 prints a list of {tensor, pipeline, rows,
/// sum_seconds, turn_seconds}: means over about half a second (10 to 2,000 rounds). Collective call; throws Error.
int RunLinksBench(const LinksBench& bench, MpiBootstrap& mpi);

}  // namespace quire
