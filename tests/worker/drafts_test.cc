// Tests whole models with drafts: an answer's tokens, log-probabilities and alternatives have the same bits as without
// drafts, however many drafts are right. The real scheduler, block manager, frames, executors and collectives run.
#include <gtest/gtest.h>

#include <algorithm>

#include "comm/collective/lone_collective.h"
#include "coordinator/core/engine/engine.h"
#include "tests/support/collecting_sink.h"
#include "tests/support/prediction_model.h"
#include "tests/support/random.h"
#include "tests/support/rewritten_model.h"
#include "tests/support/step_ahead.h"
#include "tests/support/thread_collectives.h"
#include "tests/support/thread_group.h"
#include "worker/model/shard.h"
#include "worker/model/state_layout.h"

namespace quire {
namespace {

using test::CollectingSink;
using Sinks = std::vector<CollectingSink>;

struct DraftedAsk {
  std::vector<TokenId> prompt;
  SamplingSpec sampling;
  int choices = 1;
  int max_tokens = 24;
};

/// The smallest vocabulary of all models of this test.
constexpr int kFewTokens = 48;

/// Returns requests that use every setting that sampling considers. The choices of a prompt get answers of different
/// lengths.
std::vector<DraftedAsk> AllKinds() {
  std::vector<DraftedAsk> asked;
  test::Random random(5);
  const auto prompt = [&](int length) {
    std::vector<TokenId> tokens;
    for (int i = 0; i < length; ++i) tokens.push_back(static_cast<TokenId>(2 + random.Below(40)));
    return tokens;
  };
  asked.push_back({prompt(5), {.temperature = 0, .num_logprobs = 3}});
  asked.push_back({prompt(33), {.temperature = 0}, 1, 40});
  asked.push_back({prompt(17), {.temperature = 0.9f, .top_k = 20, .top_p = 0.9f, .seed = 4, .num_logprobs = 2}, 3});
  asked.push_back({prompt(9),
                   {.temperature = 0.7f,
                    .repetition_penalty = 1.2f,
                    .frequency_penalty = 0.3f,
                    .presence_penalty = 0.2f,
                    .seed = 8,
                    .num_logprobs = 1,
                    .logit_bias = {{3, 2.0f}, {9, -5.0f}}}});
  asked.push_back({prompt(12),
                   {.temperature = 0,
                    .num_logprobs = 1,
                    .banned_until_min = {4, 5, 6, 7, 8},
                    .min_tokens = 9,
                    .bad_words = {{3}, {10, 11}}}});
  asked.push_back({prompt(7), {.temperature = 1, .seed = 3, .allowed_tokens = {4, 5, 6, 7, 20, 21}}, 2, 15});
  // A token's text is one letter, so that every word of the grammar can be sampled. A draft token may be one that the
  // grammar forbids.
  asked.push_back(
      {prompt(11), {.temperature = 0, .num_logprobs = 1, .grammar = {GrammarSource::kRegex, "(ab|cde){2,9}f"}}});
  asked.push_back(
      {prompt(6),
       {.temperature = 0.9f, .seed = 2, .num_logprobs = 1, .grammar = {GrammarSource::kRegex, "[a-f]{3,20}z"}},
       2});
  ThoughtLimit thoughts{.tokens = 6, .begun = true, .open = {2}, .close = {3, 4}};
  asked.push_back({prompt(20), {.temperature = 0.8f, .seed = 6, .num_logprobs = 1, .thoughts = thoughts}});
  return asked;
}

/// Returns a vocabulary whose tokens 2 to 27 are the letters, and whose token 1 ends an answer.
Vocabulary LettersOf(size_t size) {
  Vocabulary vocabulary{std::vector<std::string>(size), {1}};
  for (size_t token = 2; token < 28; ++token) vocabulary.bytes[token] = static_cast<char>('a' + token - 2);
  return vocabulary;
}

/// Proposes the tokens of known answers. Each proposed token is wrong with a probability of 100 - percent_right
/// percent.
class KnownAnswers final : public DraftProposer {
 public:
  KnownAnswers(const Sinks& answers, int percent_right) : answers_(answers), percent_right_(percent_right) {}

