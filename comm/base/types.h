#pragma once

#include <cstdint>

namespace quire {

using TokenId = int32_t;      // index into the vocabulary
using BlockId = int32_t;      // index into the block pool, the same on every rank; 0 is the null block
using SequenceId = uint64_t;  // never reused while the coordinator lives
using RequestId = uint64_t;
using EpochId = uint64_t;  // number of one life of the worker group, counted from 1
using StepId = uint64_t;   // counted from 1 inside an epoch, no gaps
using Rank = int32_t;      // 0 .. world size - 1

inline constexpr BlockId kNullBlock = 0;  // never owned by a sequence

}  // namespace quire
