#pragma once

#include <algorithm>
#include <cstdint>

namespace quire {

enum class PreemptionMode { kAuto, kRecompute, kSwap };

/// What bringing a preempted request back costs, learned from the steps that were run. Plain arithmetic on measured
/// times; the clock is the caller's.
class RecoveryCost {
 public:
  /// Seconds to move one block between device and host, measured before the first step; 0: not known.
  void SetBlockSeconds(double seconds) { seconds_per_block_ = seconds; }

  /// A step computed `tokens` and moved `blocks`; `swap_seconds` of `seconds` went into the moving. Steps of few tokens
  /// say little about the speed of recomputation and are left out.
  void Observe(int tokens, int blocks, double seconds, double swap_seconds) {
    constexpr int kFewTokens = 32;
    if (tokens >= kFewTokens) Learn(seconds_per_token_, (seconds - swap_seconds) / tokens);
    if (blocks > 0) Learn(seconds_per_block_, swap_seconds / blocks);
  }

  double RecomputeSeconds(int64_t tokens) const { return seconds_per_token_ * static_cast<double>(tokens); }
  /// Out and back again.
  double SwapSeconds(int blocks) const { return 2 * seconds_per_block_ * blocks; }

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(seconds_per_token_, seconds_per_block_);
  }

 private:
  static void Learn(double& known, double seen) {
    seen = std::max(seen, 0.0);
    known = known == 0 ? seen : 0.8 * known + 0.2 * seen;
  }

  double seconds_per_token_ = 0, seconds_per_block_ = 0;
};

}  // namespace quire