  DraftSource Propose(const Request& request, const Sequence& sequence, int most,
                      std::vector<TokenId>& guess) override {
    guess.clear();
    const auto& answer = answers_[request.id - 1].choices.at(sequence.choice).tokens;
    for (auto at = static_cast<size_t>(sequence.num_generated()); std::ssize(guess) < most; ++at) {
      const TokenId right = at < answer.size() ? answer[at] : 1;
      guess.push_back(random_.Below(100) < percent_right_ ? right : (right + 1) % kFewTokens);
    }
    return DraftSource::kText;
  }

 private:
  const Sinks& answers_;
  int percent_right_;
  test::Random random_{17};
};

struct Served {
  std::vector<double> shares = {1};
  int num_blocks = 200;
  int num_host_blocks = 0;
  ComputeSettings compute = {};
  bool from_text = true, from_answers = false;  // DraftOptions of the engine's own proposer
  const Sinks* predictions = nullptr;           // answers that the clients predict, with an error in each
  std::vector<int32_t> stages = {};             // layers of the stages of a pipeline
  const ModelFiles* draft = nullptr;            // the draft model of rank 0
  int block_size = 4;
  bool one_by_one = false;  // a request comes once the request before it has ended
};

/// Returns an imperfect prediction, as a client might send it: the answer with one token changed and another removed,
/// if the answer is long enough.
std::vector<TokenId> PredictionOf(std::vector<TokenId> answer) {
  if (answer.size() > 14) answer[12] = (answer[12] + 1) % kFewTokens;
  if (answer.size() > 6) answer.erase(answer.begin() + 5);
  return answer;
}

/// Expects that clients and statistics report the same numbers of draft tokens.
void ExpectSameCounts(const Sinks& sinks, const EngineStats& stats) {
  int64_t accepted = 0, refused = 0;
  for (const CollectingSink& sink : sinks) accepted += sink.accepted_drafts, refused += sink.refused_drafts;
  EXPECT_EQ(stats.all_drafts().accepted, accepted);
  EXPECT_EQ(stats.all_drafts().tokens, accepted + refused);
}

/// Serves all requests together, or one by one if the setup says so. Serves them a second time if the setup has drafts
/// from earlier answers. Drafts come from `proposer`, which may be null, or from the engine's own proposer if `own` is
/// set.
Sinks AnswersOf(const ModelFiles& files, const std::vector<DraftedAsk>& asked, const Served& setup,
                DraftProposer* proposer, EngineStats* stats = nullptr, bool own = false) {
  constexpr int kStepTokens = 48, kRunning = 16, kModelLen = 400, kGuess = 6;
  const int host = setup.num_host_blocks > 0 ? setup.num_host_blocks + 1 : 0;
  EngineSizes sizes{setup.block_size, kStepTokens,   kRunning,     kModelLen, 1,
                    setup.shares,     setup.compute, setup.stages, {}};
  sizes.draft_rows = kRunning * (1 + kGuess);
  if (setup.draft != nullptr)
    sizes.draft = {.files = setup.draft, .num_tokens = kGuess, .max_sequences = kRunning, .max_model_len = kModelLen};
  test::ThreadGroup group(files, sizes, setup.num_blocks, host);
  group.SetVocabulary(LettersOf(static_cast<size_t>(files.spec().vocab_size)));
  EngineOptions options;
  options.scheduler.max_step_tokens = kStepTokens;
  options.scheduler.max_running = kRunning;
  options.scheduler.preemption = setup.num_host_blocks > 0 ? PreemptionMode::kSwap : PreemptionMode::kRecompute;
  options.scheduler.lookahead_tokens = 0;
  options.scheduler.num_stages = sizes.cut().num_stages();
  options.blocks.num_blocks = setup.num_blocks;
  options.blocks.num_host_blocks = setup.num_host_blocks;
  options.blocks.block_size = setup.block_size;
  options.blocks.watermark = 0;
  options.blocks.state_blocks = group.state_blocks();
  options.blocks.sliding_window = static_cast<int>(files.spec().window());
  options.max_model_len = kModelLen;
  options.drafts = {
      .num_tokens = kGuess, .max_batch = kRunning, .from_text = setup.from_text, .from_answers = setup.from_answers};
  if (setup.draft != nullptr) {
    options.drafts.from_text = false;
    options.drafts.from_model = true;
    if (setup.draft->spec().predicts) options.drafts.model_source = DraftSource::kLayer;
    options.drafts.model_max_len = kModelLen;
  }
  Engine engine(options);
  if (!own) engine.set_proposer(proposer);
  const int rounds = setup.from_answers ? 2 : 1;
  Sinks sinks(asked.size() * static_cast<size_t>(rounds));
  for (size_t i = 0; i < sinks.size(); ++i) {
    const DraftedAsk& a = asked[i % asked.size()];
    auto request = test::MakeRequest(i + 1, a.prompt, a.max_tokens, sinks[i], a.choices, a.sampling);
    if (setup.predictions != nullptr) request->prediction = PredictionOf((*setup.predictions)[i].choices.at(0).tokens);
    const auto refused = engine.Submit(std::move(request));
    EXPECT_FALSE(refused.has_value()) << *refused;
    if (i % asked.size() + 1 < asked.size() && !setup.one_by_one) continue;
    while (!engine.idle()) {
      test::StepAhead(engine, group);
    }
  }
  EXPECT_EQ(engine.blocks().num_free(), engine.blocks().num_usable());
  if (stats != nullptr) *stats = engine.stats();
  return sinks;
}

void ExpectSameBits(const Sinks& got, const Sinks& right, const std::string& where) {
  for (size_t i = 0; i < right.size(); ++i) {
    EXPECT_EQ(got[i].error, right[i].error) << where << ", request " << i;
    for (const auto& [index, choice] : right[i].choices) {
      const CollectingSink::Choice& mine = got[i].choices.at(index);
      EXPECT_EQ(mine.tokens, choice.tokens) << where << ", request " << i << ", choice " << index;
      EXPECT_EQ(mine.logprobs, choice.logprobs) << where << ", request " << i << ", choice " << index;
      EXPECT_EQ(mine.top, choice.top) << where << ", request " << i << ", choice " << index;
      EXPECT_EQ(mine.finished, choice.finished) << where << ", request " << i << ", choice " << index;
    }
  }
}

/// The parameter is a model of tests/golden/models.
class DraftsTest : public testing::TestWithParam<const char*> {
 protected:
  ModelFiles files_ = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + GetParam());
  bool has_states_ = StateLayout(files_.spec(), PlanShards(files_.spec(), {1.0}).front()).bytes > 0;
};

TEST_P(DraftsTest, Answers_HaveTheSameBits_WhateverTokensAreDrafted) {
  const std::vector<DraftedAsk> asked = AllKinds();
  std::vector<Served> setups = {{.shares = {1}},
                                {.shares = {1, 1}},
                                {.shares = {2, 1, 1}},
                                {.shares = {1}, .num_blocks = 40},
                                {.shares = {1, 1}, .num_blocks = 40, .num_host_blocks = 60},
                                {.shares = {1}, .compute = {.kv_cache_dtype = KvCacheDtype::kInt8}},
                                {.shares = {1}, .compute = {.kv_cache_dtype = KvCacheDtype::kFloat16}}};
  for (size_t s = 0; s < setups.size(); ++s) {
    Served& setup = setups[s];
    if (has_states_) setup.num_blocks *= 12;  // states take blocks, too
    if (static_cast<int64_t>(setup.shares.size()) > files_.spec().num_heads) continue;
    const Sinks right = AnswersOf(files_, asked, setup, nullptr);
    for (const int percent : {100, 70, 0}) {
      KnownAnswers proposer(right, percent);
      EngineStats stats;
      const Sinks got = AnswersOf(files_, asked, setup, &proposer, &stats);
      ExpectSameBits(got, right, "setup " + std::to_string(s) + ", " + std::to_string(percent) + " % right");
      const DraftCounts counts = stats.all_drafts();
      EXPECT_GT(counts.tokens, 0);
      EXPECT_GE(counts.accepted, percent == 100 ? counts.tokens / 2 : 0);
      ExpectSameCounts(got, stats);
    }
  }
}

TEST_P(DraftsTest, Answers_HaveTheSameBits_WithPredictionsAndEarlierAnswers) {
  const std::vector<DraftedAsk> asked = AllKinds();
  Served setup{.num_blocks = has_states_ ? 2000 : 60, .from_text = false};
  const Sinks right = AnswersOf(files_, asked, setup, nullptr);
  EngineStats stats;
  setup.predictions = &right;
  const Sinks predicted = AnswersOf(files_, asked, setup, nullptr, &stats, true);
  ExpectSameBits(predicted, right, "predictions");
  ExpectSameCounts(predicted, stats);
  const DraftCounts& counts = stats.drafts[static_cast<size_t>(DraftSource::kPrediction)];
  EXPECT_GT(counts.accepted, 40) << "of " << counts.tokens;
  EXPECT_EQ(stats.all_drafts().tokens, counts.tokens);

  setup.predictions = nullptr;
  setup.from_answers = true;
  const Sinks twice = AnswersOf(files_, asked, setup, nullptr, &stats, true);
  Sinks right_twice = right;
  right_twice.insert(right_twice.end(), right.begin(), right.end());
  ExpectSameBits(twice, right_twice, "earlier answers");
  ExpectSameCounts(twice, stats);
  EXPECT_GT(stats.drafts[static_cast<size_t>(DraftSource::kAnswers)].accepted, 40);
}

/// A conversation with a hybrid model: the second prompt contains most of the first answer. The second request begins
/// from a recurrent state that was saved within this answer, and some of the drafts around that position were wrong.
TEST(HybridDraftsTest, AnswersThatBeginFromASavedState_HaveTheSameBits_WhenDraftsSurroundedTheState) {
  for (const char* name : {"qwen35", "lfm2", "granitehybrid"}) {
    const auto files = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + name);
    Served setup{.num_blocks = 2000};
    const std::vector<DraftedAsk> first = {
        {{5, 6, 7, 8, 9}, {.temperature = 0.9f, .seed = 3, .num_logprobs = 1}, 1, 162}};
    const Sinks said = AnswersOf(files, first, setup, nullptr);
    const std::vector<TokenId>& answer = said[0].choices.at(0).tokens;
    ASSERT_EQ(answer.size(), 162u) << name;
    std::vector<DraftedAsk> asked = first;
    asked.push_back(first[0]);
    asked[1].prompt.insert(asked[1].prompt.end(), answer.begin(), answer.end() - 8);
    asked[1].max_tokens = 40;
    // The right answers come from each request by itself, in a new group without anything cached.
    Sinks right = said;
    right.push_back(AnswersOf(files, {asked[1]}, setup, nullptr)[0]);
    setup.one_by_one = true;
    for (const int percent : {100, 80, 40}) {
      KnownAnswers proposer(right, percent);
      EngineStats stats;
      const std::string where = fmt::format("{}, {} % right", name, percent);
      const Sinks got = AnswersOf(files, asked, setup, &proposer, &stats);
      ExpectSameBits(got, right, where);
      EXPECT_EQ(got[1].cached, 128) << where << ": the last multiple of 64 tokens";
      EXPECT_GT(stats.all_drafts().accepted, 10) << where;
    }
  }
}

