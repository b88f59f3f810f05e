#include "coordinator/journal/replay.h"

#include <set>

#include "comm/wire/messages.h"
#include "coordinator/journal/engine_archive.h"
#include "coordinator/journal/journal_entry.h"

namespace quire {

namespace {

/// Stands in for the clients: says that a text ends where it did end.
class ReplaySink : public RequestSink {
 public:
  ReplaySink(RequestId request, const std::set<std::pair<RequestId, int>>& stopped)
      : request_(request), stopped_(stopped) {}
  bool OnToken(const TokenEvent& event) override { return stopped_.contains({request_, event.choice}); }
  void OnFinish(int, FinishReason) override {}
  void OnError(RequestError, const std::string&) override {}

 private:
  RequestId request_;
  const std::set<std::pair<RequestId, int>>& stopped_;
};

/// One segment's run.
class SegmentReplay {
 public:
  SegmentReplay(uint64_t segment, ReplayResult& result) : segment_(segment), result_(result) {}

  void Apply(const Record& record) {
    ArchiveReader in(record.payload);
    const auto entry = static_cast<JournalEntry>(record.type);
    if (!lost_) ApplyInput(entry, in);
  }

  void Load(std::span<const std::byte> snapshot) {
    ArchiveReader in(snapshot);
    engine_ = EngineArchive::Load(in, nullptr);
    for (const auto& [id, request] : engine_->requests()) request->sink = SinkOf(id);
  }

 private:
  std::shared_ptr<RequestSink> SinkOf(RequestId id) const { return std::make_shared<ReplaySink>(id, stopped_); }

  void ApplyInput(JournalEntry entry, ArchiveReader& in) {
    switch (entry) {
      case JournalEntry::kSubmit:
        return Submit(in);
      case JournalEntry::kPlan:
        return Plan(in);
      case JournalEntry::kNoPlan:
        if (engine_->NextPlan(in.Next<double>()) != nullptr) Differ("a step is planned where there was none");
        return;
      case JournalEntry::kCommit:
        return Commit(in);
      case JournalEntry::kCancel:
        return engine_->Cancel(in.Next<RequestId>());
      case JournalEntry::kExpire:
        return engine_->ExpireOverdue(in.Next<double>());
      case JournalEntry::kEpoch:
        return StartEpoch(in);
      case JournalEntry::kSwapSpeed:
        return engine_->SetSwapSpeed(in.Next<double>());
      case JournalEntry::kFlush:
        return engine_->FlushCache();
      case JournalEntry::kUnpin:
        engine_->Unpin(in.Next<uint64_t>());
        return;
      case JournalEntry::kPin: {
        const auto salt = in.Next<std::string>();
        const auto tokens = in.Next<std::vector<TokenId>>();
        engine_->PinPrefix(salt, tokens, in.Next<double>());
        return;
      }
      case JournalEntry::kDepart: {
        const auto id = in.Next<RequestId>();
        const auto ticket = in.Next<uint64_t>();
        engine_->Depart(id, ticket, in.Next<int>());
        return;
      }
      case JournalEntry::kReserve: {
        const auto ticket = in.Next<uint64_t>();
        engine_->Reserve(ticket, in.Next<int>());
        return;
      }
      case JournalEntry::kReleaseTicket:
        return engine_->ReleaseTicket(in.Next<uint64_t>());
      case JournalEntry::kAdopt: {
        std::unique_ptr<Request> request = LoadMoving(in);
        request->sink = SinkOf(request->id);
        const auto ticket = in.Next<uint64_t>();
        engine_->Adopt(request, ticket, in.Next<std::vector<BlockId>>());
        return;
      }
      case JournalEntry::kLost:
        result_.lost += in.Next<uint64_t>();
        return;
      case JournalEntry::kDecision:  // an output
      case JournalEntry::kSnapshot:
      case JournalEntry::kSnapshotPart:
        return;
    }
  }

  void StartEpoch(ArchiveReader& in) {
    const auto epoch = in.Next<EpochId>();
    PoolSizes pools;
    in(pools.num_blocks, pools.num_host_blocks);
    engine_->StartEpoch(epoch, pools);
  }

  void Submit(ArchiveReader& in) {
    const bool accepted = in.Next<bool>();
    auto request = LoadSubmitted(in);
    request->sink = SinkOf(request->id);
    ++result_.requests;
    if (engine_->Submit(std::move(request)).has_value() == accepted) Differ("a request was judged otherwise");
  }

  void Plan(ArchiveReader& in) {
    const double now = in.Next<double>();
    const auto step = in.Next<StepId>();
    const auto hash = in.Next<uint64_t>();
    ++result_.steps;
    const StepPlan* plan = engine_->NextPlan(now);
    if (plan == nullptr || plan->step != step || EncodePlan(*plan).header.body_hash != hash)
      Differ(fmt::format("step {} has another plan", step));
  }

  void Commit(ArchiveReader& in) {
    const std::vector<SampledToken> tokens = LoadTokens(in);
    const auto times = in.Next<StepTimes>();
    stopped_.clear();
    for (const auto& [request, choice] : in.Next<std::vector<StoppedChoice>>()) stopped_.insert({request, choice});
    lost_ = !engine_->Fits(tokens);  // after another plan: the rest of the segment cannot be compared
    if (!lost_) engine_->CommitStep(tokens, times);
  }

  void Differ(const std::string& what) {
    ++result_.differing;
    if (result_.first_difference.empty()) result_.first_difference = fmt::format("segment {}: {}", segment_, what);
  }

  uint64_t segment_;
  ReplayResult& result_;
  std::set<std::pair<RequestId, int>> stopped_;
  std::unique_ptr<Engine> engine_;
  bool lost_ = false;
};

}  // namespace

ReplayResult Replay(const std::string& directory) {
  RecordReader reader(directory);
  ReplayResult result;
  for (const uint64_t number : reader.Segments()) {
    reader.Open(number);
    const auto snapshot = ReadSnapshot(reader);
    if (!snapshot) {
      result.torn += fmt::format("{}{}", result.torn.empty() ? "" : ", ", number);
      continue;
    }
    if (snapshot->foreign) {
      result.foreign += fmt::format("{}{}", result.foreign.empty() ? "" : ", ", number);
      continue;
    }
    SegmentReplay segment(number, result);
    segment.Load(snapshot->engine);
    while (const auto record = reader.Next()) segment.Apply(*record);
    ++result.segments;
    if (reader.torn()) result.torn += fmt::format("{}{}", result.torn.empty() ? "" : ", ", number);
  }
  if (result.segments == 0 && result.foreign.empty()) Fail("{}: no step journal here", directory);
  return result;
}

}  // namespace quire
