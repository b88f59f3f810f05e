#pragma once

#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "coordinator/core/adapter_commands.h"
#include "coordinator/core/blocks/block_options.h"
#include "coordinator/core/live_options.h"
#include "coordinator/core/migration_way.h"
#include "coordinator/core/request.h"
#include "coordinator/core/step_outcome.h"
#include "coordinator/core/store_commands.h"

namespace quire {

/// The commands of an Engine as data: a struct for each command in engine.h (Plan is NextPlan, Commit is CommitStep,
/// Expire is ExpireOverdue). Structs refer to large values, which need to last only until Apply returns.
namespace command {

struct Submit {
  std::unique_ptr<Request>& request;  // moved from, unless the engine refuses the request
};
struct Cancel {
  RequestId id;
};
struct Plan {
  double now;
};
struct Commit {
  const std::vector<SampledToken>& tokens;
  StepTimes times;
  const std::vector<PromptScores>& scores;
  const std::vector<Draft>& guesses;
};
struct Expire {
  double now;
};
struct StartEpoch {
  EpochId epoch;
  PoolSizes pools;
  int num_stages;  // stages of the new workers' pipeline
};
struct SetSwapSpeed {
  double seconds_per_block;
};
struct FlushCache {};
struct PinPrefix {
  const std::string& salt;
  const std::vector<TokenId>& tokens;
  double expires_seconds;
};
struct Unpin {
  uint64_t pin;
};
struct Share {
  RequestId id;
  uint64_t ticket;
  int max_blocks;
};
struct Depart {
  RequestId id;
  uint64_t ticket;
  int max_blocks, num_copied;
};
struct Reserve {
  uint64_t ticket;
  int num_blocks;
  MigrationWay way;
};
struct ReleaseTicket {
  uint64_t ticket;
};
struct Adopt {
  std::unique_ptr<Request>& request;  // moved from, unless the engine refuses the request
  uint64_t ticket;
  std::span<const BlockId> blocks;
};
struct ChangeOptions : LiveOptions {};

}  // namespace command

/// The journal numbers its record kinds in the order of the alternatives (coordinator/journal/journal_entry.h).
using Command =
    std::variant<command::Submit, command::Cancel, command::Plan, command::Commit, command::Expire, command::StartEpoch,
                 command::SetSwapSpeed, command::FlushCache, command::PinPrefix, command::Unpin, command::Depart,
                 command::Reserve, command::ReleaseTicket, command::Adopt, command::ChangeOptions, command::Share,
                 command::HoldCached, command::ReserveForStored, command::CacheStored, command::AdapterCame,
                 command::AdapterGone>;

/// The results of a command. A replay of equal commands must give equal results.
struct CommandOutcome {
  bool refused = false;                    // Submit: the request was refused
  const StepPlan* plan = nullptr;          // Plan; null: no step could be planned
  std::span<const StoppedChoice> stopped;  // Commit: the choices whose sinks ended their text
};

}  // namespace quire
