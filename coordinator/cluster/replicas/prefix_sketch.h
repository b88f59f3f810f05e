#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "comm/base/types.h"

namespace quire {

/// Which replica was last given which leading blocks of prompts: a guess of what its prefix cache holds, good enough to
/// choose a replica by. Never wrong about salts (a hit of another client's prompt would tell that it was there).
/// Bounded: the blocks noted longest ago are forgotten. Belongs to one thread.
class PrefixSketch {
 public:
  explicit PrefixSketch(int block_size, size_t max_blocks = 1 << 16) : block_size_(block_size), max_(max_blocks) {}

  using Hashes = std::vector<uint64_t>;
  /// The chained hashes of a prompt's full blocks, kMostBlocks at most.
  Hashes HashesOf(std::string_view salt, std::span<const TokenId> tokens) const;

  /// Leading blocks that the replica was given.
  int Leading(const Hashes& hashes, int replica) const;
  void Note(const Hashes& hashes, int replica);
  /// The replica's cache is empty: its workers were lost.
  void Forget(int replica);

 private:
  static constexpr size_t kMostBlocks = 1024;  // of a prompt
  static uint64_t Key(uint64_t hash, int replica) {
    return hash ^ (uint64_t{0x9e3779b97f4a7c15} * (static_cast<uint64_t>(replica) + 1));
  }

  int block_size_;
  size_t max_;
  struct Noted {
    int replica;
    uint64_t turn;  // of the last note: older entries of the order are stale
  };
  std::unordered_map<uint64_t, Noted> noted_;        // by Key
  std::deque<std::pair<uint64_t, uint64_t>> order_;  // (key, turn), oldest first
  uint64_t turn_ = 0;
};

}  // namespace quire
