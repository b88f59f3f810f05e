#include "tests/sim/disk.h"

#include <algorithm>
#include <utility>

namespace quire::sim {

Disk::Disk(uint64_t seed, Engine& engine, std::vector<SimWorker>& workers)
    : random_(RandomOf(seed, Draws::kDisk)),
      on_(random_.Below(2) == 0 && engine.options().blocks.hash_bits == 128),
      engine_(engine),
      workers_(workers),
      block_size_(static_cast<size_t>(engine.options().blocks.block_size)),
      files_(seed) {
  if (on_) engine_.AddCacheListener(this);
}

/// Returns the name of block `index` of the sequence, or of the state after it.
StoredName Disk::NameOf(const Sequence& sequence, size_t index, StoredKind kind) const {
  const auto begin = sequence.tokens.begin() + static_cast<ptrdiff_t>(index * block_size_);
  return {sequence.contents.hashes[index],
          index == 0 ? sequence.contents.root : sequence.contents.hashes[index - 1],
          {begin, begin + static_cast<ptrdiff_t>(block_size_)},
          kind};
}

/// Returns the name of the last of the prompt's first num_blocks blocks, or of the state after it.
StoredName Disk::NameOf(const Arrival& arrival, int num_blocks, StoredKind kind) const {
  StoredName name{engine_.blocks().prefixes().Root(arrival.cache_salt, arrival.ask.adapter), {}, {}, kind};
  for (int at = 0; at < num_blocks; ++at) ToNext(arrival, at, name);
  return name;
}

/// Changes `name` from the name of the block before block `index` of the prompt to the name of block `index`.
void Disk::ToNext(const Arrival& arrival, int index, StoredName& name) const {
  const auto tokens = std::span(arrival.ask.prompt).subspan(static_cast<size_t>(index) * block_size_, block_size_);
  name.parent = std::exchange(name.hash, engine_.blocks().prefixes().cache().Chain(name.hash, tokens));
  name.tokens.assign(tokens.begin(), tokens.end());
}

void Disk::OnFindable(const Sequence& sequence, int index) {
  const auto at = static_cast<size_t>(index);
  const Name name{NameOf(sequence, at, StoredKind::kBlock),
                  {sequence.blocks.begin(), sequence.blocks.begin() + index + 1},
                  {sequence.contents.hashes.begin(), sequence.contents.hashes.begin() + index + 1}};
  if (engine_.blocks().prefixes().cache().Chain(name.stored.parent, name.stored.tokens) != name.stored.hash)
    throw Failure{fmt::format("block {} is found under another name than its content has", sequence.blocks[at])};
  fresh_.emplace_back(sequence.blocks[at], name);
}

void Disk::BeginToSave(size_t num_sent) {
  Saving saving{++last_ticket_, {}, {}, num_sent};
  const auto most = static_cast<size_t>(random_.Between(1, 4));
  for (; !fresh_.empty() && saving.blocks.size() < most; fresh_.pop_front()) {
    const auto& [block, name] = fresh_.front();
    const bool is_known = files_.Holds(name.stored);
    if (is_known || engine_.blocks().prefixes().cache().HashOf(block) != name.stored.hash) continue;
    saving.blocks.push_back(block);
    saving.names.push_back(name);
  }
  if (saving.blocks.empty()) return;
  // The blocks before the stored blocks are held and released with them, so that no block is reused before the blocks
  // that follow it.
  std::vector<BlockId> held;
  const auto hold = [&](BlockId block, const BlockHash& hash) {
    const bool is_there = block != kNullBlock && engine_.blocks().prefixes().cache().HashOf(block) == hash;
    if (is_there && std::ranges::find(held, block) == held.end()) held.push_back(block);
  };
  for (const Name& name : saving.names) {
    for (size_t i = 0; i < name.blocks.size(); ++i) hold(name.blocks[i], name.hashes[i]);
  }
  if (!engine_.HoldCached(saving.ticket, held)) throw Failure{"cached blocks cannot be held"};
  saving_ = std::move(saving);
}

std::vector<KvValue> Disk::ReadAlike(BlockId block) const {
  std::vector<KvValue> values = workers_.front().Read(block);
  for (const SimWorker& worker : workers_) {
    if (worker.Read(block) != values) throw Failure{"workers store different blocks"};
  }
  return values;
}

void Disk::OnStateKept(const Sequence& sequence, int num_tokens, CheckpointId id) {
  const size_t index = static_cast<size_t>(num_tokens) / block_size_ - 1;
  if (static_cast<size_t>(num_tokens) % block_size_ != 0)
    throw Failure{fmt::format("a state is kept after {} tokens, within a block", num_tokens)};
  if (num_tokens > sequence.num_tokens())
    throw Failure{fmt::format("a state is kept after {} of {} tokens", num_tokens, sequence.num_tokens())};
  fresh_states_.emplace_back(id, NameOf(sequence, index, StoredKind::kState));
}

void Disk::BeginToSaveState(size_t num_sent) {
  const auto [id, name] = fresh_states_.front();
  fresh_states_.pop_front();
  const auto& kept = engine_.blocks().prefixes().checkpoints().all();
  const auto checkpoint = kept.find(id);
  if (checkpoint == kept.end() || files_.Holds(name)) return;
  SavingState saving{++last_ticket_, checkpoint->second.blocks, name, num_sent};
  if (!engine_.HoldCached(saving.ticket, saving.blocks)) throw Failure{"a kept state cannot be held"};
  saving_state_ = std::move(saving);
}

void Disk::SaveState() {
  std::vector<KvValue> words;
  for (const BlockId block : saving_state_->blocks) std::ranges::copy(ReadAlike(block), std::back_inserter(words));
  files_.Write(saving_state_->name, words);
  ++num_stored_states;
  engine_.ReleaseTicket(saving_state_->ticket);
  saving_state_.reset();
}

/// Fetches a stored state of the prompt: the last state that follows a cached block, if the cache itself cannot use the
/// blocks up to this state because it lacks one.
void Disk::BeginToFetchState(size_t num_sent, const Arrival& some) {
  const PrefixSharing& prefixes = engine_.blocks().prefixes();
  const std::span<const TokenId> prompt(some.ask.prompt);
  const auto cached = prefixes.FindBlocks(some.cache_salt, prompt, some.ask.adapter);
  const int usable = prefixes.UsableBlocks(cached);
  int end = 0;
  StoredName name = NameOf(some, usable, StoredKind::kState);
  for (int at = usable; at < std::ssize(cached); ++at) {
    ToNext(some, at, name);
    if (files_.Holds(name)) end = at + 1;
  }
  if (end == 0) return;
  const Fetch fetch{++last_ticket_, &some, end, 0, num_sent};
  const BlockManager& blocks = engine_.blocks();
  const auto taken = std::count_if(cached.begin(), cached.begin() + end,
                                   [&](BlockId block) { return blocks.pool().ref_count(block) == 0; });
  const bool has_room = blocks.states().num_blocks() <= blocks.num_free() - taken - blocks.watermark_blocks();
  if (engine_.ReserveForStored(fetch.ticket, some.cache_salt, some.ask.adapter, TokensOf(fetch, 0), end) != has_room)
    throw Failure{fmt::format("blocks are {}set aside for a stored state", has_room ? "not " : "")};
  if (has_room) fetch_ = fetch;
}

void Disk::EndFetchOfState(const Fetch& fetch, std::span<const BlockId> blocks) {
  const PrefixSharing& prefixes = engine_.blocks().prefixes();
  const std::string& salt = fetch.of->cache_salt;
  const int adapter = fetch.of->ask.adapter;
  const std::vector<TokenId> tokens = TokensOf(fetch, 0);
  const auto state = files_.Read(NameOf(*fetch.of, fetch.prefix, StoredKind::kState), blocks.size() * block_size_);
  const bool lost = random_.Below(5) == 0 || !state;
  for (size_t i = 0; i < blocks.size(); ++i) {
    std::vector<KvValue> values(block_size_, 0xbad);
    if (!lost) std::ranges::copy(std::span(*state).subspan(i * block_size_, block_size_), values.begin());
    for (SimWorker& worker : workers_) worker.Fill(blocks[i], values);
  }
  if (lost) return engine_.ReleaseTicket(fetch.ticket);
  const auto cached = prefixes.FindBlocks(salt, tokens, adapter);
  engine_.CacheStored(fetch.ticket, salt, adapter, tokens, fetch.prefix);
  if (engine_.blocks().device_holdings().Find(fetch.ticket) != nullptr)
    throw Failure{"blocks stay set aside for a state that has come"};
  if (std::ssize(cached) == fetch.prefix && prefixes.UsableBlocks(cached) != fetch.prefix)
    throw Failure{"a stored state that came is not found"};
  ++num_returned_states;
}

void Disk::Save() {
  for (size_t i = 0; i < saving_->blocks.size(); ++i) {
    std::vector<KvValue> values = ReadAlike(saving_->blocks[i]);
    const Name& name = saving_->names[i];
    for (size_t at = 1; at < block_size_; ++at) {
      if (values[at] != NextKv(values[at - 1], name.stored.tokens[at]))
        throw Failure{fmt::format("block {} is stored under the name of other tokens", saving_->blocks[i])};
    }
    files_.Write(name.stored, values);
    ++num_stored;
  }
  engine_.ReleaseTicket(saving_->ticket);
  saving_.reset();
}

std::vector<TokenId> Disk::TokensOf(const Fetch& fetch, int count) const {
  const auto& prompt = fetch.of->ask.prompt;
  return {prompt.begin(),
          prompt.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(fetch.prefix + count) * block_size_)};
}