TEST(HybridDraftsTest, StepBytes_CountTheRowsOfDrafts_BeforeAndAfterLoading) {
  const auto files = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/lfm2");
  const int64_t layers = files.spec().num_state_layers(), width = 3 * files.spec().hidden_size;
  EngineSizes sizes{4, 48, 48, 200, 1, {1, 1}};  // 48 rows sample tokens in any case
  auto collectives = MakeThreadCollectives(2);
  const auto bytes = [&](Rank rank) { return MemoryOfCpuRank(files, sizes, rank).working.step_bytes; };
  const int64_t before = bytes(0) + bytes(1);
  for (const int rows : {18, 48, 1000}) {
    sizes.draft_rows = rows;
    const int64_t kept = layers * std::min(rows, sizes.max_step_tokens) * width * static_cast<int64_t>(sizeof(float));
    EXPECT_EQ(bytes(0) + bytes(1) - before, kept);
    for (Rank rank = 0; rank < 2; ++rank)
      EXPECT_EQ(MakeCpuEngine(files, sizes, *collectives[static_cast<size_t>(rank)])->working().step_bytes,
                bytes(rank));
  }
}

/// The draft model runs on rank 0, however the served model is divided among ranks. The vocabularies of two draft
/// models lack some tokens. After such a token these models make no drafts.
TEST(DraftModelTest, Answers_HaveTheSameBits_WhicheverModelGuesses) {
  const auto open = [](const char* name) { return ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + name); };
  const ModelFiles files = open("gqa");
  const std::vector<DraftedAsk> asked = AllKinds();
  const std::vector<Served> setups = {
      {.shares = {1}},
      {.shares = {1, 1}},
      {.shares = {2, 1, 1}},
      {.shares = {1}, .num_blocks = 40},
      {.shares = {1, 1}, .num_blocks = 40, .num_host_blocks = 60},
      {.shares = {1}, .compute = {.kv_cache_dtype = KvCacheDtype::kInt8}, .block_size = 16},
      {.shares = {1}, .compute = {.kv_cache_dtype = KvCacheDtype::kFloat16}},
      {.shares = {2, 1}, .num_blocks = 40, .num_host_blocks = 60, .stages = {2, 1}}};
  for (size_t s = 0; s < setups.size(); ++s) {
    Served setup = setups[s];
    const Sinks right = AnswersOf(files, asked, setup, nullptr);
    for (const char* name : {"gqa", "mqa", "mpt"}) {
      const ModelFiles draft = open(name);
      setup.draft = &draft;
      EngineStats stats;
      const std::string where = fmt::format("setup {}, guesses of {}", s, name);
      const Sinks got = AnswersOf(files, asked, setup, nullptr, &stats, true);
      ExpectSameBits(got, right, where);
      ExpectSameCounts(got, stats);
      const DraftCounts& counts = stats.drafts[static_cast<size_t>(DraftSource::kModel)];
      EXPECT_GT(counts.tokens, std::string(name) == "gqa" ? 20 : 0) << where;
      EXPECT_EQ(stats.all_drafts().tokens, counts.tokens) << where;
    }
  }
}

