#pragma once

#include <cstdint>
#include <span>

namespace quire {

/// The longest message of the one-shot all-reduce, which is the size of its slots.
inline constexpr int64_t kOneShotCapacity = 1 << 20;  // most bytes of a one-shot sum

/// Returns the size in bytes up to which the one-shot all-reduce should be faster than NCCL on the GPUs of one host. It
/// is used where the ranks do not measure this size themselves, and follows times that vLLM and SGLang published for
/// 8xH100 with NVLink. The published microseconds of one-shot / NCCL are 10 / 17 at 512 KiB and 14 / 19 at 1 MiB with 4
/// ranks, and 13 / 23 at 512 KiB and 21 / 25 at 1 MiB with 6 ranks. With 2 ranks, both methods take equally long at 512
/// KiB, and one-shot is slower at 1 MiB. With 8 ranks, one-shot takes as long for 256 KiB (24 us) as NCCL takes for 512
/// KiB.
int64_t DefaultOneShotThreshold(int ranks);

/// Microseconds for one size, measured on rank 0.
struct SumTiming {
  int64_t bytes;
  double one_shot, library;
};

/// Returns the largest size up to which one-shot is never slower than the library; 0 if one-shot is slower at the first
/// size. Sizes must be in ascending order.
int64_t OneShotThreshold(std::span<const SumTiming> timings);

}  // namespace quire
