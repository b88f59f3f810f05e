#pragma once

#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "coordinator/core/block_options.h"
#include "coordinator/core/live_options.h"
#include "coordinator/core/migration_way.h"
#include "coordinator/core/request.h"
#include "coordinator/core/step_outcome.h"

namespace quire {

/// What goes into an engine, as data; engine.h says of the calls of these names what they do. Whatever is large is
/// referred to, and only has to last until Engine::Apply returns.
namespace command {

struct Submit {
  std::unique_ptr<Request>& request;  // taken, unless it is refused
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
};
struct Expire {
  double now;
};
struct StartEpoch {
  EpochId epoch;
  PoolSizes pools;
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
  int max_blocks;
  int num_copied;
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
  std::unique_ptr<Request>& request;  // taken, unless it is refused
  uint64_t ticket;
  std::span<const BlockId> blocks;
};
struct ChangeOptions : LiveOptions {};

}  // namespace command

/// In the order of the journal's kinds of records (coordinator/journal/journal_entry.h).
using Command =
    std::variant<command::Submit, command::Cancel, command::Plan, command::Commit, command::Expire, command::StartEpoch,
                 command::SetSwapSpeed, command::FlushCache, command::PinPrefix, command::Unpin, command::Depart,
                 command::Reserve, command::ReleaseTicket, command::Adopt, command::ChangeOptions, command::Share>;

/// What came of a command, as far as another run of the same commands must come to the same.
struct CommandOutcome {
  bool refused = false;                    // Submit
  const StepPlan* plan = nullptr;          // Plan; null: nothing could be planned ahead
  std::span<const StoppedChoice> stopped;  // Commit: the choices whose sinks said that their text now ends
};

}  // namespace quire