/// In a hybrid, some blocks hold a recurrent state. The draft model's part of such a block is unused.
TEST(DraftModelTest, AnswersOfAHybrid_HaveTheSameBits_WhenADraftModelGuesses) {
  const auto open = [](const char* name) { return ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + name); };
  const ModelFiles draft = open("gqa");
  const std::vector<DraftedAsk> asked = AllKinds();
  for (const char* name : {"qwen35", "lfm2"}) {
    const ModelFiles files = open(name);
    for (const Served& plain :
         {Served{.num_blocks = 480}, {.shares = {1, 1}, .num_blocks = 480, .num_host_blocks = 720}}) {
      Served setup = plain;
      const Sinks right = AnswersOf(files, asked, setup, nullptr);
      setup.draft = &draft;
      EngineStats stats;
      ExpectSameBits(AnswersOf(files, asked, setup, nullptr, &stats, true), right, name);
      EXPECT_GT(stats.all_drafts().tokens, 20) << name;
    }
  }
}

/// The drafts of a draft model that equals the served model are right, if the likeliest token is sampled and the answer
/// does not end.
TEST(DraftModelTest, GuessesOfADraftModel_AreRight_WhenItEqualsTheServedModel_AlsoAfterSwapsAndFromTheCache) {
  const auto files = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/gqa");
  std::vector<DraftedAsk> asked;
  test::Random random(6);
  std::vector<TokenId> prompt;
  for (int i = 0; i < 37; ++i) prompt.push_back(static_cast<TokenId>(2 + random.Below(40)));
  for (int i = 0; i < 6; ++i) {
    asked.push_back({prompt, {.temperature = 0}, i == 1 ? 2 : 1, 60});
    asked.back().prompt.resize(static_cast<size_t>(37 - 3 * i));
  }
  for (const Served& plain : {Served{}, Served{.shares = {1, 1}, .num_blocks = 50, .num_host_blocks = 90},
                              Served{.num_blocks = 60, .block_size = 5}}) {
    Served setup = plain;
    EngineStats without, with;
    const Sinks right = AnswersOf(files, asked, setup, nullptr, &without);
    setup.draft = &files;
    ExpectSameBits(AnswersOf(files, asked, setup, nullptr, &with, true), right, "guesses of the model itself");
    const DraftCounts counts = with.all_drafts();
    // The last draft may reach beyond the answer's end, so a few draft tokens are not accepted.
    EXPECT_GE(counts.accepted * 100, counts.tokens * 90) << counts.accepted << " of " << counts.tokens;
    EXPECT_LT(with.steps * 2, without.steps) << "fewer than half of the steps";
  }
}

