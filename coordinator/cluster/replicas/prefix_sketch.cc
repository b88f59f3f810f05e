#include "coordinator/cluster/replicas/prefix_sketch.h"

#include <algorithm>

#include "comm/wire/messages.h"

namespace quire {

PrefixSketch::Hashes PrefixSketch::HashesOf(std::string_view salt, std::span<const TokenId> tokens) const {
  const auto size = static_cast<size_t>(block_size_);
  Hashes hashes;
  uint64_t parent = HashBytes(std::as_bytes(std::span(salt)));
  std::vector<uint64_t> text;  // the previous hash, then the block's tokens
  for (; tokens.size() >= size && hashes.size() < kMostBlocks; tokens = tokens.subspan(size)) {
    text.assign(1, parent);
    text.insert(text.end(), tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(size));
    hashes.push_back(parent = HashBytes(std::as_bytes(std::span(text))));
  }
  return hashes;
}

int PrefixSketch::Leading(const Hashes& hashes, int replica) const {
  const auto known = [&](uint64_t hash) { return noted_.contains(Key(hash, replica)); };
  return static_cast<int>(std::ranges::find_if_not(hashes, known) - hashes.begin());
}

void PrefixSketch::Note(const Hashes& hashes, int replica) {
  for (const uint64_t hash : hashes) {
    const uint64_t key = Key(hash, replica);
    noted_[key] = {replica, ++turn_};
    order_.emplace_back(key, turn_);
  }
  // A note that is renewed leaves its old entry in order_. Such entries are dropped when they reach the front.
  while (noted_.size() > max_ || order_.size() > 4 * max_) {
    const auto [key, turn] = order_.front();
    order_.pop_front();
    const auto it = noted_.find(key);
    if (it != noted_.end() && it->second.turn == turn) noted_.erase(it);
  }
}

void PrefixSketch::Forget(int replica) {
  std::erase_if(noted_, [&](const auto& entry) { return entry.second.replica == replica; });
}

}  // namespace quire
