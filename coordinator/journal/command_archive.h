#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coordinator/core/command.h"
#include "coordinator/journal/archive.h"

namespace quire {

/// The part of a CommandOutcome that a replay compares.
struct OutcomeRecord {
  bool refused = false;
  StepId step = 0;  // number of the planned step; 0: the outcome has no plan
  uint64_t plan_hash = 0;
  std::vector<StoppedChoice> stopped;

  bool operator==(const OutcomeRecord&) const = default;
  template <class Archive>
  void Transfer(Archive& archive) {
    archive(refused, step, plan_hash, stopped);
  }
};
OutcomeRecord RecordOf(const CommandOutcome& outcome);

/// Owns the values that a command from a journal points to.
struct CommandOperands {
  std::unique_ptr<Request> request;  // the submitted or adopted request, without its sink
  std::vector<SampledToken> sampled;
  std::vector<Draft> guesses;
  std::vector<PromptScores> scores;  // always empty: journals omit scores, which influence no decision
  std::string salt;
  std::vector<TokenId> tokens;
  std::vector<BlockId> blocks;
};

/// Writes a command without its index in the variant. The record's type contains the index.
void SaveCommand(ArchiveWriter& out, const Command& command);
/// Reads the command whose index in the variant is `number`. The command points to `operands`. Throws Error for an
/// unknown index or a record that is too short.
Command LoadCommand(ArchiveReader& in, size_t number, CommandOperands& operands);

}  // namespace quire
