#pragma once

#include <simt/device.cuh>

#include "kernels/cuda/sampling/sampling_math.cuh"
#include "kernels/route_experts.h"

namespace quire::kernels {

/// Combines a number and its index into one integer: the greater integer belongs to the greater number, or to the lower
/// index if the numbers are equal. NaN ranks lowest. 0 means no number.
__device__ inline uint64_t RankOf(float number, int place) {
  return uint64_t{OrderedBits(Clean(number))} << 32 | (0xffffffffu - static_cast<uint32_t>(place));
}
__device__ inline int PlaceOf(uint64_t rank) { return static_cast<int>(0xffffffffu - static_cast<uint32_t>(rank)); }

/// Returns the highest rank among the warp's lanes.
__device__ inline uint64_t HighestOfWarp(uint64_t rank) {
  for (int mask = 16; mask > 0; mask /= 2) rank = simt::Max(rank, simt::ShuffleXor(rank, mask));
  return rank;
}

/// The kernel of RouteExperts: one warp per token. Lane l handles experts l, l + 32, ..., and groups l, l + 32, ...
struct RouteExpertsKernel {
  using Params = RouteExpertsParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 32;
  static constexpr int64_t SharedSize(int64_t experts) { return 3 * simt::SharedBytes(experts * 4); }

  struct Token {
    simt::SharedArray<float> score, compared, group;  // [experts] each; `group` uses one entry per group
  };

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    simt::SharedArena arena;
    const Token token{arena.template Take<float>(p.num_experts), arena.template Take<float>(p.num_experts),
                      arena.template Take<float>(p.num_experts)};
    Score(p, token);
    if (p.num_groups > 1) LeaveBestGroups(p, token);
    Choose(p, token);
  }

  /// Computes the scores of all experts. Each lane reads only what it wrote itself.
  static __device__ void Score(const Params& p, const Token& token) {
    const simt::Global<const float> logits = simt::Global<const float>(p.logits) + simt::BlockX() * p.logits_stride;
    const simt::Global<const float> correction(p.correction);
    const int lane = simt::ThreadX();
    float most = -kInfinity, sum = 0;
    for (int e = lane; e < p.num_experts; e += 32) most = simt::Max(most, static_cast<float>(logits[e]));
    for (int mask = 16; mask > 0; mask /= 2) most = simt::Max(most, simt::ShuffleXor(most, mask));
    for (int e = lane; e < p.num_experts; e += 32) {
      const float logit = logits[e];
      float score = logit;
      if (p.score == RouterScore::kSoftmax) score = simt::Exp(logit - most);
      if (p.score == RouterScore::kSigmoid) score = 1 / (1 + simt::Exp(-logit));
      token.score[e] = score;
      sum += score;
    }
    for (int mask = 16; mask > 0; mask /= 2) sum += simt::ShuffleXor(sum, mask);
    for (int e = lane; e < p.num_experts; e += 32) {
      const float score = token.score[e];
      const float scaled = p.score == RouterScore::kSoftmax ? score / sum : score;
      token.score[e] = scaled;
      float added = 0;
      if (p.correction != nullptr) added = correction[e];
      token.compared[e] = scaled + added;
    }
    simt::SyncWarp();
  }

  /// Excludes from the comparison the experts that are not in one of the best groups.
  static __device__ void LeaveBestGroups(const Params& p, const Token& token) {
    const int lane = simt::ThreadX(), size = static_cast<int>(p.num_experts / p.num_groups);
    for (int g = lane; g < p.num_groups; g += 32) {
      float first = -kInfinity, second = -kInfinity;
      for (int e = g * size; e < (g + 1) * size; ++e) {
        const float score = token.compared[e];
        if (score > first) {
          second = first;
          first = score;
        } else if (score > second) {
          second = score;
        }
      }
      token.group[g] = first + second;
    }
    simt::SyncWarp();
    uint64_t last = ~uint64_t{0};  // rank of the worst group that stays
    for (int64_t i = 0; i < p.groups_per_token; ++i) last = NextBest(token.group, p.num_groups, last);
    for (int e = lane; e < p.num_experts; e += 32) {
      if (RankOf(token.group[e / size], e / size) < last) token.compared[e] = -kInfinity;
    }
    simt::SyncWarp();
  }

  /// Returns the highest rank below `bound`. Different indices never have the same rank.
  static __device__ uint64_t NextBest(const simt::SharedArray<float>& numbers, int64_t count, uint64_t bound) {
    uint64_t best = 0;
    for (int i = simt::ThreadX(); i < count; i += 32) {
      const uint64_t rank = RankOf(numbers[i], i);
      if (rank < bound) best = simt::Max(best, rank);
    }
    return HighestOfWarp(best);
  }

