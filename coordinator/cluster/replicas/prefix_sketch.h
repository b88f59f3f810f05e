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

/// Remembers which leading blocks of prompts were last sent to which replica. This is an estimate of what each
/// replica's prefix cache holds, good enough to choose a replica. Different salts never match, because a hit would
/// reveal another client's prompt. The number of entries is bounded: the oldest entries are forgotten. Belongs to one
/// thread.
class PrefixSketch {
 public:
  explicit PrefixSketch(int block_size, size_t max_blocks = 1 << 16) : block_size_(block_size), max_(max_blocks) {}

  using Hashes = std::vector<uint64_t>;
  /// Returns the chained hashes of a prompt's full blocks, at most kMostBlocks.
  Hashes HashesOf(std::string_view salt, std::span<const TokenId> tokens) const;

  /// Returns the number of the prompt's leading blocks that the replica probably has cached.
  int Leading(const Hashes& hashes, int replica) const;
  /// Notes that a prompt with these blocks is sent to the replica.
  void Note(const Hashes& hashes, int replica);
  /// Forgets the replica's blocks. Call it when the replica has lost its workers.
  void Forget(int replica);

 private:
  static constexpr size_t kMostBlocks = 1024;  // most blocks of one prompt
  static uint64_t Key(uint64_t hash, int replica) {
    return hash ^ (uint64_t{0x9e3779b97f4a7c15} * (static_cast<uint64_t>(replica) + 1));
  }

  int block_size_;
  size_t max_;
  struct Noted {
    int replica;
    uint64_t turn;  // number of the latest Note; entries of order_ with a lower number are stale
  };
  std::unordered_map<uint64_t, Noted> noted_;        // keyed by Key()
  std::deque<std::pair<uint64_t, uint64_t>> order_;  // (key, turn), oldest first
  uint64_t turn_ = 0;
};

}  // namespace quire
