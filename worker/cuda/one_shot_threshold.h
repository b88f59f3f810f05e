#pragma once

#include <cstdint>
#include <span>

namespace quire {

/// Longest message that the one-shot all-reduce takes, and so the size of its slots.
inline constexpr int64_t kOneShotCapacity = 1 << 20;  // bytes

/// Up to how many bytes one exchange beats NCCL on the GPUs of one host, where nothing was measured. From published
/// times on 8xH100 with NVLink: one-shot against NCCL is 10 to 17 us at 512 KiB and 14 to 19 at 1 MiB for 4 ranks, 13
/// to 23 and 21 to 25 for 6 (vllm#24111, #24532); with 2 ranks the fused kernel ties at 512 KiB and loses at 1 MiB
/// (vllm#22086); with 8, 256 KiB take 24 us in one shot, what NCCL takes for 512 KiB (sglang#2904, vllm#42324).
int64_t DefaultOneShotThreshold(int ranks);

/// Microseconds for one size, as rank 0 saw them.
struct SumTiming {
  int64_t bytes;
  double one_shot, library;
};

/// The largest size up to which one-shot is never slower; 0 if it is slower at the first. Sizes ascend.
int64_t OneShotThreshold(std::span<const SumTiming> timings);

}  // namespace quire
