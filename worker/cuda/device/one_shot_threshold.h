#pragma once

#include <cstdint>
#include <span>

namespace quire {

/// The longest message of the one-shot all-reduce, which is the size of its slots.
inline constexpr int64_t kOneShotCapacity = 1 << 20;  // most bytes of a one-shot sum

/// Returns the size in bytes up to which the one-shot all-reduce is faster than NCCL on the GPUs of one host, if
/// nothing is measured. It is based on times that vLLM and SGLang published for 8xH100 with NVLink. 4 ranks: 10 us
/// (one-shot) against 17 us (NCCL) at 512 KiB, 14 against 19 at 1 MiB. 6 ranks: 13 against 23, and 21 against 25. 2
/// ranks: equal at 512 KiB, one-shot slower at 1 MiB. 8 ranks: one-shot takes 24 us for 256 KiB, NCCL for 512 KiB.
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
