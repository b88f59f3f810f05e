#include "coordinator/cluster/tier/pinned_prompts.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "comm/base/printable.h"
#include "coordinator/kv_disk/unix_now.h"

namespace quire {

namespace {

constexpr double kUseSeconds = 1800;  // pause between notes of uses; the store records one per hour at most

}  // namespace

/// Pins the prompt, ends the earlier pin of its name, and returns the engine's id of the new pin. If the new pin cannot
/// be made, the earlier pin stays, and the result is nullopt.
std::optional<uint64_t> PinnedPrompts::PinNow(const StoredPin& pin, double seconds, double now) {
  const auto before = ids_.extract(pin.name);
  // All pins together have a limit, so the earlier pin ends first. Its blocks stay cached until a step needs them.
  if (!before.empty()) engine_.Unpin(before.mapped());
  const auto made = engine_.PinPrefix(pin.salt, pin.tokens, now + seconds);
  if (made) {
    ids_[pin.name] = *made;
  } else if (!before.empty()) {
    for (const StoredPin& kept : store_.pins().all()) {
      if (kept.name != pin.name) continue;
      const auto again = engine_.PinPrefix(kept.salt, kept.tokens, now + kept.expires_seconds - UnixNow());
      if (again) ids_[pin.name] = *again;
    }
  }
  return made;
}

std::optional<uint64_t> PinnedPrompts::Pin(StoredPin pin, double seconds, double now) {
  const auto made = PinNow(pin, seconds, now);
  if (!made) return std::nullopt;
  const PrefixSharing& prefixes = engine_.blocks().prefixes();
  const int blocks = prefixes.UsableBlocks(prefixes.FindBlocks(pin.salt, pin.tokens));
  pin.tokens.resize(static_cast<size_t>(blocks * engine_.blocks().block_size()));
  pin.expires_seconds = UnixNow() + seconds;
  pin.replica = replica_;
  next_use_ = 0;
  if (!store_.pins().Keep(pin))
    spdlog::warn("KV on disk: the pin {} is not kept over a restart: {} are kept already", WithoutControls(pin.name),
                 StoredPins::kMost);
  return made;
}

bool PinnedPrompts::Unpin(uint64_t id) {
  const std::string name = NameOf(id);
  if (!name.empty()) return Unpin(name);
  return engine_.Unpin(id);
}

bool PinnedPrompts::Unpin(const std::string& name) {
  const auto kept = store_.pins().all();
  const bool is_kept = std::ranges::find(kept, name, &StoredPin::name) != kept.end();
  store_.pins().Drop(name);
  const auto id = ids_.extract(name);
  return (!id.empty() && engine_.Unpin(id.mapped())) || is_kept;
}

void PinnedPrompts::Forget() {
  for (const StoredPin& pin : store_.pins().all()) {
    if (pin.replica % num_replicas_ == replica_) store_.pins().Drop(pin.name);
  }
  ids_.clear();
}

std::string PinnedPrompts::NameOf(uint64_t id) const {
  const auto named = std::ranges::find_if(ids_, [id](const auto& each) { return each.second == id; });
  return named == ids_.end() ? "" : named->first;
}

void PinnedPrompts::Restore(KvGate& gate, double now) {
  ids_.clear();
  for (StoredPin& pin : store_.pins().all()) {
    if (pin.replica % num_replicas_ != replica_) continue;
    ArrivalPrompt prompt{pin.salt, 0, pin.tokens};
    prompt.tokens.push_back(0);  // an extra token, because the gate leaves the last token to be computed
    const auto pin_it = [this, pin, begin = std::chrono::steady_clock::now(), now] {
      const double then = now + std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      const double seconds = pin.expires_seconds - UnixNow();
      const auto kept = store_.pins().all();
      if (seconds <= 0 || ids_.contains(pin.name) || std::ranges::find(kept, pin.name, &StoredPin::name) == kept.end())
        return;  // the pin has ended or was replaced meanwhile
      if (!PinNow(pin, seconds, then))
        spdlog::info("the pinned prompt {} is not in the cache: it is pinned again after the next start that finds it",
                     WithoutControls(pin.name));
    };
    gate.Bring(std::move(prompt), pin_it, now);
  }
}

void PinnedPrompts::Round(double now) {
  if (ids_.empty() || now < next_use_) return;
  next_use_ = now + kUseSeconds;
  const PrefixCache& cache = engine_.blocks().prefixes().cache();
  for (const PrefixPin& pin : engine_.blocks().pins().all()) {
    std::vector<BlockHash> hashes;
    for (const BlockId block : pin.blocks) {
      if (const auto hash = cache.HashOf(block)) hashes.push_back(*hash);
    }
    store_.NoteUse(hashes);
  }
}

}  // namespace quire
