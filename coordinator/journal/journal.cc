#include "coordinator/journal/journal.h"

#include <spdlog/spdlog.h>

#include <chrono>

#include "comm/messages.h"
#include "coordinator/journal/engine_archive.h"

namespace quire {

namespace {

double UnixSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Journal::Journal(const std::string& directory, const JournalLimits& limits, const Engine& engine)
    : engine_(engine), writer_(directory, limits.segment_bytes, limits.total_bytes), now_(SteadySeconds()) {
  WriteSnapshot();
}

template <class... T>
void Journal::Write(JournalEntry entry, const T&... values) {
  payload_.Clear();
  payload_(values...);
  writer_.Append(static_cast<uint8_t>(entry), payload_.bytes());
}

void Journal::WriteSnapshot() {
  payload_.Clear();
  payload_(UnixSeconds() - SteadySeconds());
  EngineArchive::Save(payload_, engine_);
  writer_.Append(static_cast<uint8_t>(JournalEntry::kSnapshot), payload_.bytes());
  writer_.Flush();
}

void Journal::BeforePlan(double now) {
  now_ = now;
  if (!writer_.error().empty() && !std::exchange(warned_, true))
    spdlog::warn("the step journal has ended: {}; serving goes on", writer_.error());
  if (!writer_.segment_full()) return;
  writer_.StartSegment();
  WriteSnapshot();
}

void Journal::OnDecision(const Decision& decision) { Write(JournalEntry::kDecision, now_, decision); }

void Journal::OnSubmit(const Request& request, bool accepted) {
  now_ = std::max(now_, request.arrival_seconds);
  payload_.Clear();
  payload_(accepted);
  SaveSubmitted(payload_, request);
  writer_.Append(static_cast<uint8_t>(JournalEntry::kSubmit), payload_.bytes());
}

void Journal::OnCancel(RequestId id) { Write(JournalEntry::kCancel, id); }

void Journal::OnPlan(double now, const StepPlan& plan) {
  Write(JournalEntry::kPlan, now, plan.step, EncodePlan(plan).header.body_hash);
}

void Journal::OnCommit(const std::vector<SampledToken>& tokens, StepTimes times,
                       const std::vector<StoppedChoice>& stopped) {
  payload_.Clear();
  SaveTokens(payload_, tokens);
  payload_(times, stopped);
  writer_.Append(static_cast<uint8_t>(JournalEntry::kCommit), payload_.bytes());
  writer_.Flush();  // what was decided survives this process
}

void Journal::OnExpire(double now) {
  now_ = now;
  Write(JournalEntry::kExpire, now);
}

void Journal::OnEpoch(EpochId epoch) { Write(JournalEntry::kEpoch, epoch); }
void Journal::OnSwapSpeed(double seconds_per_block) { Write(JournalEntry::kSwapSpeed, seconds_per_block); }
void Journal::OnFlush() { Write(JournalEntry::kFlush); }
void Journal::OnPin(const std::string& salt, const std::vector<TokenId>& tokens, double expires_seconds) {
  Write(JournalEntry::kPin, salt, tokens, expires_seconds);
}
void Journal::OnUnpin(uint64_t pin) { Write(JournalEntry::kUnpin, pin); }

}  // namespace quire