TEST(DraftModelTest, Guesses_BeginOnceTheDraftModelHasReadALongPrompt_AlsoWhenSequencesShareIt) {
  const auto files = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/gqa");
  test::Random random(7);
  std::vector<TokenId> prompt;
  for (int i = 0; i < 330; ++i) prompt.push_back(static_cast<TokenId>(2 + random.Below(40)));
  const std::vector<DraftedAsk> asked = {{prompt, {.temperature = 0}, 3, 60}, {prompt, {.temperature = 0}, 1, 50}};
  const Served plain{.num_blocks = 300};
  Served drafted = plain;
  drafted.draft = &files;
  EngineStats stats;
  const Sinks right = AnswersOf(files, asked, plain, nullptr);
  ExpectSameBits(AnswersOf(files, asked, drafted, nullptr, &stats, true), right, "a long prompt");
  const DraftCounts counts = stats.all_drafts();
  EXPECT_GT(counts.accepted, 100);
  EXPECT_GE(counts.accepted * 100, counts.tokens * 90) << counts.accepted << " of " << counts.tokens;
}

/// Runs plans on one rank whose draft model is the served model, in blocks of 4 tokens.
class OneRankWithDraftModel {
 public:
  OneRankWithDraftModel() { executor_.AllocateBlocks(10); }

