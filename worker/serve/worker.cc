#include "worker/serve/worker.h"

#include <sodium.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <thread>

#include "comm/base/error.h"
#include "comm/base/host_limits.h"
#include "comm/base/process_hardening.h"
#include "comm/collective/stage_link.h"
#include "comm/model/formats/mapping_errors.h"
#include "comm/wire/channel.h"
#include "worker/serve/adapter_loader.h"
#include "worker/serve/assigned_model.h"
#include "worker/serve/assigned_sizes.h"
#include "worker/serve/backend.h"
#include "worker/serve/block_courier.h"
#include "worker/serve/block_orders.h"
#include "worker/serve/lease.h"
#include "worker/serve/step_executor.h"
#include "worker/serve/whole_block.h"
#include "worker/serve/worker_log.h"

namespace quire {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kJoinDeadline = std::chrono::seconds(120), kJoinAgainAfter = std::chrono::seconds(1);

/// Returns the ZeroMQ identity of the data connection. If the worker has no epoch yet, a random suffix distinguishes it
/// from workers of earlier groups.
std::string Identity(const WorkerOptions& options, Rank rank) {
  const std::string identity = WorkerIdentity(options.epoch, rank);
  return options.epoch > 0 ? identity : fmt::format("{}.{:08x}", identity, ::randombytes_random());
}

/// The data connection of one rank. Sends frames under the rank's epoch; receives frames and the handshake's messages.
class Line {
 public:
  Line(const WorkerOptions& options, Rank rank, const WorkerKeys* keys)
      : epoch_(options.epoch), channel_(Channel::Connect(options.coordinator, Identity(options, rank), keys)) {}

  EpochId epoch() const { return epoch_; }

  void Send(const Frame& frame) {
    if (!channel_.Send("", frame)) Fail("the coordinator does not take messages");
  }
  void Send(const Message& message) { Send(Encode(message, epoch_, 0)); }

  std::optional<Frame> TryReceive() {
    auto received = channel_.TryReceive();
    return received ? std::optional(std::move(received->frame)) : std::nullopt;
  }

  /// Waits for a frame; returns nullopt when the deadline passes.
  std::optional<Frame> Receive(Clock::time_point deadline) {
    while (Clock::now() < deadline) {
      if (auto received = channel_.TryReceive()) return std::move(received->frame);
      Wait(-1);
    }
    return std::nullopt;
  }
  /// Waits up to 200 ms for a frame, or for `wake_fd` unless that is -1.
  void Wait(int wake_fd) {
    Channel* channels[] = {&channel_};
    Channel::Wait(channels, wake_fd, 200);
  }

  /// Joins the group. A worker that gets no epoch repeats its request every second, because the previous group may
  /// still be ending.
  std::optional<AssignMessage> Join(const JoinMessage& join) {
    const auto deadline = Clock::now() + kJoinDeadline;
    const bool asks = epoch_ == 0;
    std::optional<Frame> frame;
    do {
      Send(join);
      frame = Receive(asks ? std::min(deadline, Clock::now() + kJoinAgainAfter) : deadline);
    } while (!frame && Clock::now() < deadline);
    if (frame && asks) epoch_ = frame->header.epoch;
    return TakeAs<AssignMessage>(frame, "assignment");
  }

  /// Decodes the frame as a message of type T. Returns nullopt for a Shutdown message. Throws Error for a missing frame
  /// and for any other message.
  template <class T>
  static std::optional<T> TakeAs(const std::optional<Frame>& frame, const char* what) {
    if (!frame) Fail("no {} from the coordinator in time; is it running, and is the address right?", what);
    Message message = Decode(*frame);
    if (std::holds_alternative<ShutdownMessage>(message)) return std::nullopt;
    T* expected = std::get_if<T>(&message);
    if (expected == nullptr) Fail("expected {}, got a frame of kind {}", what, static_cast<int>(frame->header.kind));
    return std::move(*expected);
  }