void Disk::BeginToFetch(size_t num_sent, std::span<const Arrival> arrived) {
  if (arrived.empty()) return;
  const Arrival& some = arrived[static_cast<size_t>(random_.Below(std::ssize(arrived)))];
  if (engine_.blocks().has_states() && random_.Below(2) == 0) return BeginToFetchState(num_sent, some);
  const PrefixSharing& prefixes = engine_.blocks().prefixes();
  const std::span<const TokenId> prompt(some.ask.prompt);
  const auto usable = prompt.first((prompt.size() - 1) / block_size_ * block_size_);
  const auto cached = prefixes.FindBlocks(some.cache_salt, usable, some.ask.adapter);
  int known = 0;
  StoredName name = NameOf(some, static_cast<int>(cached.size()), StoredKind::kBlock);
  for (size_t at = cached.size(); (at + 1) * block_size_ <= usable.size(); ++at, ++known) {
    ToNext(some, static_cast<int>(at), name);
    if (!files_.Holds(name)) break;
  }
  if (known == 0) return;
  const int count = random_.Below(2) == 0 ? known : static_cast<int>(random_.Between(1, known));
  Fetch fetch{++last_ticket_, &some, static_cast<int>(cached.size()), count, num_sent};
  const BlockManager& blocks = engine_.blocks();
  const auto taken = std::ranges::count_if(cached, [&](BlockId block) { return blocks.pool().ref_count(block) == 0; });
  const bool has_room = prefixes.enabled() && count <= blocks.num_free() - taken - blocks.watermark_blocks();
  if (engine_.ReserveForStored(fetch.ticket, some.cache_salt, some.ask.adapter, TokensOf(fetch, count), fetch.prefix) !=
      has_room)
    throw Failure{fmt::format("{} blocks are {}set aside for stored ones", count, has_room ? "not " : "")};
  if (has_room) fetch_ = fetch;
}

