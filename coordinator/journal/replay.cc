#include "coordinator/journal/replay.h"

#include <map>

#include "coordinator/journal/command_archive.h"
#include "coordinator/journal/engine_archive.h"
#include "coordinator/journal/journal_entry.h"

namespace quire {

namespace {

/// Stands for a client: ends a choice's text where a stop string ended it in the recorded run.
class ReplaySink : public RequestSink {
 public:
  /// `stopped`: for each choice that a stop string ends in this step, how many of the step's tokens it takes.
  using Stopped = std::map<std::pair<RequestId, int>, int>;

  ReplaySink(RequestId request, Stopped& stopped) : request_(request), stopped_(stopped) {}
  bool OnToken(const TokenEvent& event) override {
    const auto it = stopped_.find({request_, event.choice});
    return it != stopped_.end() && --it->second == 0;
  }
  void OnFinish(int, FinishReason) override {}
  void OnError(RequestError, const std::string&) override {}

 private:
  RequestId request_;
  Stopped& stopped_;
};

/// Replays one segment: applies the commands and compares their outcomes with the recorded ones. Stops at a command
/// that the engine could not have received.
class SegmentReplay : public EngineObserver {
 public:
  SegmentReplay(uint64_t segment, ReplayResult& result) : segment_(segment), result_(result) {}

  void Load(std::span<const std::byte> snapshot) {
    ArchiveReader in(snapshot);
    engine_ = EngineArchive::Load(in, nullptr);
    for (const auto& [id, request] : engine_->requests()) request->sink = SinkOf(id);
    engine_->set_observer(this);
  }

  void Apply(const Record& record) {
    ArchiveReader in(record.payload);
    if (record.type == static_cast<uint8_t>(JournalEntry::kLost)) result_.lost += in.Next<uint64_t>();
    constexpr auto kFirst = static_cast<uint8_t>(JournalEntry::kCommands);
    if (record.type < kFirst || strayed_) return;
    CommandOperands operands;
    const Command command = LoadCommand(in, record.type - kFirst, operands);
    Repeat(command, operands, in.Next<OutcomeRecord>());
  }

  void BeforePlan(double) override {}
  void OnCommand(const Command&, const CommandOutcome& outcome) override { outcome_ = RecordOf(outcome); }
  void OnDecision(const Decision&) override {}

 private:
  std::shared_ptr<RequestSink> SinkOf(RequestId id) { return std::make_shared<ReplaySink>(id, stopped_); }

  void Repeat(const Command& command, CommandOperands& operands, const OutcomeRecord& then) {
    if (operands.request) operands.request->sink = SinkOf(operands.request->id);
    stopped_.clear();
    for (const auto& [request, choice, token] : then.stopped) stopped_[{request, choice}] = token;
    result_.requests += std::holds_alternative<command::Submit>(command);
    result_.steps += then.step > 0;
    if (!CanFollow(command)) {
      // After a plan that differs, the recorded results do not fit the engine. A damaged file may contain anything. So
      // the following records of the segment cannot be compared.
      strayed_ = true;
      if (!differs_) Differ("a record does not follow from those before it");
      return;
    }
    outcome_ = {};
    engine_->Apply(command);
    if (outcome_ != then) Differ(WhatDiffers(then));
  }

  /// True when the engine, as it is now, could have received the command.
  bool CanFollow(const Command& command) const {
    if (const auto* commit = std::get_if<command::Commit>(&command))
      return engine_->num_outstanding() > 0 && engine_->Fits(commit->tokens) &&
             engine_->Fits(commit->guesses);
    const auto is_new = [&](const Request& request) { return !engine_->requests().contains(request.id); };
    if (const auto* submit = std::get_if<command::Submit>(&command)) return is_new(*submit->request);
    if (const auto* adopt = std::get_if<command::Adopt>(&command)) return is_new(*adopt->request);
    return true;
  }

  std::string WhatDiffers(const OutcomeRecord& then) const {
    if (then.step > 0) return fmt::format("step {} has another plan", then.step);
    if (outcome_.step > 0) return "a step is planned where there was none";
    if (outcome_.refused != then.refused) return "a request was judged otherwise";
    return "a text ended otherwise";
  }

  void Differ(const std::string& what) {
    differs_ = true;
    ++result_.differing;
    if (result_.first_difference.empty()) result_.first_difference = fmt::format("segment {}: {}", segment_, what);
  }

  uint64_t segment_;
  ReplayResult& result_;
  ReplaySink::Stopped stopped_;
  OutcomeRecord outcome_;  // outcome of the command applied last
  std::unique_ptr<Engine> engine_;
  bool differs_ = false, strayed_ = false;
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
