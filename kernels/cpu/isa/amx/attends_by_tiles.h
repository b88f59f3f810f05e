#pragma once

#include "kernels/cpu/isa/amx/terms.h"
#include "kernels/paged_attention.h"

namespace quire::kernels::QUIRE_ISA {

/// The smallest number of query heads per KV head for which requests are known to be faster by AMX tiles. Every key and
/// value is split into bf16 terms once for all query heads of its KV head. With three query heads, the attention kernel
/// by itself takes 1.07 times as long for a decoded token as with vector instructions. In whole requests, however,
/// prompts, decoded tokens and batches are faster (docs/benchmarks/2026-11-28-amx.md). Smaller groups were not
/// measured.
inline constexpr int64_t kLeastGroup = 3;

/// Returns whether AMX tiles compute the attention. The cache must be in fp16, the head size a multiple of 32, and the
/// block size a multiple of 16. There must be at least kLeastGroup times as many query heads as KV heads.
/// relative_bias, context_begin and out_dim are not supported. All steps of a rank get the same answer, so a row's bits
/// do not depend on its step.
inline bool AttendsByTiles(const PagedAttentionParams& p) {
  return p.cache.type == NumberType::kF16 && p.cache.block_size % kLanes == 0 &&
         p.cache.head_dim % kPairedNumbers == 0 && p.num_heads >= kLeastGroup * p.cache.num_kv_heads &&
         p.relative_bias == nullptr && p.context_begin == nullptr && p.out_dim == 0;
}

}  // namespace quire::kernels::QUIRE_ISA
