// Measures what many ranks and many replicas cost one coordinator. Numbers go to docs/benchmarks; nothing in this file
// is a test.
//   build/tests/fleet_bench [REPLICAS [SEQUENCES]]
// The first part sends the plan of a step to up to 512 ranks over loopback, and takes their answers. The second part
// simulates fleets of three sizes: real engines on a virtual clock, requests that choose among them as in a server, and
// the loss of a quarter of the replicas in the middle. The program fails if a request gets a wrong token.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <queue>

#include "comm/base/error.h"
#include "comm/wire/channel.h"
#include "coordinator/cluster/replicas/prefix_sketch.h"
#include "coordinator/cluster/replicas/replica_choice.h"
#include "coordinator/core/engine/engine.h"

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

double MicrosSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

double MedianOf(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

/// Receives one frame on a channel.
Frame Take(Channel& channel) {
  Channel* const one = &channel;
  for (int i = 0; i < 100; ++i) {
    if (auto received = channel.TryReceive()) return std::move(received->frame);
    Channel::Wait({&one, 1}, -1, 100);
  }
  Fail("no frame came within 10 s");
}

/// Returns the plan of a step that decodes one token of each of `sequences` sequences.
StepPlan DecodePlan(int sequences, StepId step) {
  StepPlan plan;
  plan.epoch = 1;
  plan.step = step;
  for (SlotId slot = 0; slot < static_cast<SlotId>(sequences); ++slot) plan.decodes.push_back(slot);
  return plan;
}

/// Prints how long the coordinator's thread takes to send a plan to this many ranks and to receive their answers.
void MeasureBroadcast(int ranks, int sequences) {
  constexpr int kSteps = 50;
  Channel router = Channel::Bind("tcp://127.0.0.1:0");
  std::vector<Channel> dealers;
  for (Rank rank = 0; rank < ranks; ++rank) {
    dealers.push_back(Channel::Connect(router.bound_endpoint(), WorkerIdentity(1, rank)));
    const JoinMessage join{.build = kBuildVersion, .host = "host", .pid = 1, .rank = rank, .world_size = ranks};
    if (!dealers.back().Send("", Encode(join, 1, 0))) Fail("rank {} does not reach the coordinator", rank);
    Take(router);
  }
  std::vector<double> send, answers;
  size_t bytes = 0;
  for (StepId step = 1; step <= kSteps; ++step) {
    const auto begin = Clock::now();
    const Frame frame = EncodePlan(DecodePlan(sequences, step));
    for (Rank rank = 0; rank < ranks; ++rank) {
      if (!router.Send(WorkerIdentity(1, rank), frame)) Fail("the plan does not go to rank {}", rank);
    }
    send.push_back(MicrosSince(begin));
    bytes = frame.body.size() + sizeof(frame.header);
    for (Rank rank = 0; rank < ranks; ++rank) {
      const Frame got = Take(dealers[static_cast<size_t>(rank)]);
      StepResult result{.epoch = 1, .step = step, .rank = rank, .plan_hash = got.header.body_hash};
      for (int i = 0; rank == 0 && i < sequences; ++i) result.tokens.push_back({static_cast<SlotId>(i), 5, 0, {}});
      if (!dealers[static_cast<size_t>(rank)].Send("", EncodeResult(result))) Fail("no answer of rank {}", rank);
    }
    const auto taking = Clock::now();
    for (int i = 0; i < ranks; ++i) Decode(Take(router));
    answers.push_back(MicrosSince(taking));
  }
  fmt::print("| {} | {} | {} | {:.0f} | {:.0f} |\n", ranks, sequences, bytes, MedianOf(send), MedianOf(answers));
}

/// Returns the token that follows the first `known` tokens of the sequence that begins with `first` and `second`.
TokenId TokenAfter(TokenId first, TokenId second, int64_t known) {
  return static_cast<TokenId>((int64_t{first} * 7919 + int64_t{second} * 104'729 + known * 31) % 50'000);
}

constexpr int kPrompt = 48, kDrawn = 100, kBlocks = 400, kPlaces = 32, kBlockSize = 16;
constexpr double kStepSeconds = 0.01;

/// Counts the tokens of one request, and how many of them are wrong.
class CheckingSink : public RequestSink {
 public:
  CheckingSink(TokenId first, TokenId second, int64_t& wrong, int64_t& done)
      : first_(first), second_(second), wrong_(wrong), done_(done) {}

  bool OnToken(const TokenEvent& event) override {
    if (event.token != TokenAfter(first_, second_, kPrompt + count_++)) ++wrong_;
    return false;
  }
  void OnFinish(int, FinishReason) override {
    if (count_ != kDrawn) ++wrong_;
    ++done_;
  }
  void OnError(RequestError, const std::string&) override { ++wrong_, ++done_; }

 private:
  const TokenId first_, second_;
  int64_t &wrong_, &done_;
  int64_t count_ = 0;
};

EngineOptions OptionsOfReplica() {
  EngineOptions options;
  options.scheduler.max_running = kPlaces;
  options.scheduler.max_step_tokens = 512;
  options.blocks.num_blocks = kBlocks;
  options.blocks.block_size = kBlockSize;
  options.max_model_len = 1024;
  options.drafts = {};
  return options;
}

/// A real engine, and workers that return TokenAfter.
class SimulatedReplica {
 public:
  SimulatedReplica() : engine_(OptionsOfReplica()), slots_(kPlaces) {}

  Engine& engine() { return engine_; }
  bool serving = true, busy = false;

  ReplicaView View() const {
    ReplicaView view;
    view.serving = serving;
    for (const auto& [id, request] : engine_.requests()) view.queued_tokens += request->NumUncomputed();
    view.running = static_cast<int>(engine_.scheduler().running().size());
    view.waiting = engine_.scheduler().num_waiting();
    view.free_blocks = engine_.blocks().num_free();
    view.usable_blocks = engine_.blocks().num_usable();
    return view;
  }

  /// Begins a step if there is work, and returns true if one began. The step ends kStepSeconds later.
  bool Begin(double now) {
    const StepPlan* plan = busy || !serving ? nullptr : engine_.NextPlan(now);
    if (plan == nullptr) return false;
    drawn_.clear();
    for (const AddedSequence& added : plan->added)
      slots_[added.slot] = {added.tokens[0], added.tokens[1], static_cast<int64_t>(added.tokens.size())};
    for (const SlotId slot : plan->decodes) Draw(slot);
    for (const Chunk& chunk : plan->chunks) {
      if (chunk.start + chunk.count == slots_[chunk.slot].tokens) Draw(chunk.slot);
    }
    busy = true;
    return true;
  }
  void End() {
    busy = false;
    engine_.CommitStep(drawn_);
  }

 private:
  struct Known {
    TokenId first = 0, second = 0;
    int64_t tokens = 0;
  };
  void Draw(SlotId slot) {
    Known& known = slots_[slot];
    drawn_.push_back({slot, TokenAfter(known.first, known.second, known.tokens), 0, {}});
    ++known.tokens;
  }

  Engine engine_;
  std::vector<Known> slots_;
  std::vector<SampledToken> drawn_;
};

/// Many replicas, among which each request chooses as in Replicas::Submit.
class Fleet {
 public:
  Fleet(int replicas, int sequences) : replicas_(static_cast<size_t>(replicas)), at_once_(sequences) {}

  /// Replaces ended requests, so that `sequences` requests run, until three times as many have ended. When a third of
  /// these has ended, a quarter of the replicas is lost; these replicas return when two thirds have ended.
  void Run() {
    const int64_t total = 3 * int64_t{at_once_};
    const auto begin = Clock::now();
    size_t lost = 0, steps = 0;
    while (done_ < total) {
      while (submitted_ < total && submitted_ - done_ < at_once_) Submit();
      if (lost == 0 && done_ >= total / 3) lost = LoseRack();
      if (lost > 0 && !back_ && done_ >= 2 * total / 3) Return(lost);
      Wake();
      QUIRE_CHECK(!ends_.empty(), "{} of {} requests are done, and nothing runs", done_, total);
      const auto [seconds, replica, epoch] = ends_.top();
      ends_.pop();
      now_ = seconds;
      SimulatedReplica& one = replicas_[replica];
      if (one.serving && one.engine().epoch() == epoch) one.End(), ++steps, idle_.push_back(replica);
    }
    const double seconds = MicrosSince(begin) / 1e6;
    fmt::print(
        "{} replicas, {} sequences at once: {} requests of {} + {} tokens, {} steps, {:.1f} s of virtual time in "
        "{:.1f} s\n",
        replicas_.size(), at_once_, total, kPrompt, kDrawn, steps, now_, seconds);
    fmt::print(
        "choice of a replica: median {:.0f} us, of which views {:.0f} us and cached prefixes {:.0f} us; largest {:.0f} "
        "us\n",
        MedianOf(choice_), MedianOf(views_took_), MedianOf(sketch_took_), std::ranges::max(choice_));
    fmt::print("most requests on one replica at any time: {} (mean {:.1f})\n", most_,
               static_cast<double>(at_once_) / static_cast<double>(replicas_.size()));
    fmt::print("{} replicas lost with {} requests, which went on elsewhere; choosing took {:.0f} ms in all\n", lost,
               moved_, moving_ / 1000);
    fmt::print("wrong or missing tokens: {}\n", wrong_);
    if (wrong_ > 0) std::exit(1);
  }

 private:
  struct End {
    double seconds;
    size_t replica;
    EpochId epoch;
    bool operator>(const End& other) const { return seconds > other.seconds; }
  };

  size_t Choose(const PrefixSketch::Hashes& hashes) {
    const auto begin = Clock::now();
    std::vector<ReplicaView> views;
    for (const SimulatedReplica& one : replicas_) views.push_back(one.View());
    views_took_.push_back(MicrosSince(begin));
    const auto looking = Clock::now();
    for (size_t r = 0; r < views.size(); ++r) views[r].cached_blocks = sketch_.Leading(hashes, static_cast<int>(r));
    sketch_took_.push_back(MicrosSince(looking));
    const auto chosen = ChooseReplica(views, {kPrompt / kBlockSize, kBlockSize});
    sketch_.Note(hashes, *chosen);
    choice_.push_back(MicrosSince(begin));
    return static_cast<size_t>(*chosen);
  }

  void Submit() {
    const auto id = static_cast<RequestId>(++submitted_);
    const auto first = static_cast<TokenId>(id % 50'000), second = static_cast<TokenId>(id / 50'000 + id % 7);
    auto request = std::make_unique<Request>();
    request->id = id;
    request->limits.max_tokens = kDrawn;
    request->sampling.temperature = 0;
    request->arrival_seconds = now_;
    std::vector<TokenId> prompt(kPrompt, static_cast<TokenId>(id % 100));
    prompt[0] = first;
    prompt[1] = second;
    const size_t chosen = Choose(sketch_.HashesOf("", prompt));
    request->sequences = NewSequences(prompt, 1);
    request->sink = std::make_shared<CheckingSink>(first, second, wrong_, done_);
    if (const auto refusal = replicas_[chosen].engine().Submit(std::move(request))) Fail("{}", *refusal);
    idle_.push_back(chosen);
    most_ = std::max(most_, replicas_[chosen].engine().requests().size());
  }

  void Wake() {
    for (const size_t replica : idle_) {
      if (replicas_[replica].Begin(now_))
        ends_.push({now_ + kStepSeconds, replica, replicas_[replica].engine().epoch()});
    }
    idle_.clear();
  }

  size_t LoseRack() {
    const size_t rack = replicas_.size() / 4;
    for (size_t r = 0; r < rack; ++r) replicas_[r].serving = false;
    const auto begin = Clock::now();
    for (size_t r = 0; r < rack; ++r) {
      Engine& engine = replicas_[r].engine();
      std::vector<RequestId> ids;
      for (const auto& [id, request] : engine.requests()) ids.push_back(id);
      for (const RequestId id : ids) {
        std::optional<Departure> departure = engine.Depart(id, 0, 0);
        const size_t chosen = Choose({});
        if (const auto refusal = replicas_[chosen].engine().Adopt(departure->request, 0, {})) Fail("{}", *refusal);
        idle_.push_back(chosen);
        ++moved_;
      }
    }
    moving_ = MicrosSince(begin);
    return rack;
  }

  void Return(size_t rack) {
    back_ = true;
    for (size_t r = 0; r < rack; ++r) {
      replicas_[r].engine().StartEpoch(2);
      replicas_[r].serving = true;
      replicas_[r].busy = false;
      sketch_.Forget(static_cast<int>(r));
    }
  }

  std::vector<SimulatedReplica> replicas_;
  const int at_once_;
  PrefixSketch sketch_{kBlockSize};
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::vector<size_t> idle_;  // replicas that may have work to begin
  std::vector<double> choice_, views_took_, sketch_took_;
  double now_ = 0, moving_ = 0;
  int64_t submitted_ = 0, done_ = 0, wrong_ = 0, moved_ = 0;
  size_t most_ = 0;
  bool back_ = false;
};

void Run(int replicas, int sequences) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  fmt::print("| ranks | sequences | bytes of a plan | us to encode and send it | us to take the answers |\n");
  fmt::print("| --- | --- | --- | --- | --- |\n");
  for (const int sequences_of_step : {32, 4096}) {
    for (const int ranks : {1, 4, 16, 64, 256, 512}) MeasureBroadcast(ranks, sequences_of_step);
  }
  for (const int part : {16, 4, 1}) Fleet(replicas / part, sequences / part).Run();
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  quire::Run(argc > 1 ? std::atoi(argv[1]) : 1000, argc > 2 ? std::atoi(argv[2]) : 4096);
  return 0;
}
