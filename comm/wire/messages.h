#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "comm/base/group_cut.h"
#include "comm/grammar/grammar_memory.h"
#include "comm/grammar/vocabulary.h"
#include "comm/topology/compute_settings.h"
#include "comm/topology/load_format.h"
#include "comm/wire/plan_check.h"
#include "comm/wire/step_plan.h"
#include "comm/wire/whole_part.h"
#include "comm/wire/working_memory.h"

namespace quire {

/// Version of the wire format. Coordinator and workers must have the same version (comm/PROTOCOL.md).
inline constexpr uint16_t kProtocolVersion = 26;
/// Version of the program. The handshake compares it.
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
  kStopBlocks,
  kAdapter,
  kAdapterReady,
  kFreeBlocks
};

/// The first part of every message. The second part is a FlatBuffer (for BlockChunk, bytes); `body_hash` is its hash.
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

/// Returns SipHash-2-4 of the bytes under a fixed key. The hash detects mix-ups and damage, not attackers.
uint64_t HashBytes(std::span<const std::byte> bytes);
uint64_t HashTokens(std::span<const SampledToken> tokens);

struct JoinMessage {
  std::string build, host;
  int32_t pid = 0;
  Rank rank = 0;
  int32_t world_size = 0;
  int32_t devices = 0;         // GPUs of the host that this process can use
  std::string device_problem;  // the reason why the rank has no devices
  int32_t processors = 0;      // processors that the rank's threads may keep busy; 0: unknown
  int64_t memory_bytes = 0;    // bytes that the host, or a control group there, allows all workers together; 0: unknown
  std::string memory_limit;    // the source of memory_bytes, such as a control group's name
};

/// The draft model of a group: a smaller model, or a prediction layer of the served model's own files, that rank 0
/// computes in addition to its shard.
struct DraftModelSettings {
  std::string path, fingerprint;
  int32_t num_tokens = 0;     // most tokens of a draft of the draft model; 0: there is no draft model
  int32_t max_sequences = 0;  // most sequences for which one step orders drafts of the draft model
  int32_t max_model_len = 0;  // tokens of the longest sequence that the draft model reads
  bool predicts = false;      // the draft model is the prediction layer of the files at `path`

  bool operator==(const DraftModelSettings&) const = default;
};

/// Everything that a worker needs to load its shard. Sizes are in tokens unless the name says otherwise.
struct AssignMessage {
  std::string model_path, fingerprint;
  LoadFormat load_format = LoadFormat::kAuto;
  uint16_t ctrl_port = 0;  // 0: the data endpoint with ".ctrl" appended
  int32_t block_size = 16, max_step_tokens = 0, max_running = 0, max_model_len = 0, threads = 1;
  std::vector<double> shares;              // weight of each rank of a stage
  std::vector<int32_t> stage_layers = {};  // see GroupCut
  ComputeSettings compute;                 // backend and dtype are not "auto"
  std::vector<int32_t> devices;            // device of each rank; empty: the i-th rank of a host uses device i
  std::vector<std::string> adapters = {};  // directories of LoRA adapters
  DraftModelSettings draft = {};
  int32_t draft_rows = 0;  // for models with states: most rows of the sequences with drafts in one step

  GroupCut cut() const { return {shares, stage_layers}; }
};

struct HelloMessage {
  std::string fingerprint, isa;
  int64_t bytes_per_block = 0, weight_bytes = 0, available_bytes = 0;
  int32_t load_millis = 0;
  int64_t bytes_per_state = 0;  // bytes of one sequence's state on this rank; 0: the model has no state
  WholePart whole_block = {};
  WholePart whole_state = {};
  WorkingMemory working = {};
};

struct StartMessage {
  int32_t num_blocks = 0;       // includes the null block
  int32_t num_host_blocks = 0;  // blocks for swapping, including the null block; 0: no swapping
  int32_t state_blocks = 0;     // blocks that hold one sequence's state
  GrammarMemory grammars = {};
};
struct ReadyMessage {
  int32_t num_blocks = 0, num_host_blocks = 0;
  int64_t swap_nanos_per_block = 0;  // measured time to swap a block; 0 without host blocks
  int32_t state_blocks = 0;
};
struct FailureMessage {
  std::string phase, message;
  bool by_settings = false;  // true: another start would fail in the same way (SettingsError)
};
struct BeatMessage {
  StepId begun = 0;            // last step whose plan arrived; unused when the coordinator sends it
  StepId answered = 0;         // last step whose result was sent; unused when the coordinator sends it
  int64_t late_micros = 0;     // largest delay in waking the sender's thread in the last seconds
  int64_t starved_micros = 0;  // time that the worker's computing thread waited for a core since its start
};
struct ShutdownMessage {
  std::string reason;
};

/// From the coordinator to a rank: wait for KV blocks from another group, and write their bytes into the blocks that
/// this message names.
struct TakeBlocksMessage {
  uint64_t ticket = 0;
  std::string endpoint;           // endpoint to listen on; empty: TCP, on its address towards the coordinator
  std::vector<int32_t> ports;     // first and last TCP port to try
  std::vector<std::string> keys;  // public keys of the senders, by rank; empty: no encryption
  std::vector<double> shares;     // how the sending group cuts the model: see GroupCut
  std::vector<int32_t> stage_layers = {};
  std::vector<BlockId> blocks;
  bool on_device = false;  // true: device blocks; false: host blocks
  bool is_state = false;   // true: the blocks are one sequence's state, which is cut as a whole

