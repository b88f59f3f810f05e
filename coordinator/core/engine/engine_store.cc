// Cached blocks that are copied to a store, and stored blocks that come back.
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
  QUIRE_CHECK(c.tokens.size() % size == 0 && count > 0, "{} tokens, {} blocks of them cached", c.tokens.size(),
              c.prefix);
  if (!blocks_.prefixes().enabled() || blocks_.has_states()) return false;
  const auto cached = blocks_.prefixes().Find(c.salt, std::span(c.tokens).first(prefix * size), c.adapter);
  const auto is_free = [&](BlockId block) { return blocks_.pool().ref_count(block) == 0; };
  const auto taken = static_cast<int>(std::ranges::count_if(cached, is_free));
  if (cached.size() != prefix || count > blocks_.num_free() - taken - blocks_.watermark_blocks()) return false;
  Tell(c);
  blocks_.device_holdings().Share(c.ticket, cached);
  blocks_.device_holdings().ReserveMore(c.ticket, count);
  return true;
}

void Engine::Do(const command::CacheStored& c) {
  Tell(c);
  Sequence prompt = std::move(NewSequences(c.tokens, 1).front());
  prompt.contents.root = blocks_.prefixes().Root(c.salt, c.adapter);
  prompt.contents.adapter = c.adapter;
  prompt.contents.Restart();
  blocks_.CacheArrived(c.ticket, prompt.num_tokens() / blocks_.block_size(), prompt, c.prefix);
}

}  // namespace quire