/// True when the prefix is still cached, and no block has the hash of a block that comes back. A block may have the
/// hash although lookups do not find it: a sequence holds the block, but the cache has forgotten the blocks before it.
bool Disk::IsClear(const Fetch& fetch, std::span<const TokenId> tokens) const {
  const PrefixSharing& prefixes = engine_.blocks().prefixes();
  const std::string& salt = fetch.of->cache_salt;
  const int adapter = fetch.of->ask.adapter;
  const auto prefix = tokens.first(static_cast<size_t>(fetch.prefix) * block_size_);
  if (!prefixes.enabled() || std::ssize(prefixes.FindBlocks(salt, prefix, adapter)) != fetch.prefix) return false;
  BlockHash hash = prefixes.Root(salt, adapter);
  for (size_t at = 0; at < tokens.size(); at += block_size_) {
    hash = prefixes.cache().Chain(hash, tokens.subspan(at, block_size_));
    if (at < prefix.size()) continue;
    for (BlockId block = 1; block <= engine_.blocks().num_usable(); ++block) {
      if (prefixes.cache().HashOf(block) == hash) return false;
    }
  }
  return true;
}

void Disk::EndFetch() {
  const Fetch fetch = *std::exchange(fetch_, std::nullopt);
  const MigrationHolding* holding = engine_.blocks().device_holdings().Find(fetch.ticket);
  const int reserved = fetch.count > 0 ? fetch.count : engine_.blocks().states().num_blocks();
  if (holding == nullptr || std::ssize(holding->blocks) != fetch.prefix + reserved)
    throw Failure{"blocks that were set aside for stored ones are gone"};
  if (fetch.count == 0)
    return EndFetchOfState(fetch, std::span(holding->blocks).subspan(static_cast<size_t>(fetch.prefix)));
  const PrefixSharing& prefixes = engine_.blocks().prefixes();
  const bool lost = random_.Below(5) == 0;
  const int most = random_.Below(3) > 0 ? fetch.count : static_cast<int>(random_.Between(1, fetch.count));
  const std::string& salt = fetch.of->cache_salt;
  int came = 0;  // blocks up to the first one whose file is missing or damaged
  StoredName name = NameOf(*fetch.of, fetch.prefix, StoredKind::kBlock);
  for (int i = fetch.prefix; i < fetch.prefix + most && came == i - fetch.prefix; ++i) {
    ToNext(*fetch.of, i, name);
    const auto values = files_.Read(name, block_size_);
    came += values.has_value();
    for (SimWorker& worker : workers_)
      worker.Fill(holding->blocks[static_cast<size_t>(i)],
                  values && !lost ? *values : std::vector<KvValue>(block_size_, 0xbad));
  }
  if (lost || came == 0) return engine_.ReleaseTicket(fetch.ticket);
  const std::vector<TokenId> tokens = TokensOf(fetch, came);
  const bool is_clear = IsClear(fetch, tokens);
  engine_.CacheStored(fetch.ticket, salt, fetch.of->ask.adapter, tokens, fetch.prefix);
  if (engine_.blocks().device_holdings().Find(fetch.ticket) != nullptr)
    throw Failure{"blocks stay set aside for stored ones that have come"};
  const auto found = std::ssize(prefixes.FindBlocks(salt, tokens, fetch.of->ask.adapter));
  if (is_clear && found != fetch.prefix + came)
    throw Failure{fmt::format("{} of {} blocks are found after the stored ones came", found, fetch.prefix + came)};
  num_returned += came;
}