 private:
  EpochId epoch_;
  Channel channel_;
};

/// Waits for the Start message, which says how many blocks to reserve. If the model has a tokenizer, the vocabulary
/// arrives first.
std::optional<StartMessage> AwaitStart(Line& line, StepExecutor& executor) {
  auto frame = line.Receive(Clock::time_point::max());
  std::optional<Vocabulary> vocabulary;
  if (frame && frame->header.kind == FrameKind::kVocabulary) {
    vocabulary = std::get<Vocabulary>(Decode(*frame));
    frame = line.Receive(Clock::time_point::max());
  }
  const std::optional<StartMessage> start = Line::TakeAs<StartMessage>(frame, "start");
  if (start && vocabulary) executor.SetVocabulary(std::move(*vocabulary), start->grammars);
  return start;
}

struct GrammarsEnd {
  StepExecutor& executor;
  ~GrammarsEnd() { executor.EndGrammars(); }
};

void AnswerOldest(Line& line, StepExecutor& executor, Lease& lease) {
  const StepResult result = executor.Finish();
  line.Send(EncodeResult(result));
  lease.SetAnswered(result.step);
}

/// Serves steps until Shutdown. Begins a plan before earlier results are ready, if the engine allows that.
void ServeSteps(Line& line, StepExecutor& executor, Lease& lease, BlockCuts& cuts, BlockCourier& courier,
                AdapterLoader& adapters) {
  StagePatience patience;
  for (;;) {
    for (const BlocksReport& report : courier.TakeReports()) line.Send(report);
    for (const AdapterReady& report : adapters.TakeReports()) line.Send(report);
    if (executor.grammars() != nullptr) {
      for (const GrammarReady& report : executor.grammars()->TakeReports()) line.Send(report);
    }
    if (!executor.idle() && (executor.Done() || !executor.can_accept())) {
      AnswerOldest(line, executor, lease);
      patience = {};
      continue;
    }
    const auto frame = line.TryReceive();
    if (!frame) {
      executor.idle() ? line.Wait(courier.report_fd()) : patience.Pause();
      continue;
    }
    patience = {};
    if (frame->header.kind == FrameKind::kShutdown) {
      Decode(*frame);  // throws Error if the frame is malformed
      return;
    }
    if (IsBlockOrder(frame->header.kind)) {
      while (!executor.idle()) AnswerOldest(line, executor, lease);
      FollowBlockOrder(*frame, executor, cuts, courier);
      continue;
    }
    if (frame->header.kind == FrameKind::kGrammar) {
      executor.FollowGrammarOrder(*frame);
      continue;
    }
    if (frame->header.kind == FrameKind::kAdapter) {
      adapters.Follow(std::get<AdapterMessage>(Decode(*frame)));
      continue;
    }
    lease.SetBegun(frame->header.step);
    executor.Accept(*frame);
    while (!executor.can_begin()) AnswerOldest(line, executor, lease);
    executor.Begin();
  }
}

BlockCuts CutsOf(const ModelSpec& spec, const AssignMessage& assign, Rank rank, const RankEngine& engine) {
  return BlockCuts({.spec = &spec,
                    .cut = assign.cut(),
                    .rank = rank,
                    .block_bytes = engine.own_block_bytes(),
                    .head_bytes = [&engine](int64_t head_dim) { return engine.kv_head_bytes(head_dim); },
                    .latents_once = engine.latents_once()});
}

/// Returns a function that prints rank 0's loading progress to stderr, at most once a second.
std::function<void(int64_t, int64_t)> LoadProgress(Rank rank) {
  return [rank, last = Clock::now()](int64_t done, int64_t total) mutable {
    if (rank != 0 || Clock::now() - last < std::chrono::seconds(1)) return;
    last = Clock::now();
    WorkerLog(LogLevel::kInfo, rank,
              fmt::format("{:3} % of {:.1f} GiB of weights loaded", 100 * done / total,
                          static_cast<double>(total) / (1 << 30)));
  };
}

JoinMessage JoinOf(const WorkerOptions& options, const MpiBootstrap& mpi) {
  const Accelerators accelerators = FindAccelerators();
  const MemoryRoom memory = ReadMemoryRoom();
  return {.build = kBuildVersion,
          .host = options.HostName(),
          .pid = ::getpid(),
          .rank = mpi.rank(),
          .world_size = mpi.world_size(),
          .devices = accelerators.count,
          .device_problem = accelerators.problem,
          .processors = OwnProcessorRoom().count,
          .memory_bytes = memory.total,
          .memory_limit = memory.limited_by};
}

/// Goes through Join, Assign, Hello, Start, Ready and the steps. `phase` names the current phase, for error messages.
void Live(Line& line, const WorkerOptions& options, const WorkerKeys* keys, MpiBootstrap& mpi, const char*& phase) {
  phase = "join";
  const auto assign = line.Join(JoinOf(options, mpi));
  if (!assign) return;
  Lease lease(CtrlEndpoint(options.coordinator, assign->ctrl_port), line.epoch(), mpi.rank(), keys);

  phase = "load";
  ReportMappingErrors(fmt::format("quire-worker: rank {} on {}", mpi.rank(), options.HostName()));
  const auto begin = Clock::now();
  if (assign->cut().num_ranks() != mpi.world_size())
    Fail("the coordinator plans for {} ranks, mpirun started {}", assign->cut().num_ranks(), mpi.world_size());
  EngineSizes sizes = AssignedSizes(*assign);
  const ModelFiles files = OpenAssigned(*assign);
  const std::optional<ModelFiles> draft = mpi.rank() == 0 ? OpenAssignedDraft(*assign) : std::nullopt;
  if (draft) sizes.draft.files = &*draft;
  const std::unique_ptr<Backend> backend = MakeBackend(files, sizes, *assign, mpi, LoadProgress(mpi.rank()));
  StepExecutor executor(files.spec(), sizes, mpi.rank(), backend->MakeEngine());
  const RankEngine& engine = executor.engine();
  if (mpi.rank() == 0)
    for (const std::string& note : engine.notes()) WorkerLog(LogLevel::kInfo, 0, note);
  const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
  HelloMessage hello{.fingerprint = assign->fingerprint,
                     .isa = engine.device(),
                     .bytes_per_block = engine.block_bytes(),
                     .weight_bytes = engine.weight_bytes(),
                     .available_bytes = engine.available_bytes(),
                     .load_millis = static_cast<int32_t>(millis),
                     .bytes_per_state = engine.state_bytes(),
                     .working = engine.working()};
  AddWholeParts(files.spec(), assign->cut(), mpi.rank(), engine, hello);
  line.Send(hello);

  phase = "start";
  const auto start = AwaitStart(line, executor);
  if (!start) return;
  const int64_t swap_nanos = executor.AllocateBlocks(start->num_blocks, start->num_host_blocks, start->state_blocks);
  line.Send(ReadyMessage{start->num_blocks, start->num_host_blocks, swap_nanos, start->state_blocks});

  phase = "serve";
  // The identity lets a receiver tell this worker's blocks from those of other workers.
  BlockCourier courier({.identity = fmt::format("blocks.{}.{}.{}", options.HostName(), ::getpid(), mpi.rank()),
                        .rank = mpi.rank(),
                        .epoch = line.epoch(),
                        .coordinator = options.coordinator,
                        .keys = keys});
  BlockCuts cuts = CutsOf(files.spec(), *assign, mpi.rank(), engine);
  const GrammarsEnd end{executor};  // destroyed before the courier, through which its reports are sent
  if (executor.grammars() != nullptr) executor.grammars()->set_on_report([&courier] { courier.Wake(); });
  AdapterLoader adapters(files, executor, [&courier] { courier.Wake(); });
  ServeSteps(line, executor, lease, cuts, courier, adapters);
}

/// Tells the coordinator of a failure, if the connection still works.
void Report(std::optional<Line>& line, const FailureMessage& failure) {
  try {
    if (line) line->Send(failure);
  } catch (const std::exception&) {  // stderr already has the error
  }
}

}  // namespace

int RunWorker(const WorkerOptions& options, MpiBootstrap& mpi) {
  const char* phase = "connect";
  std::optional<WorkerKeys> keys;
  std::optional<Line> line;
  try {
    if (::sodium_init() < 0) Fail("libsodium cannot be initialised");
    if (!options.keys.empty()) {
      ForbidCoreDumps();
      keys = LoadWorkerKeys(options.keys, mpi.rank());
    }
    const WorkerKeys* own_keys = keys ? &*keys : nullptr;
    line.emplace(options, mpi.rank(), own_keys);
    Live(*line, options, own_keys, mpi, phase);
    return 0;
  } catch (const std::exception& error) {
    WorkerLog(LogLevel::kError, mpi.rank(), fmt::format("{}: {}", phase, error.what()), options.HostName());
    const bool by_settings = StatusOf(error) == kSettingsStatus;
    Report(line, {.phase = phase, .message = error.what(), .by_settings = by_settings});
  }
  // ZeroMQ's own thread sends the report. Then the process ends without MPI_Finalize, which would wait for lost ranks.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  ::_exit(1);
}

}  // namespace quire
