#include "coordinator/cluster/tier/kv_gate.h"

#include <algorithm>
#include <utility>

#include "comm/base/error.h"

namespace quire {

namespace {

constexpr int64_t kFetchBytes = 64 << 20;
/// A measured time that is older says nothing about the disk's present speed.
constexpr double kMeasurementSeconds = 120;
constexpr double kNewestPart = 0.5;  // weight of the newest measurement

}  // namespace

KvGate::KvGate(KvStore& store, GroupBlocks& group, std::function<void()> wake) : store_(store), group_(group) {
  mailbox_->wake = std::move(wake);
}

KvGate::~KvGate() {
  const std::lock_guard lock(mailbox_->mutex);
  mailbox_->wake = nullptr;
}

KvGate::Gain KvGate::GainOf(const ArrivalPrompt& prompt, const Engine& engine) const {
  Gain gain;
  const PrefixSharing& prefixes = engine.blocks().prefixes();
  if (!prefixes.enabled() || prompt.tokens.empty()) return gain;
  const auto size = static_cast<size_t>(engine.blocks().block_size());
  // The last token is always computed.
  const auto usable = std::span(prompt.tokens).first((prompt.tokens.size() - 1) / size * size);
  gain.cached = static_cast<int>(prefixes.Find(prompt.salt, usable, prompt.adapter).size());
  BlockHash hash = prefixes.Root(prompt.salt, prompt.adapter);
  for (size_t at = 0; at < usable.size(); at += size) {
    const auto tokens = usable.subspan(at, size);
    const BlockHash parent = std::exchange(hash, prefixes.cache().Chain(hash, tokens));
    if (at / size < static_cast<size_t>(gain.cached)) {
      gain.used.push_back(hash);
      continue;
    }
    if (!store_.Holds(hash)) break;
    gain.stored.push_back({hash, parent, {tokens.begin(), tokens.end()}});
  }
  return gain;
}

bool KvGate::IsWorthwhile(const Gain& gain, const Engine& engine, double now) const {
  const auto count = static_cast<double>(gain.stored.size());
  if (gain.stored.empty()) return false;
  const double size = engine.blocks().block_size();
  const double context = (gain.cached + count / 2) * size;
  const double compute = engine.scheduler().cost().TokenSeconds(context) * count * size;
  const bool is_known = seconds_per_block_ > 0 && now - measured_seconds_ < kMeasurementSeconds && compute > 0;
  return !is_known || seconds_per_block_ * count < compute;
}

void KvGate::Pass(Arrival arrival, std::function<void(Arrival)> enter, Engine& engine, double now) {
  Held held{std::move(arrival), std::move(enter), {}, now + kPatienceSeconds, ++last_number_};
  if (held.arrival.prompts) held.prompts = held.arrival.prompts();
  std::erase_if(held.prompts, [&](const ArrivalPrompt& prompt) {
    const Gain gain = GainOf(prompt, engine);
    store_.NoteUse(gain.used);
    return !IsWorthwhile(gain, engine, now);
  });
  if (held.prompts.empty() || group_.block_bytes() == 0) return held.enter(std::move(held.arrival));
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
  while (!fetch_ && !held_.empty() && !Begin(held_.front(), engine, now)) LetThrough(held_.begin());
}

/// Begins to bring stored blocks back for the call's next prompt that gains tokens by that. False: no further prompt
/// gains.
bool KvGate::Begin(Held& held, Engine& engine, double now) {
  for (; !reading_ && !held.prompts.empty(); held.prompts.erase(held.prompts.begin())) {
    const ArrivalPrompt& prompt = held.prompts.front();
    Gain gain = GainOf(prompt, engine);
    if (!IsWorthwhile(gain, engine, now)) continue;
    const auto most = static_cast<size_t>(std::max<int64_t>(1, kFetchBytes / group_.block_bytes()));
    if (gain.stored.size() > most) gain.stored.resize(most);
    const auto size = static_cast<size_t>(engine.blocks().block_size());
    const size_t end = (static_cast<size_t>(gain.cached) + gain.stored.size()) * size;
    Fetch fetch{.ticket = GroupBlocks::NewTicket(), .prompt = prompt, .held = held.number, .prefix = gain.cached};
    fetch.begin_seconds = now;
    fetch.prompt.tokens.resize(end);
    if (!engine.ReserveForStored(fetch.ticket, prompt.salt, prompt.adapter, fetch.prompt.tokens, fetch.prefix))
      continue;
    store_.Read(std::move(gain.stored), static_cast<size_t>(group_.block_bytes()),
                [mailbox = mailbox_, ticket = fetch.ticket](KvStore::Found found) {
                  const std::lock_guard lock(mailbox->mutex);
                  mailbox->found.emplace(ticket, std::move(found));
                  if (mailbox->wake) mailbox->wake();
                });
    reading_ = true;
    fetch_ = std::move(fetch);
    return true;
  }
  return false;
}

/// Takes the store's answer from the mailbox. Drops an answer to a transfer that is over.
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
  const std::vector<BlockId> ids(begin, begin + std::ssize(*fetch_->data));
  fetch_->prompt.tokens.resize((prefix + fetch_->data->size()) * size);
  fetch_->endpoints.assign(static_cast<size_t>(group_.num_ranks()), "");
  fetch_->announced = true;
  group_.Announce(fetch_->ticket, ids);
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
    group_.Distribute(fetch.ticket, fetch.endpoints, std::move(memory));
  }
  if (fetch.ranks_ended == group_.num_ranks()) End(engine, now);
}

/// Makes the fetched blocks findable and lets their call go on. Called when all ranks have ended the transfer.
void KvGate::End(Engine& engine, double now) {
  const Fetch fetch = std::move(*fetch_);
  fetch_.reset();
  bool found = false;  // by lookups; other blocks of the same names may stand in the way after a flush
  if (!fetch.failed && !fetch.data->empty()) {
    engine.CacheStored(fetch.ticket, fetch.prompt.salt, fetch.prompt.adapter, fetch.prompt.tokens, fetch.prefix);
    const double seconds = (now - fetch.begin_seconds) / static_cast<double>(fetch.data->size());
    const bool is_old = seconds_per_block_ == 0 || now - measured_seconds_ > kMeasurementSeconds;
    seconds_per_block_ = is_old ? seconds : (1 - kNewestPart) * seconds_per_block_ + kNewestPart * seconds;
    measured_seconds_ = now;
    const auto& [salt, adapter, tokens] = fetch.prompt;
    const size_t blocks = engine.blocks().prefixes().Find(salt, tokens, adapter).size();
    found = blocks * static_cast<size_t>(engine.blocks().block_size()) == tokens.size();
  } else {
    engine.ReleaseTicket(fetch.ticket);
  }
  if (!found && !held_.empty() && held_.front().number == fetch.held) LetThrough(held_.begin());
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
