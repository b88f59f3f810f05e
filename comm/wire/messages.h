#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "comm/grammar/vocabulary.h"
#include "comm/topology/compute_settings.h"
#include "comm/topology/load_format.h"
#include "comm/wire/plan_check.h"
#include "comm/wire/step_plan.h"

namespace quire {

/// Version of the wire format; both sides must agree (comm/PROTOCOL.md).
inline constexpr uint16_t kProtocolVersion = 17;
/// Version of the program, part of the handshake.
extern const char* const kBuildVersion;

enum class FrameKind : uint16_t {
  kJoin = 1,
  kAssign,
  kHello,
  kStart,
  kReady,
  kFailure,
  kBeat,
  kShutdown,
  kPlan,
  kResult,
  kTakeBlocks,
  kGiveBlocks,
  kBlocksReport,
  kBlockChunk,
  kVocabulary,
  kGrammar,
  kGrammarReady,
  kStopBlocks
};

/// First part of every message; the second is a FlatBuffer whose hash it carries.
struct FrameHeader {
  uint32_t magic = 0x52495551;  // "QUIR"
  uint16_t version = kProtocolVersion;
  FrameKind kind{};
  EpochId epoch = 0;
  StepId step = 0;
  uint64_t body_hash = 0;
};
static_assert(sizeof(FrameHeader) == 32);

struct Frame {
  FrameHeader header;
  std::vector<std::byte> body;
};

/// SipHash-2-4 of the bytes under a fixed key: guards against mix-ups and damage, not against attackers.
uint64_t HashBytes(std::span<const std::byte> bytes);
uint64_t HashTokens(std::span<const SampledToken> tokens);

struct JoinMessage {
  std::string build, host;
  int32_t pid = 0;
  Rank rank = 0;
  int32_t world_size = 0;
  int32_t devices = 0;         // GPUs of the host that this process can use
  std::string device_problem;  // why there are none
  int32_t processors = 0;      // that its threads may keep busy; 0: not said
  int64_t memory_bytes = 0;    // that its host, or a control group there, lets workers hold in all; 0: not said
  std::string memory_limit;    // whose limit that is
};

/// What a worker needs to load its shard. Sizes are tokens unless the name says otherwise.
struct AssignMessage {
  std::string model_path, fingerprint;
  LoadFormat load_format = LoadFormat::kAuto;
  uint16_t ctrl_port = 0;  // 0: the data endpoint with ".ctrl" appended
  int32_t block_size = 16, max_step_tokens = 0, max_running = 0, max_model_len = 0, threads = 1;
  std::vector<double> shares;
  ComputeSettings compute;       // backend and dtype are settled
  std::vector<int32_t> devices;  // of each rank; none: rank i of a host takes device i
};

struct HelloMessage {
  std::string fingerprint, isa;
  int64_t bytes_per_block = 0, weight_bytes = 0, available_bytes = 0;
  int32_t load_millis = 0;
  int64_t bytes_per_state = 0;  // of one sequence, on this rank; 0: the model has none
};

struct StartMessage {
  int32_t num_blocks = 0;       // the null block counted in
  int32_t num_host_blocks = 0;  // for swapping; likewise; 0: none
  int32_t state_blocks = 0;     // that hold a sequence's state
};
struct ReadyMessage {
  int32_t num_blocks = 0, num_host_blocks = 0;
  int64_t swap_nanos_per_block = 0;  // measured; 0 without host blocks
  int32_t state_blocks = 0;
};
struct FailureMessage {
  std::string phase, message;
  bool by_settings = false;  // another start would fail alike: a SettingsError
};
struct BeatMessage {
  StepId begun = 0;            // the last step whose plan arrived; meaningless from the coordinator
  StepId answered = 0;         // the last one whose result was sent; likewise
  int64_t late_micros = 0;     // how late the sender's thread was woken lately, at most
  int64_t starved_micros = 0;  // how long a worker's computing thread waited for a core since it began
};
struct ShutdownMessage {
  std::string reason;
};

/// To a rank that gets KV blocks from ranks of another group: wait for them, and put its part of them into these host
/// blocks.
struct TakeBlocksMessage {
  uint64_t ticket = 0;
  std::string endpoint;           // where to wait; empty: on TCP, where it reaches the coordinator from
  std::vector<int32_t> ports;     // first and last that TCP may take
  std::vector<std::string> keys;  // public keys of whoever may come by TCP, by rank; none: in clear text
  std::vector<double> shares;     // of the group that gives: how it cuts the model
  std::vector<BlockId> blocks;
  bool on_device = false;  // device blocks, else host blocks
};
/// To a rank that has them: move device blocks to host blocks, after all plans before this message and before any
/// later one, and send each rank of the other group its part of `blocks`. None: nothing will come, and the others are
/// told so.
struct GiveBlocksMessage {
  uint64_t ticket = 0;
  EpochId epoch = 0;                   // of the group that takes
  std::vector<std::string> endpoints;  // of its ranks
  std::vector<std::string> keys;       // their public keys; none: in clear text
  std::vector<double> shares;          // how it cuts the model
  std::vector<BlockCopyPair> moves;
  std::vector<BlockId> blocks;
  bool on_device = false;  // device blocks, else host blocks; no moves then
};
/// To either: nobody needs the blocks any more. Answered by a report if they were still on their way.
struct StopBlocksMessage {
  uint64_t ticket = 0;
};
/// From either: ready to take, at the endpoint; done with the blocks; or failed, and done with them all the same.
struct BlocksReport {
  enum State : uint8_t { kReady = 1, kDone, kFailed };
  uint64_t ticket = 0;
  State state = kReady;
  std::string endpoint, problem;
  int64_t bytes = 0;
};

/// To a rank: compile this and keep it, because sequences will come with it; without a grammar: no more will, it need
/// not be kept. From the rank, once it has it; `problem`: why it cannot.
struct GrammarMessage {
  uint64_t ticket = 0;
  GrammarSource source;
};
struct GrammarReady {
  uint64_t ticket = 0;
  std::string problem;
  uint64_t bytes = 0;  // that it takes
};

/// Where a piece of KV blocks that goes from worker to worker belongs. What a rank gives another of a block is a run of
/// bytes of its own, in which `offset` is; blocks count among the num_blocks that go over under the ticket. Chunks from
/// one rank to another under a ticket are numbered from 1. Where blocks go from device to device, there is one chunk,
/// which says so; its data is the meeting of a DeviceLink (comm/collective/device_carrier.h).
struct ChunkPlace {
  uint64_t ticket = 0, number = 0;
  EpochId epoch = 0;   // of the group that takes
  uint32_t giver = 0;  // rank in the group that gives
  uint32_t num_blocks = 0, block = 0;
  uint64_t offset = 0;
  bool by_device = false;
};
struct BlockChunk {
  ChunkPlace place;
  std::span<const std::byte> data;
};
/// The data is what the parts are one after the other.
Frame EncodeChunk(const ChunkPlace& place, std::span<const std::span<const std::byte>> parts);
/// The data lies in the frame. Throws Error like Decode.
BlockChunk DecodeChunk(const Frame& frame);

using Message = std::variant<JoinMessage, AssignMessage, HelloMessage, StartMessage, ReadyMessage, FailureMessage,
                             BeatMessage, ShutdownMessage, TakeBlocksMessage, GiveBlocksMessage, StopBlocksMessage,
                             BlocksReport, Vocabulary, GrammarMessage, GrammarReady, StepPlan, StepResult>;

Frame Encode(const Message& message, EpochId epoch, StepId step);
Frame EncodePlan(const StepPlan& plan);
Frame EncodeResult(const StepResult& result);

/// Checks magic, version, kind, hash and the FlatBuffer's structure, and bounds every string and vector. Throws Error
/// on anything else; never reads outside the frame. Plans are decoded by DecodePlan.
Message Decode(const Frame& frame);

/// Decode plus CheckPlan.
StepPlan DecodePlan(const Frame& frame, const PlanLimits& limits);

}  // namespace quire