  /// Chooses the token's experts. Lane j holds the j-th choice.
  static __device__ void Choose(const Params& p, const Token& token) {
    const int lane = simt::ThreadX(), count = static_cast<int>(p.experts_per_token);
    uint64_t rank = ~uint64_t{0};
    int mine = 0;
    for (int j = 0; j < count; ++j) {
      rank = NextBest(token.compared, p.num_experts, rank);
      if (lane == j) mine = PlaceOf(rank);
    }
    if (p.score == RouterScore::kSparseMixer) return Mix(p, token, mine);
    const float score = token.score[mine];
    const float most = simt::Broadcast(score, 0);
    float weight = lane < count ? (p.score == RouterScore::kSoftmaxOfChosen ? simt::Exp(score - most) : score) : 0.0f;
    float sum = weight;
    for (int mask = 16; mask > 0; mask /= 2) sum += simt::ShuffleXor(sum, mask);
    if (p.score == RouterScore::kSigmoid) sum += kLeastSigmoidSum;
    if (p.renormalize || p.score == RouterScore::kSoftmaxOfChosen) weight /= sum;
    if (lane < count) Store(p, mine, weight * p.scale);
  }

  /// Stores this lane's choice.
  static __device__ void Store(const Params& p, int expert, float weight) {
    const int64_t at = simt::BlockX() * p.experts_per_token + simt::ThreadX();
    const simt::Global<const float> scales(p.expert_scales);
    if (p.expert_scales != nullptr) weight *= scales[expert];
    simt::Global<int32_t>(p.experts)[at] = expert;
    simt::Global<float>(p.weights)[at] = weight;
  }

  /// Computes the weights of kSparseMixer. Lane j has the j-th choice. The choices before it have higher
  /// ranks.
  static __device__ void Mix(const Params& p, const Token& token, int mine) {
    const int lane = simt::ThreadX(), count = static_cast<int>(p.experts_per_token);
    float weight = 0;
    for (int j = 0; j < count; ++j) {
      const int expert = simt::Broadcast(mine, j);
      const float own = token.score[expert];
      const uint64_t rank = RankOf(own, expert);
      float sum = 0;
      for (int e = lane; e < p.num_experts; e += 32) {
        const float other = token.score[e];
        const bool far = (own - other) / simt::Max(other < 0 ? -other : other, own) > p.tolerance;
        if (!far && RankOf(other, e) <= rank) sum += simt::Exp(other - own);
      }
      for (int mask = 16; mask > 0; mask /= 2) sum += simt::ShuffleXor(sum, mask);
      if (lane == j) weight = p.scale / sum;
    }
    if (lane < count) Store(p, mine, weight);
  }
};

/// The kernel of GroupByExpert. A pair is a token with one of its chosen experts. One thread block per expert of this
/// rank counts the pairs of earlier experts, then assigns rows to its own pairs in order. One more thread block writes
/// where the last expert's rows end, and sets row_of_pair to -1 for pairs with experts of other ranks.
struct GroupByExpertKernel {
  using Params = GroupByExpertParams;
  static constexpr bool kOverlapsPrevious = true;
  static constexpr int kThreads = 256, kWarps = kThreads / 32;
  static constexpr int64_t kSharedSize = 2 * simt::SharedBytes(kWarps * 4);

  static __device__ void Run(const Params& p) {
    simt::TriggerDependents();
    simt::WaitForPrerequisites();
    simt::SharedArena arena;
    const simt::SharedArray<int32_t> counts[2] = {arena.template Take<int32_t>(kWarps),
                                                  arena.template Take<int32_t>(kWarps)};
    const simt::Global<const int32_t> experts(p.experts);
    const auto local = static_cast<int32_t>(simt::BlockX()), first = static_cast<int32_t>(p.first_expert);
    const int32_t expert = first + local;
    const int thread = simt::ThreadX(), lane = thread % 32, warp = thread / 32;
    int32_t below = 0;
    for (int64_t pair = thread; pair < p.num_pairs; pair += kThreads) {
      const int32_t chosen = experts[pair];
      below += chosen >= first && chosen < expert ? 1 : 0;
      if (local == p.num_experts && (chosen < first || chosen >= expert)) {
        simt::Global<int32_t>(p.row_of_pair)[pair] = -1;
      }
    }
    for (int mask = 16; mask > 0; mask /= 2) below += simt::ShuffleXor(below, mask);
    if (lane == 0) counts[0][warp] = below;
    simt::SyncThreads();
    int32_t next = 0;
    for (int w = 0; w < kWarps; ++w) next += counts[0][w];
    if (thread == 0) simt::Global<int32_t>(p.start)[local] = next;
    if (local == p.num_experts) return;
    int turn = 1;
    for (int64_t base = 0; base < p.num_pairs; base += kThreads, turn ^= 1) {
      const int64_t pair = base + thread;
      const bool mine = pair < p.num_pairs && experts[pair] == expert;
      const uint32_t votes = simt::Ballot(mine);
      if (lane == 0) counts[turn][warp] = simt::PopCount(votes);
      simt::SyncThreads();
      int32_t before = 0, all = 0;
      for (int w = 0; w < kWarps; ++w) {
        const int32_t count = counts[turn][w];
        before += w < warp ? count : 0;
        all += count;
      }
      if (mine) {
        const int32_t row = next + before + simt::PopCount(votes & ((1u << lane) - 1));
        simt::Global<int32_t>(p.pair_of_row)[row] = static_cast<int32_t>(pair);
        simt::Global<int32_t>(p.row_of_pair)[pair] = row;
      }
      next += all;
    }
  }
};

}  // namespace quire::kernels
