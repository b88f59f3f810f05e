#pragma once

#include <cstdint>

namespace quire {

using TokenId = int32_t;      // index into the vocabulary
using BlockId = int32_t;      // index into the block pool, the same on every rank; 0 is the null block
using SequenceId = uint64_t;  // never reused during the life of the coordinator process
using RequestId = uint64_t;
using EpochId = uint64_t;  // number of a start of the worker group, counted from 1; each restart begins a new epoch
using StepId = uint64_t;   // counted from 1 within an epoch, without gaps
using Rank = int32_t;      // 0 .. world size - 1

inline constexpr BlockId kNullBlock = 0;  // block 0, which no sequence ever owns

}  // namespace quire
