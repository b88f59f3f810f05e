#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coordinator/core/command.h"
#include "coordinator/journal/archive.h"

namespace quire {

/// What a CommandOutcome says that can be compared with another run's.
struct OutcomeRecord {
  bool refused = false;
  StepId step = 0;  // 0: there is no plan
  uint64_t plan_hash = 0;
  std::vector<StoppedChoice> stopped;

  bool operator==(const OutcomeRecord&) const = default;
  template <class Archive>
  void Transfer(Archive& archive) {
    archive(refused, step, plan_hash, stopped);
  }
};
OutcomeRecord RecordOf(const CommandOutcome& outcome);

/// What a command refers to when it was read from a journal.
struct CommandOperands {
  std::unique_ptr<Request> request;  // without a sink
  std::vector<SampledToken> sampled;
  std::vector<PromptScores> scores;  // none: they decide nothing, and journals do not hold them
  std::string salt;
  std::vector<TokenId> tokens;
  std::vector<BlockId> blocks;
};

/// The command without its number in the variant, which is the record's type.
void SaveCommand(ArchiveWriter& out, const Command& command);
/// The command of that number; it refers to `operands`. Throws Error when there is no such number, or the bytes end too
/// early.
Command LoadCommand(ArchiveReader& in, size_t number, CommandOperands& operands);

}  // namespace quire
