#include "coordinator/cluster/tier/kv_gate.h"

#include <algorithm>
#include <utility>

#include "comm/base/error.h"

namespace quire {

namespace {

constexpr int64_t kFetchBytes = 64 << 20;

}  // namespace

KvGate::KvGate(KvStore& store, GroupBlocks& group, std::function<void()> wake) : store_(store), group_(group) {
  mailbox_->wake = std::move(wake);
}

KvGate::~KvGate() {
  const std::lock_guard lock(mailbox_->mutex);
  mailbox_->wake = nullptr;
}

StoredGain KvGate::GainOf(const ArrivalPrompt& prompt, const Engine& engine) const {
  StoredGain gain;
  const PrefixSharing& prefixes = engine.blocks().prefixes();
  if (!prefixes.enabled() || prompt.tokens.empty()) return gain;
  const auto size = static_cast<size_t>(engine.blocks().block_size());
  // The last token is always computed, so blocks before it suffice.
  const auto usable = std::span(prompt.tokens).first((prompt.tokens.size() - 1) / size * size);
  const std::vector<BlockId> cached = prefixes.FindBlocks(prompt.salt, usable, prompt.adapter);
  gain.cached = static_cast<int>(cached.size());
  gain.end = gain.usable = prefixes.UsableBlocks(cached);
  BlockHash hash = prefixes.Root(prompt.salt, prompt.adapter);
  const HostCache& host = engine.blocks().host_cache();
  bool in_a_row = true;  // all blocks before this one are cached or have copies
  for (int at = 0; static_cast<size_t>(at) * size < usable.size(); ++at) {
    const auto tokens = usable.subspan(static_cast<size_t>(at) * size, size);
    const BlockHash parent = std::exchange(hash, prefixes.cache().Chain(hash, tokens));
    if (at >= gain.cached && !store_.Holds(hash)) break;
    const auto copy = host.Find(hash, tokens);
    in_a_row = in_a_row && (at < gain.cached || copy);
    if (in_a_row && copy && (!engine.blocks().has_states() || !host.StateAfter(*copy).empty())) gain.from_host = at + 1;
    StoredName name{hash, parent, {tokens.begin(), tokens.end()}, StoredKind::kBlock};
    if (at < gain.cached)
      gain.used.push_back(hash);
    else
      gain.stored.push_back(name);
    if (!engine.blocks().has_states()) {
      gain.end = at + 1;
    } else if (at >= gain.usable && store_.Holds(hash, StoredKind::kState)) {
      gain.end = at + 1;
      name.kind = StoredKind::kState;
      gain.state = {std::move(name)};
    }
  }
  gain.stored.resize(static_cast<size_t>(std::max(0, gain.end - gain.cached)));
  return gain;
}

bool KvGate::IsWorthwhile(const StoredGain& gain, const Engine& engine, double now) const {
  if (gain.stored.empty() && gain.state.empty()) return false;
  // The engine itself brings back blocks that have host copies.
  const int begin = std::max(gain.usable, gain.from_host);
  if (begin >= gain.end) return false;
  const double size = engine.blocks().block_size(), count = gain.end - begin;
  const double context = (begin + count / 2) * size;
  const double compute = engine.scheduler().cost().TokenSeconds(context) * count * size;
  const bool is_known = (gain.stored.empty() || block_pace_.IsKnown(now)) &&
                        (gain.state.empty() || state_pace_.IsKnown(now)) && compute > 0;
  const double fetch = block_pace_.seconds() * static_cast<double>(gain.stored.size()) +
                       state_pace_.seconds() * static_cast<double>(gain.state.size());
  return !is_known || fetch < compute;
}

void KvGate::Pass(const std::string& client, Arrival arrival, std::function<void(Arrival)> enter, Engine& engine,
                  double now) {
  Held held{std::move(arrival), std::move(enter), {}, now + kPatienceSeconds, ++last_number_, client};
  if (held.arrival.prompts) held.prompts = held.arrival.prompts();
  std::erase_if(held.prompts, [&](const ArrivalPrompt& prompt) {
    const StoredGain gain = GainOf(prompt, engine);
    store_.NoteOrigin(engine.blocks().prefixes().Root(prompt.salt, prompt.adapter),
                      OriginOf(prompt.salt, prompt.adapter));
    store_.NoteUse(gain.used);
    return !IsWorthwhile(gain, engine, now);
  });
  if (held.prompts.empty() || group_.bytes_of(StoredKind::kBlock) == 0) return held.enter(std::move(held.arrival));
  turns_.Come(client);
  held_.push_back(std::move(held));
  turns_.Forget(held_);
}

void KvGate::Bring(ArrivalPrompt prompt, std::function<void()> done, double now) {
  Held held;
  held.arrival.abandoned = [] { return false; };
  held.enter = [done = std::move(done)](const Arrival&) { done(); };
  held.prompts.push_back(std::move(prompt));
  held.deadline = now + kBringSeconds;
  held.number = ++last_number_;
  held.always = true;
  turns_.Come(held.client);
  held_.push_back(std::move(held));
}

void KvGate::LetThrough(std::list<Held>::iterator held) {
  Held passing = std::move(*held);
  held_.erase(held);
  passing.enter(std::move(passing.arrival));
}

void KvGate::Round(Engine& engine, double now) {
  if (held_.empty() && !fetch_) return;
  std::erase_if(held_, [](const Held& held) { return held.arrival.abandoned(); });
  if (fetch_) Advance(engine, now);
  for (auto held = held_.begin(); held != held_.end();) {
    const auto next = std::next(held);
    if (now >= held->deadline) LetThrough(held);
    held = next;
  }
  while (!fetch_ && !held_.empty()) {
    const auto next = turns_.Next(held_);
    if (!Begin(*next, engine, now)) LetThrough(next);
  }
}

/// Begins to bring back the stored blocks of the call's next prompt for which this saves time (with Held::always, of
/// the next prompt with any). Skips other prompts. Returns false if there is no such prompt, or while the store still
/// reads for another transfer.
bool KvGate::Begin(Held& held, Engine& engine, double now) {
  for (; !reading_ && !held.prompts.empty(); held.prompts.erase(held.prompts.begin())) {
    const ArrivalPrompt& prompt = held.prompts.front();
    StoredGain gain = GainOf(prompt, engine);
    const bool any = !gain.stored.empty() || !gain.state.empty();
    if (held.always ? !any : !IsWorthwhile(gain, engine, now)) continue;
    const StoredKind kind = gain.stored.empty() ? StoredKind::kState : StoredKind::kBlock;
    const int64_t bytes = group_.bytes_of(kind);
    std::vector<StoredName> names = std::move(kind == StoredKind::kState ? gain.state : gain.stored);
    const auto most = static_cast<size_t>(std::max<int64_t>(1, kFetchBytes / bytes));
    if (names.size() > most) names.resize(most);
    const int end = kind == StoredKind::kState ? gain.end : gain.cached + static_cast<int>(names.size());
    Fetch fetch{.ticket = GroupBlocks::NewTicket(), .kind = kind, .prompt = prompt, .held = held.number};
    fetch.prefix = kind == StoredKind::kState ? gain.end : gain.cached;
    fetch.begin_seconds = now;
    fetch.prompt.tokens.resize(static_cast<size_t>(end * engine.blocks().block_size()));
    if (!engine.ReserveForStored(fetch.ticket, prompt.salt, prompt.adapter, fetch.prompt.tokens, fetch.prefix))
      continue;
    store_.Read(std::move(names), static_cast<size_t>(bytes),
                [mailbox = mailbox_, ticket = fetch.ticket](KvStore::Found found) {
                  const std::lock_guard lock(mailbox->mutex);
                  mailbox->found.emplace(ticket, std::move(found));
                  if (mailbox->wake) mailbox->wake();
                });
    reading_ = true;
    turns_.Take(held.client);
    fetch_ = std::move(fetch);
    return true;
  }
  return false;
}

/// Takes the store's answer from the mailbox. Drops an answer for a transfer that is over.
void KvGate::TakeFound() {
  const std::lock_guard lock(mailbox_->mutex);
  if (!mailbox_->found) return;
  reading_ = false;
  if (fetch_ && fetch_->ticket == mailbox_->found->first) {
    fetch_->read = true;
    fetch_->data = std::make_shared<KvStore::Found>(std::move(mailbox_->found->second));
  }
  mailbox_->found.reset();
}

/// Tells the ranks to wait for the blocks that the store has found.
void KvGate::Announce(Engine& engine) {
  const auto size = static_cast<size_t>(engine.blocks().block_size()), prefix = static_cast<size_t>(fetch_->prefix);
  const std::vector<BlockId>& blocks = engine.blocks().device_holdings().Find(fetch_->ticket)->blocks;
  const auto begin = blocks.begin() + static_cast<ptrdiff_t>(prefix);
  const bool is_state = fetch_->kind == StoredKind::kState;
  const std::vector<BlockId> ids(begin, is_state ? blocks.end() : begin + std::ssize(*fetch_->data));
  if (!is_state) fetch_->prompt.tokens.resize((prefix + fetch_->data->size()) * size);
  fetch_->endpoints.assign(static_cast<size_t>(group_.num_ranks()), "");
  fetch_->announced = true;
  group_.Announce({fetch_->ticket, fetch_->kind}, ids);
}

void KvGate::Advance(Engine& engine, double now) {
  TakeFound();
  Fetch& fetch = *fetch_;
  if (!fetch.read) return;
  if (fetch.data->empty()) return End(engine, now);
  if (!fetch.announced) return Announce(engine);
  const bool ready = std::ranges::find(fetch.endpoints, "") == fetch.endpoints.end();
  if (!fetch.sent && ready && !fetch.failed) {
    BlockPort::Blocks memory{{}, fetch.data};
    for (std::vector<std::byte>& block : *fetch.data) memory.memory.emplace_back(block);
    fetch.sent = true;
    group_.Distribute({fetch.ticket, fetch.kind}, fetch.endpoints, std::move(memory));
  }
  if (fetch.ranks_ended == group_.num_ranks()) End(engine, now);
}

/// True when lookups find all blocks that arrived. After a flush of the cache, a running sequence may have cached other
/// blocks under the same hashes; lookups then fail.
bool KvGate::CanGoOn(const Fetch& fetch, const Engine& engine) const {
  const PrefixSharing& prefixes = engine.blocks().prefixes();
  const auto& [salt, adapter, tokens] = fetch.prompt;
  const std::vector<BlockId> blocks = prefixes.FindBlocks(salt, tokens, adapter);
  const int found = fetch.kind == StoredKind::kState ? prefixes.UsableBlocks(blocks) : static_cast<int>(blocks.size());
  return static_cast<size_t>(found * engine.blocks().block_size()) == tokens.size();
}

/// Ends the transfer, which has ended on all ranks, or never began because the store found nothing.
void KvGate::End(Engine& engine, double now) {
  const Fetch fetch = std::move(*fetch_);
  fetch_.reset();
  bool goes_on = false;
  if (!fetch.failed && !fetch.data->empty()) {
    engine.CacheStored(fetch.ticket, fetch.prompt.salt, fetch.prompt.adapter, fetch.prompt.tokens, fetch.prefix);
    FetchPace& pace = fetch.kind == StoredKind::kState ? state_pace_ : block_pace_;
    pace.Note((now - fetch.begin_seconds) / static_cast<double>(fetch.data->size()), now);
    goes_on = CanGoOn(fetch, engine);
  } else {
    engine.ReleaseTicket(fetch.ticket);
    // The store has found the file damaged, and may have a state after fewer tokens.
    goes_on = fetch.kind == StoredKind::kState && !fetch.failed;
  }
  const auto held = std::ranges::find(held_, fetch.held, &Held::number);
  if (!goes_on && held != held_.end()) LetThrough(held);
}

bool KvGate::OnReport(Rank rank, const BlocksReport& report) {
  if (!fetch_ || report.ticket != fetch_->ticket) return false;
  if (report.state == BlocksReport::kReady) {
    fetch_->endpoints[static_cast<size_t>(rank)] = report.endpoint;
    return true;
  }
  ++fetch_->ranks_ended;
  const bool failed = report.state == BlocksReport::kFailed;
  if (failed && !std::exchange(fetch_->failed, true)) group_.Stop(fetch_->ticket);
  return true;
}

void KvGate::Forget() {
  if (fetch_) group_.Drop(fetch_->ticket);
  fetch_.reset();
}

void KvGate::Open() {
  Forget();
  while (!held_.empty()) LetThrough(held_.begin());
}

}  // namespace quire