  /// Computes the tokens from position `start` on in `blocks`, and then the token that was sampled after them. Returns
  /// the draft model's draft of the next 3 tokens.
  std::vector<TokenId> GuessAfter(const std::vector<TokenId>& tokens, int start, const std::vector<BlockId>& blocks) {
    StepPlan plan = Next();
    if (slot_ > 0) plan.released = {slot_ - 1};
    const auto known = static_cast<int32_t>(tokens.size());
    plan.added = {{slot_, known, start, tokens, blocks, {.temperature = 0}}};
    plan.chunks = {{slot_, start, known - start}};
    plan.position_sum = static_cast<uint64_t>(start);
    executor_.Execute(EncodePlan(plan));
    plan = Next();
    plan.decodes = {slot_};
    plan.guesses = {{slot_, 3}};
    plan.position_sum = static_cast<uint64_t>(known);
    ++slot_;
    const StepResult result = executor_.Execute(EncodePlan(plan));
    return result.guesses.empty() ? std::vector<TokenId>() : result.guesses.front().tokens;
  }

  /// Copies the served model's part of pool blocks to other pool blocks, as when blocks come from another group.
  void Bring(const std::vector<BlockId>& from, const std::vector<BlockId>& to) {
    const auto sources = executor_.Lend(from, true).memory, targets = executor_.LendToFill(to, true).memory;
    for (size_t i = 0; i < sources.size(); ++i) std::ranges::copy(sources[i], targets[i].begin());
  }

 private:
  StepPlan Next() {
    StepPlan plan;
    plan.epoch = 1;
    plan.step = ++step_;
    return plan;
  }
  EngineSizes Sizes() const {
    return {.block_size = 4,
            .max_step_tokens = 16,
            .max_running = 8,
            .max_model_len = 64,
            .shares = {1},
            .draft = {.files = &files_, .num_tokens = 3, .max_sequences = 4, .max_model_len = 64}};
  }

  ModelFiles files_ = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/gqa");
  LoneCollective alone_;
  StepExecutor executor_{files_.spec(), Sizes(), 0, MakeCpuEngine(files_, Sizes(), alone_)};
  StepId step_ = 0;
  SlotId slot_ = 0;
};

