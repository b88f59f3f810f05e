#include "coordinator/journal/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "coordinator/journal/command_archive.h"
#include "coordinator/journal/engine_archive.h"
#include "coordinator/journal/replay.h"
#include "tests/support/collecting_sink.h"
#include "tests/support/gated_sink.h"
#include "tests/support/random.h"

namespace quire {
namespace {

using testing::HasSubstr;

/// An engine with a journal as observer, random traffic of every kind, and randomly sampled tokens.
class JournalTest : public testing::Test {
 protected:
  JournalTest() { std::filesystem::remove_all(directory_); }
  ~JournalTest() override { std::filesystem::remove_all(directory_); }

  static EngineOptions Options() {
    EngineOptions options;
    options.scheduler = {40, 8, PreemptionMode::kAuto, 0};
    options.blocks.num_blocks = 31;
    options.blocks.num_host_blocks = 20;
    options.blocks.block_size = 4;
    options.blocks.hash_key = {1, 2, 3};
    options.max_model_len = 200;
    options.vocab_size = 50;
    options.max_wait_seconds = 20;
    return options;
  }

  std::unique_ptr<Request> RandomRequest(RequestId id) {
    std::vector<TokenId> prompt(8, 7);
    for (int64_t i = random_.Between(1, 20); i > 0; --i) prompt.push_back(static_cast<TokenId>(random_.Below(3)));
    const int n = random_.Below(3) == 0 ? 3 : 1;
    auto request = test::MakeRequest(id, prompt, static_cast<int>(random_.Between(1, 20)), sinks_[id], n);
    sinks_[id].stop_after = random_.Below(4) == 0 ? 5 : 0;
    request->name = "cmpl-" + std::to_string(id);
    request->client = random_.Below(2) == 0 ? "a" : "b";
    request->priority = static_cast<int>(random_.Below(3));
    request->adapter = static_cast<int>(id % 3);
    request->arrival_seconds = now_;
    request->limits.stop_token_ids = {3};
    if (id % 3 == 0) request->sampling.num_prompt_logprobs = 2;
    if (drafts_ && id % 2 == 0) request->prediction = {0, 1, 2, 0, 0, 1, 1, 2, 2};
    if (id % 5 == 0 && n == 1) request->sampling.pooling = Pooling::kMean;
    if (id % 4 == 0) request->sampling.grammar = {GrammarSource::kRegex, "(a|b)*"};
    if (n == 3 && random_.Below(2) == 0) {
      request->beams =
          std::make_unique<BeamSearch>(BeamOptions{3, 2}, request->limits.stop_token_ids, request->limits.max_tokens);
      request->sampling.num_logprobs = request->beams->num_candidates();
    }
    return request;
  }

  /// Returns random tokens as the samples of the oldest outstanding step.
  std::vector<SampledToken> Draws(const Engine& engine) {
    std::vector<SampledToken> out;
    const auto draw = [&](SlotId slot, std::optional<TokenId> right = {}) {
      SampledToken token{slot, right.value_or(static_cast<TokenId>(random_.Below(drafts_ ? 4 : 50))), -0.5f, {}};
      for (TokenId t = 0; t < 6; ++t) token.top.emplace_back((token.token + t) % 50, -0.5f - random_.Signed());
      out.push_back(token);
    };
    for (const StepMember& m : engine.scheduler().outstanding().at(0).members) {
      for (size_t i = 0; i < m.drafts.size() && random_.Below(3) > 0; ++i) draw(m.slot, m.drafts[i]);
      if (m.draws) draw(m.slot);
      const bool pools = m.draws && m.request != nullptr && m.request->sampling.pooling != Pooling::kNone;
      if (pools && m.start < m.request->num_prompt_tokens()) out.back().pooled = {0.5f, 0.25f};
    }
    return out;
  }