  GroupCut cut() const { return {shares, stage_layers}; }
};
/// From the coordinator to a rank that has KV blocks. The rank copies device blocks to host blocks, after all plans
/// before this message and before any later plan. Then it sends each rank of the other group its part of `blocks`. If
/// `blocks` is empty, it tells the receivers that no blocks will come.
struct GiveBlocksMessage {
  uint64_t ticket = 0;
  EpochId epoch = 0;                   // epoch of the receiving group
  std::vector<std::string> endpoints;  // indexed by receiving rank
  std::vector<std::string> keys;       // public keys of the receiving ranks; empty: no encryption
  std::vector<double> shares;          // how the receiving group cuts the model: see GroupCut
  std::vector<int32_t> stage_layers = {};
  std::vector<BlockCopyPair> moves;
  std::vector<BlockId> blocks;
  bool on_device = false;  // true: device blocks, without moves; false: host blocks
  bool is_state = false;   // true: the blocks are one sequence's state, which is cut as a whole

  GroupCut cut() const { return {shares, stage_layers}; }
};
/// From the coordinator to a rank: the blocks of these runs hold nothing, so the rank gives their memory back to the
/// system. Writing to a block takes memory for it again. Each run has two numbers: its first block, and the number of
/// its blocks.
struct FreeBlocksMessage {
  std::vector<BlockId> device_runs, host_runs;
};
/// From the coordinator to either end of a transfer: the transfer is no longer needed. A rank answers with a report if
/// the transfer was under way.
struct StopBlocksMessage {
  uint64_t ticket = 0;
};
/// From either end of a transfer to the coordinator: this end is ready to receive at `endpoint`, has finished, or has
/// failed. After kDone and kFailed the rank no longer uses the blocks.
struct BlocksReport {
  enum State : uint8_t { kReady = 1, kDone, kFailed };
  uint64_t ticket = 0;
  State state = kReady;
  std::string endpoint, problem;
  int64_t bytes = 0;
};

/// To a rank. With a grammar: the rank compiles and stores it, because sequences with it will follow. Without a
/// grammar: no further sequence needs the grammar of this ticket, and the rank may drop it.
struct GrammarMessage {
  uint64_t ticket = 0;
  GrammarSource source;
};
/// From a rank: the grammar is compiled, or `problem` is the reason why it is not.
struct GrammarReady {
  uint64_t ticket = 0;
  std::string problem;
  uint64_t bytes = 0;  // memory that the compiled grammar takes
};

/// To a rank. With a path: the rank reads the LoRA adapter in this directory and stores it under `number`, because
/// sequences with this adapter will follow. Without a path: no further sequence needs the adapter of this ticket, and
/// the rank drops it.
struct AdapterMessage {
  uint64_t ticket = 0;
  int32_t number = 0;  // above kMostListedAdapters
  std::string path, fingerprint;
  uint64_t file_bytes = 0;  // size of the tensors' file
};
/// From a rank: the adapter may be used, or `problem` is the reason why it may not.
struct AdapterReady {
  uint64_t ticket = 0;
  std::string problem;
  uint64_t bytes = 0;  // memory that the rank's part of the adapter takes
};

/// The place of a chunk of KV blocks on its way from one worker to another. `block` counts among the num_blocks blocks
/// of the ticket. One rank sends another rank certain bytes of each block; `offset` counts within these bytes. The
/// chunks from one rank to another under a ticket are numbered from 1. A transfer from device to device has a single
/// chunk, with `by_device` set. Its data is the identifier by which the two ends of a DeviceLink find each other
/// (NewMeeting in comm/collective/device_carrier.h).
struct ChunkPlace {
  uint64_t ticket = 0, number = 0;
  EpochId epoch = 0;   // epoch of the receiving group
  uint32_t giver = 0;  // sending rank, within its group
  uint32_t num_blocks = 0, block = 0;
  uint64_t offset = 0;
  bool by_device = false;
};
struct BlockChunk {
  ChunkPlace place;
  std::span<const std::byte> data;
};
/// Encodes a chunk whose data is the concatenation of `parts`.
Frame EncodeChunk(const ChunkPlace& place, std::span<const std::span<const std::byte>> parts);
/// Decodes a chunk. The chunk's data points into the frame. Throws Error for a frame that is no valid chunk.
BlockChunk DecodeChunk(const Frame& frame);

using Message = std::variant<JoinMessage, AssignMessage, HelloMessage, StartMessage, ReadyMessage, FailureMessage,
                             BeatMessage, ShutdownMessage, TakeBlocksMessage, GiveBlocksMessage, StopBlocksMessage,
                             FreeBlocksMessage, BlocksReport, Vocabulary, GrammarMessage, GrammarReady, AdapterMessage,
                             AdapterReady, StepPlan, StepResult>;

Frame Encode(const Message& message, EpochId epoch, StepId step);
Frame EncodePlan(const StepPlan& plan);
Frame EncodeResult(const StepResult& result);

/// Decodes a message, and checks its magic, version, kind, hash, size and FlatBuffer structure. Throws Error for an
/// invalid frame; never reads outside of it. Does not check a plan's values: use DecodePlan for plans.
Message Decode(const Frame& frame);

/// Decodes a plan and checks it with CheckPlan.
StepPlan DecodePlan(const Frame& frame, const PlanLimits& limits);

}  // namespace quire