TEST(DraftModelTest, DraftModel_ReadsTokensAgain_WhenTheirBlocksWereOverwritten) {
  OneRankWithDraftModel rank;
  const std::vector<TokenId> first = {5, 6, 7, 8, 9, 10, 11, 12, 13}, second = {30, 4, 31, 3, 32, 2, 33, 34, 3};
  const std::vector<TokenId> guess = rank.GuessAfter(first, 0, {1, 2, 3});
  ASSERT_EQ(guess.size(), 3u);
  EXPECT_NE(rank.GuessAfter(second, 0, {4, 5, 6}), guess);
  rank.Bring({1, 2}, {4, 5});
  EXPECT_EQ(rank.GuessAfter(first, 8, {4, 5, 7}), guess) << "the model read the second text there";
}

/// The prediction layer runs on rank 0, however the served model is divided among ranks.
TEST(PredictionLayerTest, Answers_HaveTheSameBits_WithGuessesOfAPredictionLayer) {
  const std::vector<DraftedAsk> asked = AllKinds();
  const std::vector<Served> setups = {
      {.shares = {1}},
      {.shares = {2, 1, 1}},
      {.shares = {1}, .num_blocks = 40, .block_size = 5},
      {.shares = {1, 1}, .num_blocks = 40, .num_host_blocks = 60},
      {.shares = {1}, .compute = {.kv_cache_dtype = KvCacheDtype::kInt8}, .block_size = 16},
      {.shares = {2, 1}, .num_blocks = 40, .num_host_blocks = 60, .stages = {2, 1}},
      {.shares = {1, 1}, .compute = {.expert_parallel = true}}};
  for (const char* name : {"deepseekv3", "glm4moe", "qwen3next"}) {
    const test::PredictionModel model(name);
    const ModelFiles files = model.Open(), layer = model.OpenPrediction();
    for (size_t s = 0; s < setups.size(); ++s) {
      Served setup = setups[s];
      if (files.spec().num_state_layers() > 0) setup.num_blocks *= 12;  // states take blocks, too
      const Sinks right = AnswersOf(files, asked, setup, nullptr);
      setup.draft = &layer;
      EngineStats stats;
      const std::string where = fmt::format("{}, setup {}", name, s);
      const Sinks got = AnswersOf(files, asked, setup, nullptr, &stats, true);
      ExpectSameBits(got, right, where);
      ExpectSameCounts(got, stats);
      const DraftCounts& counts = stats.drafts[static_cast<size_t>(DraftSource::kLayer)];
      EXPECT_GT(counts.tokens, 20) << where;
      EXPECT_EQ(stats.all_drafts().tokens, counts.tokens) << where;
    }
  }
}

/// The layer's drafts are right only if it reads the hidden state of the right position. The texts share their
/// beginnings, so prefixes come from the cache, choices share blocks, and sequences are preempted.
TEST(PredictionLayerTest, Guesses_AreRight_WhenThePredictionLayerIsRight_AlsoAfterSwapsAndFromTheCache) {
  const test::ForeseenModel model;
  const ModelFiles files = model.Open(), layer = model.OpenPrediction();
  std::vector<DraftedAsk> asked;
  test::Random random(6);
  std::vector<TokenId> prompt;
  for (int i = 0; i < 180; ++i) prompt.push_back(static_cast<TokenId>(2 + random.Below(40)));
  for (int i = 0; i < 6; ++i) {
    asked.push_back({prompt, {.temperature = 0}, i == 1 ? 2 : 1, 60});
    asked.back().prompt.resize(static_cast<size_t>(i == 5 ? 180 : 37 - 3 * i));
  }
  for (const Served& plain : {Served{}, Served{.shares = {1, 1}, .num_blocks = 90, .num_host_blocks = 90},
                              Served{.num_blocks = 80}, Served{.shares = {2, 1, 1}, .one_by_one = true},
                              Served{.num_blocks = 90, .block_size = 5}, Served{.shares = {1, 1}, .stages = {2, 1}}}) {
    Served setup = plain;
    EngineStats without, with;
    const Sinks right = AnswersOf(files, asked, setup, nullptr, &without);
    setup.draft = &layer;
    const std::string where = fmt::format("{} ranks, {} blocks", plain.shares.size(), plain.num_blocks);
    ExpectSameBits(AnswersOf(files, asked, setup, nullptr, &with, true), right, where);
    const DraftCounts& counts = with.drafts[static_cast<size_t>(DraftSource::kLayer)];
    // The last draft may reach beyond the answer's end, so a few draft tokens are not accepted.
    EXPECT_GE(counts.accepted * 100, counts.tokens * 90) << counts.accepted << " of " << counts.tokens << ", " << where;
    EXPECT_LT(with.steps * 2, without.steps) << "fewer than half of the steps, " << where;
  }
}