  /// Moves a random running request out of the engine, through host memory or from device to device, and adopts it
  /// again.
  void Move(Engine& engine) {
    const std::vector<Request*>& running = engine.scheduler().running();
    if (running.empty()) return;
    const Request& leaves = *running[static_cast<size_t>(random_.Below(static_cast<int64_t>(running.size())))];
    const RequestId id = leaves.id;
    const bool ahead = random_.Below(2) == 0;
    const uint64_t from = ++last_ticket_, to = ++last_ticket_;
    const int room = ahead ? 2 : engine.scheduler().BlocksOf(leaves) + 1;
    if (!engine.Reserve(to, room, ahead ? MigrationWay::kDevice : MigrationWay::kHost)) return;
    std::vector<BlockId> blocks = ahead ? engine.Share(id, from, room) : std::vector<BlockId>();
    std::optional<Departure> departure = engine.Depart(id, ahead ? 0 : from, room, static_cast<int>(blocks.size()));
    if (!ahead) blocks = departure->blocks;
    ++(blocks.empty() ? num_bare_ : ahead ? num_ahead_ : num_by_host_);
    EXPECT_EQ(engine.Adopt(departure->request, blocks.empty() ? 0 : to, blocks), std::nullopt);
    engine.ReleaseTicket(from);
    engine.ReleaseTicket(to);
  }

  /// Returns drafts of a draft model after the oldest outstanding step: a random part of the drafts that the step
  /// ordered.
  std::vector<Draft> Guesses(const Engine& engine) {
    std::vector<Draft> guesses;
    for (const StepMember& m : engine.scheduler().outstanding().at(0).members) {
      if (m.guess == 0 || random_.Below(4) == 0) continue;
      Draft& guess = guesses.emplace_back(Draft{m.slot, {}});
      for (int64_t count = random_.Between(1, m.guess); count > 0; --count)
        guess.tokens.push_back(static_cast<TokenId>(random_.Below(4)));
    }
    return guesses;
  }

