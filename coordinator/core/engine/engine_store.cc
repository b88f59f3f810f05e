// Engine's functions for cached blocks that are copied to a store, and for stored blocks that come back.
#include <algorithm>

#include "comm/base/error.h"
#include "coordinator/core/engine/engine.h"

namespace quire {

bool Engine::Do(const command::HoldCached& c) {
  const BlockPool& pool = blocks_.pool();
  const auto cached = [&](BlockId block) { return block > 0 && block <= pool.num_usable() && pool.keeps(block); };
  if (!std::ranges::all_of(c.blocks, cached)) return false;
  Tell(c);
  blocks_.device_holdings().Share(c.ticket, {c.blocks.begin(), c.blocks.end()});
  return true;
}

bool Engine::Do(const command::ReserveForStored& c) {
  const auto size = static_cast<size_t>(blocks_.block_size()), prefix = static_cast<size_t>(c.prefix);
  const int count = static_cast<int>(c.tokens.size() / size - prefix);
  const bool for_state = count == 0 && blocks_.has_states();
  QUIRE_CHECK(c.tokens.size() % size == 0 && (count > 0 || for_state), "{} tokens, {} blocks of them cached",
              c.tokens.size(), c.prefix);
  if (!blocks_.prefixes().enabled()) return false;
  const auto cached = blocks_.prefixes().FindBlocks(c.salt, std::span(c.tokens).first(prefix * size), c.adapter);
  const bool is_kept = for_state && blocks_.prefixes().UsableBlocks(cached) == c.prefix;
  const int needed = for_state ? blocks_.states().num_blocks() : count;
  const auto is_free = [&](BlockId block) { return blocks_.pool().ref_count(block) == 0; };
  const auto taken = static_cast<int>(std::ranges::count_if(cached, is_free));
  const bool has_room = needed <= blocks_.num_free() - taken - blocks_.watermark_blocks();
  if (cached.size() != prefix || is_kept || !has_room) return false;
  Tell(c);
  blocks_.device_holdings().Share(c.ticket, cached);
  blocks_.device_holdings().ReserveMore(c.ticket, needed);
  return true;
}

void Engine::Do(const command::CacheStored& c) {
  Tell(c);
  Sequence prompt = std::move(NewSequences(c.tokens, 1).front());
  prompt.contents.root = blocks_.prefixes().Root(c.salt, c.adapter);
  prompt.contents.adapter = c.adapter;
  prompt.contents.Restart();
  const int count = prompt.num_tokens() / blocks_.block_size();
  if (blocks_.has_states() && count == c.prefix)
    blocks_.CacheState(c.ticket, prompt);
  else
    blocks_.CacheArrived(c.ticket, count, prompt, c.prefix);
}

}  // namespace quire