/// With every sampling setting, a pipeline gives the same answers as a single stage with as many ranks as each stage
/// has, with and without drafts.
TEST(PipelineDrawsTest, Answers_HaveTheBitsOfOneStage_WhateverIsGuessed) {
  const auto files = ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/gqa");
  const std::vector<DraftedAsk> asked = AllKinds();
  for (const std::vector<double>& shares : {std::vector<double>{1}, {2, 1}}) {
    const Sinks right = AnswersOf(files, asked, {.shares = shares}, nullptr);
    for (const std::vector<int32_t>& stages : {std::vector<int32_t>{2, 1}, {1, 1, 1}}) {
      const std::string where = fmt::format("{} ranks in each of {} stages", shares.size(), stages.size());
      ExpectSameBits(AnswersOf(files, asked, {.shares = shares, .stages = stages}, nullptr), right, where);
      KnownAnswers proposer(right, 70);
      const Served swapping{.shares = shares, .num_blocks = 40, .num_host_blocks = 60, .stages = stages};
      EngineStats stats;
      ExpectSameBits(AnswersOf(files, asked, swapping, &proposer, &stats), right, where + ", with drafts");
      EXPECT_GT(stats.all_drafts().accepted, 0);
    }
  }
}

/// The model is a hybrid with twice the layers of a golden model, so that each of two stages has layers with states and
/// layers with keys.
TEST(PipelineDrawsTest, AnswersOfAHybrid_HaveTheBitsOfOneStage) {
  test::RewrittenModel model("lfm2");
  const int layers = model.config["num_hidden_layers"];
  Json types = model.config["layer_types"];
  const Json once = types;
  types.insert(types.end(), once.begin(), once.end());
  model.config["layer_types"] = types;
  model.config["num_hidden_layers"] = 2 * layers;
  const auto tensors = model.tensors;
  for (const auto& [name, tensor] : tensors) {
    for (int layer = 0; layer < layers; ++layer) {
      const std::string prefix = fmt::format("model.layers.{}.", layer);
      if (name.starts_with(prefix))
        model.tensors[fmt::format("model.layers.{}.{}", layers + layer, name.substr(prefix.size()))] = tensor;
    }
  }
  const auto files = ModelFiles::Open(model.Write());
  const std::vector<DraftedAsk> asked = AllKinds();
  for (const std::vector<double>& shares : {std::vector<double>{1}, {1, 1}}) {
    const Sinks right = AnswersOf(files, asked, {.shares = shares, .num_blocks = 2000}, nullptr);
    const Served cut{.shares = shares, .num_blocks = 2000, .stages = {3, 5}};
    const std::string where = fmt::format("{} ranks a stage", shares.size());
    ExpectSameBits(AnswersOf(files, asked, cut, nullptr), right, where);
    KnownAnswers proposer(right, 70);
    EngineStats stats;
    ExpectSameBits(AnswersOf(files, asked, cut, &proposer, &stats), right, where + ", with drafts");
    EXPECT_GT(stats.all_drafts().accepted, 0);
  }
}

constexpr const char* kDraftedModels[] = {
    "gqa",     "mqa.gguf",        "gemma3",    "gptoss.mxfp4",     "mixtral.gguf",
    "mpt",     "deepseekv2.gguf", "swa",       "phi3.gguf",        "kquants.gguf",
    "qwen35",  "lfm2.gguf",       "qwen3next", "granitehybridmoe", "nemotronh.gguf",
    "falconh1"};
INSTANTIATE_TEST_SUITE_P(Models, DraftsTest, testing::ValuesIn(kDraftedModels), [](const auto& model) {
  std::string name = model.param;
  std::ranges::replace(name, '.', '_');
  return name;
});

}  // namespace
}  // namespace quire
