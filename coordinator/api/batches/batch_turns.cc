// The part of BatchRunner that chooses the batches to work on.
#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "coordinator/api/batches/active_batch.h"

namespace quire {

namespace {

constexpr size_t kMostAtOnce[] = {16, 4, 64};  // most batches of each Turn that are worked on at the same time

}  // namespace

/// Begins the work on batches for which it may begin now, and stops batches that were cancelled.
void BatchRunner::Update(const std::vector<UnfinishedBatch>& unfinished) {
  lacking_memory_.clear();
  std::array<size_t, std::size(kMostAtOnce)> taken{};  // batches of each Turn; a kRun batch that may not go is left out
  for (const ActivePtr& active : active_)
    taken[static_cast<size_t>(active->turn)] += active->turn != Turn::kRun || MayGo(active->client);
  for (const UnfinishedBatch& batch : unfinished) {
    const auto known = std::ranges::find(active_, batch.id, [](const ActivePtr& active) { return active->id; });
    const bool cancelled = batch.status == BatchStatus::kCancelling;
    if (known == active_.end()) {
      const Turn turn = cancelled ? Turn::kCancel : batch.expires_at <= NowSeconds() ? Turn::kExpire : Turn::kRun;
      const auto place = static_cast<size_t>(turn);
      if (taken[place] < kMostAtOnce[place] && MayBegin(batch, turn) && Begin(batch, turn)) ++taken[place];
    } else if (cancelled && !(*known)->stopping) {
      Stop(**known, BatchStatus::kCancelled);
    }
  }
}

/// True when the work on a batch may begin. For each client, at most one batch runs and at most one expired batch is
/// being ended at a time. A batch runs only while its client's requests may run. A cancelled batch needs no memory, so
/// several cancelled batches of a client may be ended at a time.
bool BatchRunner::MayBegin(const UnfinishedBatch& batch, Turn turn) const {
  if (turn == Turn::kCancel) return true;
  const auto is_own = [&](const ActivePtr& active) { return active->turn == turn && active->client == batch.client; };
  return std::ranges::none_of(active_, is_own) && (turn == Turn::kExpire || MayGo(batch.client));
}

/// Begins the work on a batch. Returns false while the batch's client lacks the memory to read the input. An expired
/// batch whose input can never fit into that memory, and a cancelled batch, end without being read.
bool BatchRunner::Begin(const UnfinishedBatch& batch, Turn turn) {
  const auto active = std::make_shared<Active>();
  active->id = batch.id;
  active->client = batch.client;
  active->endpoint = batch.endpoint;
  active->expires_at = batch.expires_at;
  active->turn = turn;
  active->memory = memory_.For(batch.client);
  const ByteBudget::Verdict verdict =
      turn == Turn::kCancel ? ByteBudget::Verdict::kNever : active->memory.Admit(batch.scan_bytes);
  if (verdict != ByteBudget::Verdict::kTaken && (turn == Turn::kRun || verdict == ByteBudget::Verdict::kNotNow)) {
    lacking_memory_.insert(batch.id);
    return false;
  }
  active_.push_back(active);
  if (verdict == ByteBudget::Verdict::kTaken) {
    Spawn(Read(active));
  } else {
    active->ready = true;
    Stop(*active, turn == Turn::kCancel ? BatchStatus::kCancelled : BatchStatus::kExpired);
  }
  return true;
}

/// Ends the work on a batch. Jobs of the disk's thread may hold the object a little longer; the charge of the client's
/// memory ends now.
void BatchRunner::Drop(const ActivePtr& batch) {
  batch->memory = {};
  std::erase(active_, batch);
}

}  // namespace quire