  /// Runs steps under random traffic, with up to two plans outstanding. All kinds of journal commands occur.
  void Live(Engine& engine, int steps) {
    for (int i = 0; i < steps; ++i, now_ += 0.1) {
      if (random_.Below(2) == 0) engine.Submit(RandomRequest(++last_id_));
      if (random_.Below(20) == 0)
        engine.Cancel(static_cast<RequestId>(random_.Between(1, static_cast<int64_t>(last_id_))));
      if (random_.Below(60) == 0) engine.FlushCache();
      if (random_.Below(25) == 0) Move(engine);
      if (random_.Below(50) == 0)
        engine.ChangeOptions({random_.Below(2) == 0, static_cast<double>(random_.Between(15, 25)), 600});
      if (random_.Below(30) == 0) engine.PinPrefix("", std::vector<TokenId>(8, 7), now_ + 1);
      if (random_.Below(100) == 0) engine.StartEpoch(++epoch_);
      engine.ExpireOverdue(now_);
      const int plans = engine.num_outstanding() == 0 ? 1 : static_cast<int>(random_.Below(2));
      for (int p = 0; p < plans; ++p) steps_ += engine.NextPlan(now_) != nullptr;
      if (engine.num_outstanding() == 0 || (engine.num_outstanding() == 1 && random_.Below(2) == 0)) continue;
      const std::vector<SampledToken> drawn = Draws(engine);
      const std::vector<Draft> guesses = Guesses(engine);
      ASSERT_TRUE(engine.Fits(guesses));
      engine.CommitStep(drawn, {static_cast<uint32_t>(random_.Between(1000, 90'000)), 10, guesses.empty() ? 0u : 900u},
                        {}, guesses);
    }
  }

  /// Runs steps until the journal has written all waiting records. Each step pauses 1 ms, so that the disk can keep up.
  void LiveUntilWritten(Engine& engine, const Journal& journal) {
    do {
      Live(engine, 1);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } while (journal.health().waiting_bytes > 0);
  }

  std::string directory_ = testing::TempDir() + "quire-journal-" + std::to_string(::getpid());
  test::Random random_{42};
  std::map<RequestId, test::CollectingSink> sinks_;
  bool drafts_ = false;  // requests have predictions, and samples have few different tokens
  RequestId last_id_ = 0;
  uint64_t last_ticket_ = 0;
  int num_bare_ = 0, num_ahead_ = 0, num_by_host_ = 0;  // number of moves of each kind
  EpochId epoch_ = 1;
  double now_ = 1000;
  int64_t steps_ = 0;
};

TEST_F(JournalTest, Replay_YieldsTheSamePlans_OverManySegments) {
  Engine engine(Options());
  engine.StartEpoch(1);
  engine.SetSwapSpeed(1e-5);
  {
    Journal journal(directory_, {64 << 10, 64 << 20}, engine);
    engine.set_observer(&journal);
    Live(engine, 3000);
    engine.set_observer(nullptr);
  }
  EXPECT_GT(engine.scheduler().num_preemptions(), 10);
  EXPECT_GT(engine.scheduler().num_swapped_out(), 0);
  EXPECT_GT(engine.stats().cached_tokens, 100);
  EXPECT_GT(std::min({num_bare_, num_ahead_, num_by_host_}), 5);
  const ReplayResult result = Replay(directory_);
  EXPECT_EQ(result.differing, 0) << result.first_difference;
  EXPECT_EQ(result.steps, steps_);
  EXPECT_GT(result.segments, 10);
  EXPECT_EQ(result.torn, "");
}

TEST_F(JournalTest, Replay_YieldsTheSamePlans_WhenTheModelHasHybridStates) {
  EngineOptions options = Options();
  options.blocks.num_blocks = 61;
  options.blocks.state_blocks = 2;
  options.blocks.state_spacing = 4;
  Engine engine(options);
  engine.StartEpoch(1);
  {
    Journal journal(directory_, {64 << 10, 64 << 20}, engine);
    engine.set_observer(&journal);
    Live(engine, 2000);
    engine.set_observer(nullptr);
  }
  EXPECT_GT(engine.blocks().prefixes().checkpoints().num_kept(), 50u);
  EXPECT_GT(engine.stats().cached_tokens, 50);
  EXPECT_GT(engine.scheduler().num_swapped_out(), 0);
  const ReplayResult result = Replay(directory_);
  EXPECT_EQ(result.differing, 0) << result.first_difference;
  EXPECT_EQ(result.steps, steps_);
  EXPECT_GT(result.segments, 5);
}

TEST_F(JournalTest, Replay_YieldsTheSamePlans_WhenThePipelineChangesItsLength) {
  EngineOptions options = Options();
  options.scheduler.num_stages = 2;
  options.blocks.num_blocks = 61;
  options.blocks.state_blocks = 2;
  options.blocks.state_spacing = 4;
  Engine engine(options);
  engine.StartEpoch(1);
  {
    Journal journal(directory_, {64 << 10, 64 << 20}, engine);
    engine.set_observer(&journal);
    for (const int stages : {3, 1, 2}) {
      Live(engine, 700);
      engine.StartEpoch(++epoch_, engine.blocks().sizes(), stages);
    }
    engine.set_observer(nullptr);
  }
  const ReplayResult result = Replay(directory_);
  EXPECT_EQ(result.differing, 0) << result.first_difference;
  EXPECT_EQ(result.steps, steps_);
  EXPECT_GT(result.segments, 5);
}

/// Runs steps with drafts. Expects that more than 50 tokens of each source are accepted, and that the replay yields the
/// same plans.
class DraftJournalTest : public JournalTest {
 protected:
  void ExpectReplay(const DraftOptions& drafts, std::initializer_list<DraftSource> sources) {
    EngineOptions options = Options();
    options.drafts = drafts;
    drafts_ = true;
    Engine engine(options);
    engine.StartEpoch(1);
    {
      Journal journal(directory_, {64 << 10, 64 << 20}, engine);
      engine.set_observer(&journal);
      Live(engine, 3000);
      engine.set_observer(nullptr);
    }
    for (const DraftSource source : sources)
      EXPECT_GT(engine.stats().drafts[static_cast<size_t>(source)].accepted, 50) << NameOf(source);
    const ReplayResult result = Replay(directory_);
    EXPECT_EQ(result.differing, 0) << result.first_difference;
    EXPECT_EQ(result.steps, steps_);
    EXPECT_GT(result.segments, 10);
  }
};

TEST_F(DraftJournalTest, Replay_YieldsTheSamePlans_WithDraftsFromEverySource) {
  ExpectReplay({.num_tokens = 4, .from_answers = true},
               {DraftSource::kPrediction, DraftSource::kText, DraftSource::kAnswers});
}

TEST_F(DraftJournalTest, Replay_YieldsTheSamePlans_WithDraftsOfADraftModel) {
  ExpectReplay({.num_tokens = 4, .from_text = false, .from_model = true, .model_max_len = 1000},
               {DraftSource::kPrediction, DraftSource::kModel});
}

TEST_F(DraftJournalTest, Replay_YieldsTheSamePlans_WithDraftsOfAPredictionLayer) {
  ExpectReplay({.num_tokens = 4,
                .from_text = false,
                .from_model = true,
                .model_source = DraftSource::kLayer,
                .model_max_len = 1000},
               {DraftSource::kPrediction, DraftSource::kLayer});
}

TEST_F(JournalTest, Replay_ReportsThePlan_WhenItDiffersFromTheRecordedPlan) {
  Engine engine(Options());
  {
    Journal journal(directory_, {}, engine);
    engine.set_observer(&journal);
    Live(engine, 50);
    while (engine.num_outstanding() > 0) engine.CommitStep(Draws(engine));
    StepPlan other;
    other.step = 9999;
    journal.OnCommand(command::Plan{now_}, {.plan = &other});
    journal.OnCommand(command::Commit{{}, {}, {}, {}}, {});
    engine.set_observer(nullptr);
  }
  const ReplayResult result = Replay(directory_);
  EXPECT_EQ(result.differing, 1);
  EXPECT_THAT(result.first_difference, HasSubstr("step 9999"));
}

TEST_F(JournalTest, Replay_ReportsCommandsOutOfOrder_AndDoesNotRunThem) {
  const std::vector<SampledToken> no_tokens;
  const std::vector<PromptScores> no_scores;
  const std::vector<Draft> no_guesses;
  std::unique_ptr<Request> twice = RandomRequest(++last_id_);
  const Command out_of_order[] = {command::Commit{no_tokens, {}, no_scores, no_guesses}, command::Submit{twice}};
  for (const Command& command : out_of_order) {
    std::filesystem::remove_all(directory_);
    Engine engine(Options());
    {
      Journal journal(directory_, {}, engine);
      engine.set_observer(&journal);
      engine.Submit(test::MakeRequest(twice->id, {1, 2}, 9, sinks_[twice->id]));
      EXPECT_NE(engine.NextPlan(now_), nullptr);
      engine.CommitStep(Draws(engine));
      journal.OnCommand(command, {});
      engine.set_observer(nullptr);
    }
    const ReplayResult result = Replay(directory_);
    EXPECT_EQ(result.differing, 1);
    EXPECT_THAT(result.first_difference, HasSubstr("does not follow"));
    EXPECT_EQ(result.steps, 1);
  }
}

TEST_F(JournalTest, EveryCommand_SurvivesARoundTrip) {
  auto submitted = RandomRequest(7), adopted = RandomRequest(8);
  adopted->num_preemptions = 3;
  const std::vector<SampledToken> sampled = {{3, 41, -0.5f, {{41, -0.5f}, {2, -1.5f}}}, {4, 1, -2, {}}};
  const std::vector<PromptScores> scores;
  const std::vector<Draft> guesses = {{3, {5, 6}}, {4, {7}}};
  const std::string salt = "salt";
  const std::vector<TokenId> tokens = {1, 2, 3};
  const std::vector<BlockId> blocks = {9, 4};
  const Command commands[] = {command::Submit{submitted},
                              command::Cancel{11},
                              command::Plan{1.5},
                              command::Commit{sampled, {12, 13, 14}, scores, guesses},
                              command::Expire{2.5},
                              command::StartEpoch{14, {15, 16}},
                              command::SetSwapSpeed{3.5},
                              command::FlushCache{},
                              command::PinPrefix{salt, tokens, 4.5},
                              command::Unpin{17},
                              command::Depart{18, 19, 20, 30},
                              command::Reserve{21, 22, MigrationWay::kDevice},
                              command::ReleaseTicket{23},
                              command::Adopt{adopted, 24, blocks},
                              command::ChangeOptions{{false, 25, 26}},
                              command::Share{27, 28, 29},
                              command::HoldCached{30, blocks},
                              command::ReserveForStored{salt, tokens, 31, 32, 33},
                              command::CacheStored{salt, tokens, 34, 35, 36},
                              command::AdapterCame{2000},
                              command::AdapterGone{2001}};
  ASSERT_EQ(std::size(commands), std::variant_size_v<Command>);
  for (size_t number = 0; number < std::size(commands); ++number) {
    ArchiveWriter out, again;
    SaveCommand(out, commands[number]);
    ArchiveReader in(out.bytes());
    CommandOperands operands;
    const Command read = LoadCommand(in, number, operands);
    EXPECT_EQ(read.index(), number);
    EXPECT_TRUE(in.at_end()) << number;
    SaveCommand(again, read);
    EXPECT_TRUE(std::ranges::equal(out.bytes(), again.bytes())) << number;
  }
  ArchiveReader nothing({});
  CommandOperands operands;
  EXPECT_THROW(LoadCommand(nothing, std::size(commands), operands), Error);
}

TEST_F(JournalTest, LoadedSnapshot_EqualsTheEngine_AndACutSnapshotIsRefused) {
  Engine engine(Options());
  Live(engine, 333);
  for (int i = 0; i < 100 && engine.num_outstanding() < 2; ++i) {
    engine.Submit(RandomRequest(++last_id_));
    if (engine.NextPlan(now_) == nullptr) engine.CommitStep(Draws(engine));
  }
  ASSERT_EQ(engine.num_outstanding(), 2);
  ArchiveWriter out;
  EngineArchive::Save(out, engine);
  ArchiveReader in(out.bytes());
  const auto loaded = EngineArchive::Load(in, std::make_shared<test::CollectingSink>());
  EXPECT_TRUE(in.at_end());
  ArchiveWriter again;
  EngineArchive::Save(again, *loaded);
  EXPECT_TRUE(std::ranges::equal(out.bytes(), again.bytes()));
  EXPECT_EQ(loaded->num_outstanding(), 2);
  for (size_t cut = 0; cut + 1 < out.bytes().size(); cut += 97) {
    ArchiveReader half(out.bytes().first(cut));
    EXPECT_THROW(EngineArchive::Load(half, nullptr), Error) << cut;
  }
}

TEST_F(JournalTest, ExplainRequest_TellsWhyARequestWaitedAndWhichRequestPreemptedIt) {
  EngineOptions options = Options();
  options.blocks.num_blocks = 7;
  options.blocks.num_host_blocks = 0;
  options.blocks.prefix_caching = false;
  Engine engine(options);
  std::optional<Journal> journal(std::in_place, directory_, JournalLimits{}, engine);
  engine.set_observer(&*journal);
  for (const RequestId id : {1, 2, 3}) {
    auto request = test::MakeRequest(id, std::vector<TokenId>(7, 5), 12, sinks_[id]);
    request->arrival_seconds = now_;
    request->name = "cmpl-" + std::to_string(id);
    ASSERT_FALSE(engine.Submit(std::move(request)));
  }
  for (; !engine.idle(); now_ += 0.5) {
    engine.NextPlan(now_);
    engine.CommitStep(Draws(engine));
  }
  engine.set_observer(nullptr);
  journal.reset();  // the destructor writes all records to disk
  const std::string story = ExplainRequest(directory_, "cmpl-2");
  EXPECT_THAT(story, HasSubstr("request 2 (cmpl-2) arrived"));
  EXPECT_THAT(story, HasSubstr("7 prompt tokens, at most 12 more"));
  EXPECT_THAT(story, HasSubstr("queued: 7 prompt tokens, 1 requests before it"));
  EXPECT_THAT(story, HasSubstr("admitted"));
  EXPECT_THAT(story, HasSubstr("preempted for request 1: gives up"));
  EXPECT_THAT(story, HasSubstr("readmitted"));
  EXPECT_THAT(story, HasSubstr("choice 0 finished: max_tokens"));
  EXPECT_EQ(story, ExplainRequest(directory_, "2"));
  EXPECT_THAT(ExplainRequest(directory_, "3"), HasSubstr("first in the queue, but needs"));
  EXPECT_THROW(ExplainRequest(directory_, "cmpl-99"), Error);
}

TEST_F(JournalTest, Replay_LosesOnlyTheLastRecord_WhenTheFileEndsInsideIt) {
  Engine engine(Options());
  {
    Journal journal(directory_, {}, engine);
    engine.set_observer(&journal);
    Live(engine, 40);
    engine.set_observer(nullptr);
  }
  const std::string segment = directory_ + "/segment-000000000001.qj";
  ASSERT_TRUE(std::filesystem::exists(segment));
  std::filesystem::resize_file(segment, std::filesystem::file_size(segment) - 3);
  const ReplayResult result = Replay(directory_);
  EXPECT_EQ(result.differing, 0) << result.first_difference;
  EXPECT_EQ(result.torn, "1");
}

TEST_F(JournalTest, Replay_SkipsSegments_OfAnotherVersion) {
  {
    RecordWriter writer(directory_, 1 << 20, 1 << 24);
    ArchiveWriter payload;
    payload(0.0, kJournalFormat + 1, std::string("9.9"));
    writer.Append(static_cast<uint8_t>(JournalEntry::kSnapshot), payload.bytes());
    writer.Append(77, payload.bytes());
  }
  Engine engine(Options());
  {
    Journal journal(directory_, {}, engine);
    engine.set_observer(&journal);
    Live(engine, 40);
    engine.set_observer(nullptr);
  }
  const ReplayResult result = Replay(directory_);
  EXPECT_EQ(result.foreign, "1");
  EXPECT_EQ(result.segments, 1);
  EXPECT_EQ(result.steps, steps_);
  EXPECT_THAT(ExplainRequest(directory_, "1"), HasSubstr("queued"));
}

TEST_F(JournalTest, Journal_LosesRecordsButDelaysNoPlan_WhenTheDiskHangs) {
  Engine engine(Options());
  {
    JournalLimits limits{64 << 10, 64 << 20};
    limits.waiting_bytes = 2 << 20;
    auto gate = std::make_unique<test::GatedSink>(
        std::make_unique<RecordWriter>(directory_, limits.total_bytes, limits.total_bytes));
    test::GatedSink& disk = *gate;
    Journal journal(std::move(gate), limits, engine);
    engine.set_observer(&journal);
    for (int i = 0; i < 100; ++i) LiveUntilWritten(engine, journal);
    EXPECT_EQ(journal.health().lost_records, 0u);
    disk.Close();
    while (journal.health().lost_records < 1000) Live(engine, 100);  // every call returns although the disk hangs
    EXPECT_LE(journal.health().waiting_bytes, limits.waiting_bytes);
    EXPECT_EQ(journal.health().error, "");
    disk.Open();
    for (int i = 0; i < 100; ++i) LiveUntilWritten(engine, journal);
    engine.set_observer(nullptr);
  }
  const ReplayResult result = Replay(directory_);
  EXPECT_EQ(result.differing, 0) << result.first_difference;
  EXPECT_EQ(result.torn, "");
  EXPECT_GE(result.lost, 1000u);
  EXPECT_LT(result.steps, steps_);
  EXPECT_GE(result.segments, 2);
}

TEST_F(JournalTest, Journal_WritesAgainLater_AfterTheDiskRefusedAWrite) {
  Engine engine(Options());
  {
    auto gate = std::make_unique<test::GatedSink>(std::make_unique<RecordWriter>(directory_, 64 << 20, 64 << 20));
    test::GatedSink& disk = *gate;
    Journal journal(std::move(gate), {}, engine);
    engine.set_observer(&journal);
    Live(engine, 20);
    LiveUntilWritten(engine, journal);
    disk.Refuse("no space");
    while (journal.health().error.empty()) Live(engine, 1);
    EXPECT_EQ(journal.health().error, "no space");
    const uint64_t lost = journal.health().lost_records;
    Live(engine, 20);  // two seconds of the engine's clock: the next attempt comes later
    EXPECT_GT(journal.health().lost_records, lost);
    disk.Refuse("");
    while (!journal.health().error.empty()) LiveUntilWritten(engine, journal);
    LiveUntilWritten(engine, journal);
    engine.set_observer(nullptr);
  }
  const ReplayResult result = Replay(directory_);
  EXPECT_EQ(result.differing, 0) << result.first_difference;
  EXPECT_GE(result.segments, 2);
  EXPECT_GT(result.lost, 20u);
}

TEST_F(JournalTest, Replay_SkipsASegment_WhenItsSnapshotIsIncomplete) {
  Engine engine(Options());
  for (int i = 0; i < 2; ++i) {
    Journal journal(directory_, {}, engine);
    engine.set_observer(&journal);
    Live(engine, 40);
    engine.set_observer(nullptr);
  }
  std::filesystem::resize_file(directory_ + "/segment-000000000002.qj", 200);
  const ReplayResult result = Replay(directory_);
  EXPECT_EQ(result.segments, 1);
  EXPECT_EQ(result.torn, "2");
  EXPECT_THAT(ExplainRequest(directory_, "1"), HasSubstr("queued"));
}

TEST_F(JournalTest, Replay_Throws_WhenTheDirectoryHoldsNoJournal) {
  std::filesystem::create_directory(directory_);
  EXPECT_THROW(Replay(directory_), Error);
  EXPECT_THROW(Replay(directory_ + "/nothing"), Error);
}

}  // namespace
}  // namespace quire