void Disk::Round(size_t num_sent, std::span<const Arrival> arrived) {
  if (!on_) return;
  if (saving_ && saving_->plans_before == 0 && random_.Below(2) == 0) Save();
  if (!saving_ && !fresh_.empty() && random_.Below(2) == 0) BeginToSave(num_sent);
  if (saving_state_ && saving_state_->plans_before == 0 && random_.Below(2) == 0) SaveState();
  if (!saving_state_ && !fresh_states_.empty() && random_.Below(2) == 0) BeginToSaveState(num_sent);
  if (fetch_ && fetch_->plans_before == 0 && random_.Below(3) == 0) EndFetch();
  if (!fetch_ && random_.Below(4) == 0) BeginToFetch(num_sent, arrived);
}

void Disk::PlanRan() {
  if (saving_ && saving_->plans_before > 0) --saving_->plans_before;
  if (saving_state_ && saving_state_->plans_before > 0) --saving_state_->plans_before;
  if (fetch_ && fetch_->plans_before > 0) --fetch_->plans_before;
}

void Disk::GroupLost() {
  fresh_.clear();
  fresh_states_.clear();
  saving_.reset();
  saving_state_.reset();
  fetch_.reset();
}

void Disk::End() {
  if (saving_) engine_.ReleaseTicket(saving_->ticket);
  if (saving_state_) engine_.ReleaseTicket(saving_state_->ticket);
  if (fetch_) engine_.ReleaseTicket(fetch_->ticket);
  GroupLost();
}

}  // namespace quire::sim
