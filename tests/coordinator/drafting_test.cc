// Tests drafts in the engine's core: their sources, their costs, the sequences that get drafts, and the verification of
// drafts.
#include <gtest/gtest.h>

#include <deque>

#include "coordinator/core/engine/engine.h"
#include "tests/support/collecting_sink.h"
#include "tests/support/random.h"

namespace quire {
namespace {

using test::CollectingSink;
using test::MakeRequest;
using Tokens = std::vector<TokenId>;

Tokens GuessAfter(const Tokens& tokens, int most, DraftOptions options = {.num_tokens = 8}) {
  Request request;
  request.sequences = NewSequences(tokens, 1);
  Tokens guess = {99};
  EXPECT_EQ(RepeatProposer(options).Propose(request, request.sequences.front(), most, guess), DraftSource::kText);
  return guess;
}

/// Returns a request with a prompt, tokens that have already been generated, and a prediction of its answer.
Request Predicted(const Tokens& prompt, const Tokens& generated, const Tokens& prediction) {
  Request request;
  request.sequences = NewSequences(prompt, 1);
  Tokens& tokens = request.sequences.front().tokens;
  tokens.insert(tokens.end(), generated.begin(), generated.end());
  request.prediction = prediction;
  return request;
}

/// Returns the proposer's draft of the tokens after `generated`, from the prediction alone.
Tokens GuessOf(const Tokens& prediction, const Tokens& generated, int most) {
  const Request request = Predicted({1, 2, 3}, generated, prediction);
  RepeatProposer proposer({.num_tokens = 8, .from_text = false});
  Tokens guess = {99};
  proposer.Propose(request, request.sequences.front(), most, guess);
  return guess;
}

TEST(RepeatProposerTest, Guess_ContinuesTheLongestMatchWithTheEndOfTheText) {
  EXPECT_EQ(GuessAfter({1, 2, 3, 4, 5, 9, 2, 3, 7, 1, 2, 3}, 2), (Tokens{4, 5})) << "three common tokens beat two";
  EXPECT_EQ(GuessAfter({2, 3, 4, 8, 2, 3, 5, 8, 2, 3}, 1), (Tokens{5})) << "the later of two equal places";
}

TEST(RepeatProposerTest, Guess_IsCut_WhereTheSearchedTextEnds) {
  EXPECT_EQ(GuessAfter({1, 2, 7, 1, 2}, 8), (Tokens{7, 1, 2}));
  EXPECT_EQ(GuessAfter({5, 5, 5, 5}, 8), (Tokens{5})) << "the last place but one";
}

TEST(RepeatProposerTest, Guess_IsEmpty_WithoutAMatchOfTheMinimumLength) {
  EXPECT_TRUE(GuessAfter({1, 2, 3, 4}, 4).empty());
  EXPECT_TRUE(GuessAfter({1, 2, 3, 1}, 4).empty()) << "one common token";
  EXPECT_EQ(GuessAfter({1, 2, 3, 1}, 4, {.num_tokens = 4, .min_match = 1}), (Tokens{2, 3, 1}));
  EXPECT_TRUE(GuessAfter({1}, 4).empty());
}

TEST(PredictionTest, Guess_ContinuesThePrediction_WhileTheAnswerFollowsThePrediction) {
  const Tokens prediction = {10, 11, 12, 13, 14, 15};
  EXPECT_EQ(GuessOf(prediction, {}, 3), (Tokens{10, 11, 12})) << "an answer begins where its prediction begins";
  EXPECT_EQ(GuessOf(prediction, {10}, 2), (Tokens{11, 12})) << "one token tells enough at its own place";
  EXPECT_EQ(GuessOf(prediction, {10, 11, 12, 13}, 8), (Tokens{14, 15}));
  EXPECT_TRUE(GuessOf(prediction, prediction, 8).empty()) << "the prediction has ended";
}

TEST(PredictionTest, Guess_FindsItsPlaceInThePrediction_AfterTheAnswerDeviated) {
  const Tokens prediction = {10, 11, 12, 13, 14, 15, 16};
  EXPECT_TRUE(GuessOf(prediction, {10, 11, 99}, 4).empty()) << "nothing in common yet";
  EXPECT_TRUE(GuessOf(prediction, {10, 98, 99, 12}, 4).empty()) << "one token in common, moved";
  EXPECT_EQ(GuessOf(prediction, {10, 98, 99, 12, 13}, 4), (Tokens{14, 15, 16})) << "two were put in for one";
  EXPECT_EQ(GuessOf(prediction, {10, 13, 14}, 1), (Tokens{15})) << "two were left out";
}

TEST(PredictionTest, Guess_ContinuesTheLongestMatch_AndTheNearestOfEqualMatches) {
  EXPECT_EQ(GuessOf({1, 2, 50, 7, 1, 2, 60, 8, 1, 2, 70}, {9, 7, 1, 2}, 1), (Tokens{60})) << "three tokens beat two";
  const Tokens lines = {1, 2, 50, 0, 1, 2, 60, 0, 1, 2, 70, 0};
  EXPECT_EQ(GuessOf(lines, {3, 3, 3, 3, 1, 2}, 1), (Tokens{60}));
  EXPECT_EQ(GuessOf(lines, {3, 3, 3, 3, 3, 3, 3, 3, 3, 1, 2}, 1), (Tokens{70}));
}

/// Returns `runs` runs. A run is one token with id 2, followed by 62 tokens with id 1. If an answer consists of tokens
/// with id 1, up to 62 tokens before each position in the runs match the answer's end.
Tokens RunsOfOnes(size_t runs) {
  Tokens tokens;
  for (size_t run = 0; run < runs; ++run) {
    tokens.push_back(2);
    tokens.insert(tokens.end(), 62, 1);
  }
  return tokens;
}

TEST(PredictionTest, Search_BoundsComparisons_AndLooksAtTheNearestPlacesFirst) {
  const Tokens answer(70, 1);
  const auto with_long_part = [&](size_t runs) {
    Tokens prediction = RunsOfOnes(runs);
    prediction.push_back(2);
    prediction.insert(prediction.end(), 64, 1);
    prediction.push_back(77);
    return prediction;
  };
  EXPECT_EQ(GuessOf(with_long_part(20), answer, 1), (Tokens{77})) << "the longest part is found among near places";
  EXPECT_EQ(GuessOf(with_long_part(2000), answer, 1), (Tokens{2})) << "it is farther than the comparisons reach";
}

TEST(RepeatProposerTest, Search_LimitsItsComparisons_InATextThatRepeatsOneToken) {
  // The eight tokens before 77 equal the text's last eight tokens. At all positions nearer to the text's end only seven
  // tokens match.
  const auto text_of = [](size_t runs) {
    Tokens text(8, 1);
    text.push_back(77);
    for (size_t run = 0; run < runs; ++run) {
      text.insert(text.end(), {2, 1, 1, 1, 1, 1, 1, 1});
    }
    text.insert(text.end(), {3, 1, 1, 1, 1, 1, 1, 1, 1});
    return text;
  };
  EXPECT_EQ(GuessAfter(text_of(20), 1), (Tokens{77}));
  EXPECT_EQ(GuessAfter(text_of(8000), 1), (Tokens{1})) << "the nearest place with seven";
}

TEST(PredictionTest, Guess_ComesFromThePrediction_WhenTheTextHasAnEquallyLongMatch) {
  RepeatProposer proposer({.num_tokens = 8, .max_match = 4});
  const auto guess = [&](const Request& request) {
    Tokens tokens;
    const DraftSource source = proposer.Propose(request, request.sequences.front(), 1, tokens);
    return std::pair(source, tokens);
  };
  const Tokens text = {5, 6, 7, 8, 20};
  EXPECT_EQ(guess(Predicted(text, {5, 6, 7, 8}, {0, 5, 6, 7, 8, 30})), std::pair(DraftSource::kPrediction, Tokens{30}));
  EXPECT_EQ(guess(Predicted(text, {5, 6, 7, 8}, {0, 7, 8, 30})), std::pair(DraftSource::kText, Tokens{20}));
}

Request Of(const std::string& client, const std::string& salt = "", int adapter = 0) {
  Request request;
  request.client = client;
  request.cache_salt = salt;
  request.adapter = adapter;
  return request;
}

Tokens Found(const EarlierAnswers& answers, const Request& request, const Tokens& text) {
  const CommonPart part = answers.Find(request, text, 2, 8);
  return {part.follows.begin(), part.follows.end()};
}

TEST(EarlierAnswersTest, Guess_ContinuesTheLongestMatch_AndTheLatestOfEqualMatches) {
  EarlierAnswers answers;
  answers.Add(Of("a"), Tokens{1, 2, 3, 4, 5});
  answers.Add(Of("a"), Tokens{9, 1, 2, 3, 6, 7});
  EXPECT_EQ(Found(answers, Of("a"), {0, 1, 2, 3}), (Tokens{6, 7})) << "the later of two equal places";
  EXPECT_EQ(Found(answers, Of("a"), {9, 1, 2, 3}), (Tokens{6, 7}));
  answers.Add(Of("a"), Tokens{0, 1, 2, 3, 8});
  EXPECT_EQ(Found(answers, Of("a"), {9, 1, 2, 3}), (Tokens{6, 7})) << "four common tokens beat three";
  EXPECT_TRUE(Found(answers, Of("a"), {2, 3}).empty()) << "too short";
  EXPECT_TRUE(Found(answers, Of("a"), {3, 6, 7}).empty()) << "nothing follows inside the answer";
}

TEST(EarlierAnswersTest, Answers_AreFound_OnlyForTheirClientSaltAndAdapter) {
  EarlierAnswers answers;
  answers.Add(Of("a", "s", 1), Tokens{1, 2, 3, 4});
  EXPECT_EQ(Found(answers, Of("a", "s", 1), {1, 2, 3}), Tokens{4});
  for (const Request& other : {Of("b", "s", 1), Of("a", "", 1), Of("a", "s", 0), Of("as", "", 1), Of("", "as", 1)})
    EXPECT_TRUE(Found(answers, other, {1, 2, 3}).empty()) << other.client << ", " << other.cache_salt;
  answers.Forget();
  EXPECT_TRUE(Found(answers, Of("a", "s", 1), {1, 2, 3}).empty());
}

TEST(EarlierAnswersTest, Memory_IsBounded_AndKeepsTheNewestAnswers) {
  EarlierAnswers answers;
  const auto answer_of = [](TokenId first) {
    Tokens tokens;
    for (TokenId i = 0; i < 1000; ++i) tokens.push_back(first + i);
    return tokens;
  };
  for (TokenId i = 0; i < 200; ++i) answers.Add(Of("a"), answer_of(1000 * i));
  const size_t of_one = answers.bytes();
  EXPECT_LE(of_one, size_t{400} << 10);
  EXPECT_EQ(Found(answers, Of("a"), {199'500, 199'501, 199'502}).front(), 199'503);
  EXPECT_TRUE(Found(answers, Of("a"), {500, 501, 502}).empty());
  answers.Add(Of("a"), Tokens(3 * EarlierAnswers::kMostTokens, 7));
  EXPECT_LE(answers.bytes(), of_one + 1024) << "one long answer takes no more";
  for (size_t i = 0; i <= EarlierAnswers::kMostOwners; ++i) answers.Add(Of(std::to_string(i)), Tokens{1, 2, 3, 4});
  EXPECT_TRUE(Found(answers, Of("a"), {7, 7, 7}).empty());
  EXPECT_TRUE(Found(answers, Of("0"), {1, 2, 3}).empty()) << "one owner too many";
  EXPECT_EQ(Found(answers, Of("1"), {1, 2, 3}), Tokens{4});
}

TEST(EarlierAnswersTest, ManySaltsOfOneClient_DisplaceNoAnswers_OfOtherClients) {
  EarlierAnswers answers;
  for (const char* salt : {"x", "y"}) answers.Add(Of("b", salt), Tokens{1, 2, 3, 4});
  for (size_t i = 0; i <= 3 * EarlierAnswers::kMostOwners; ++i)
    answers.Add(Of("a", std::to_string(i)), Tokens{1, 2, 3, 4});
  EXPECT_EQ(Found(answers, Of("b", "x"), {1, 2, 3}), Tokens{4});
  EXPECT_EQ(Found(answers, Of("b", "y"), {1, 2, 3}), Tokens{4});
  EXPECT_TRUE(Found(answers, Of("a", "0"), {1, 2, 3}).empty());
  EXPECT_EQ(Found(answers, Of("a", std::to_string(3 * EarlierAnswers::kMostOwners)), {1, 2, 3}), Tokens{4});
}

TEST(DraftPaceTest, DraftLength_FollowsTheShareOfAcceptedDraftsAndTheCostOfRows) {
  DraftPace pace;
  EXPECT_EQ(pace.Length(0, 0.1), 0);
  EXPECT_EQ(pace.Length(3, 0.01), 3) << "rows cost next to nothing";
  const int first = pace.Length(64, 0.1);
  EXPECT_GT(first, 1);
  for (int i = 0; i < 10; ++i) pace.Verified(8, 8);
  EXPECT_GT(pace.Length(64, 0.1), 2 * first);
  EXPECT_LT(pace.Length(64, 0.5), pace.Length(64, 0.1));
  for (int i = 0; i < 30; ++i) pace.Verified(1, 8);
  EXPECT_EQ(pace.Length(64, 0.4), 1);
}

TEST(DraftPaceTest, Sequence_PausesLonger_TheMoreDraftsInARowFail) {
  DraftPace pace;
  for (const int rest : {2, 4, 8, 16, 32, 32}) {
    rest % 4 == 0 ? pace.Verified(0, 3) : pace.FoundNothing();
    EXPECT_EQ(pace.Length(8, 0.1), 0);
    pace.Gained(rest - 1);
    EXPECT_FALSE(pace.IsReady()) << rest;
    pace.Gained(1);
    EXPECT_TRUE(pace.IsReady()) << rest;
  }
  pace.Verified(1, 3);
  pace.FoundNothing();
  pace.Gained(2);
  EXPECT_TRUE(pace.IsReady()) << "a right draft ends the series";
}

TEST(DraftPaceTest, OrdersForGuesses_StopWhenTheyCostTooMuch_AndAreTriedAgainAfterEverLongerRests) {
  DraftPace pace;
  EXPECT_EQ(pace.LengthToOrder(3, 0.02), 3) << "guesses cost next to nothing";
  EXPECT_EQ(pace.LengthToOrder(8, 0.4), 1);
  for (const int rest : {2, 4, 8, 16, 32, 32}) {
    EXPECT_EQ(pace.LengthToOrder(8, 0.9), 0);
    EXPECT_TRUE(pace.RestsAfter(rest - 1)) << rest;
    EXPECT_FALSE(pace.RestsAfter(rest)) << rest;
    pace.Gained(rest);
    EXPECT_EQ(pace.LengthToOrder(8, 0.9), 1) << "a trial, because costs change";
  }
  EXPECT_GE(pace.LengthToOrder(8, 0.3), 1);
  EXPECT_EQ(pace.LengthToOrder(8, 0.9), 0);
  EXPECT_FALSE(pace.RestsAfter(2)) << "the rests have begun anew";
}

TEST(DraftPaceTest, Sequence_AffordsDrafts_FromTheTimeThatEarlierDraftsSaved) {
  DraftPace pace;
  EXPECT_EQ(pace.Affordable(0.15, 0.03), 1) << "a first try";
  EXPECT_EQ(pace.Affordable(0.5, 0.03), 0) << "too expensive for a first try";
  pace.Spend(0.18);
  EXPECT_EQ(pace.Affordable(0.15, 0.03), 0);
  pace.Gained(10);
  EXPECT_EQ(pace.Affordable(0.15, 0.03), 0) << "ten tokens pay for a tenth of one";
  pace.Gained(2);
  EXPECT_EQ(pace.Affordable(0.15, 0.03), 1);
  pace.Verified(3, 4);
  EXPECT_EQ(pace.Affordable(0.15, 0.03), 21) << "right drafts saved three steps";
  EXPECT_EQ(pace.Affordable(0.15, 1.03), 14) << "in a pipeline";
  pace.Verified(64, 64);
  pace.Gained(1);
  EXPECT_EQ(pace.Affordable(1, 0), 32) << "not more than so much is remembered";
  EXPECT_GT(pace.Affordable(0, 0), 64) << "rows that cost nothing";
}

TEST(DraftCostTest, CostOfAGuess_IsLearned_AndOneLongGuessCountsLittle) {
  DraftCost cost;
  const double before = cost.guess();
  cost.ObserveGuess(1, 4, 0.5);
  EXPECT_EQ(cost.guess(), before) << "no step without drafts was seen";
  for (int i = 0; i < 100; ++i) {
    cost.Observe(1, 0, 0.010);
    cost.Observe(2, 0, 0.020);
    cost.ObserveGuess(1, 4, 0.008);
    cost.ObserveGuess(2, 8, 0.016);
  }
  EXPECT_NEAR(cost.guess(), 0.2, 1e-3);
  EXPECT_EQ(cost.row(1), DraftCost().row(1)) << "guesses are no rows";
  cost.ObserveGuess(1, 4, 60);
  cost.ObserveGuess(1, 0, 60);
  cost.ObserveGuess(1000, 4, 60);
  EXPECT_LE(cost.guess(), 0.6);
  for (int i = 0; i < 30; ++i) cost.ObserveGuess(1, 4, 0.080);
  EXPECT_GT(cost.guess(), 1.5) << "a slow model";
}

TEST(DraftCostTest, CostOfADraftedRow_IsLearned_FromStepsWithAndWithoutDrafts) {
  DraftCost cost;
  const double before = cost.row(1);
  cost.Observe(1, 4, 0.5);
  EXPECT_EQ(cost.row(1), before) << "no step without drafts was seen";
  for (int i = 0; i < 100; ++i) {
    cost.Observe(1, 0, 0.010);
    cost.Observe(1, 5, 0.015);
    cost.Observe(2, 0, 0.020);
    cost.Observe(2, 10, 0.030);
  }
  EXPECT_NEAR(cost.row(1), 0.1, 1e-3);
  EXPECT_NEAR(cost.row(2), 0.1, 1e-3);
  EXPECT_EQ(cost.row(9), cost.row(2)) << "as in the largest smaller step, as long as nothing is known";
  for (int i = 0; i < 100; ++i) {
    cost.Observe(8, 0, 0.040);
    cost.Observe(8, 16, 0.080);
  }
  EXPECT_NEAR(cost.row(9), 0.5, 1e-3) << "rows cost more beside many sequences";
  EXPECT_NEAR(cost.row(7), 0.1, 1e-3);
  cost.Observe(1000, 4, 1);
  cost.Observe(1, 1, 1e9);
  EXPECT_LE(cost.row(1), 0.2) << "one outlier counts little";
}

/// Returns these tokens as the sampled tokens of slot 0.
std::vector<SampledToken> Drawn(const Tokens& tokens) {
  std::vector<SampledToken> drawn;
  for (const TokenId token : tokens) drawn.push_back({0, token, 0, {}});
  return drawn;
}

/// A proposer whose drafts are the tokens that the test puts into `next`.
class Said final : public DraftProposer {
 public:
  DraftSource Propose(const Request&, const Sequence&, int most, Tokens& guess) override {
    guess.assign(next.begin(), next.begin() + std::min<std::ptrdiff_t>(most, std::ssize(next)));
    return DraftSource::kAnswers;
  }
  Tokens next;
};

/// An engine with a few blocks of 4 tokens.
class DraftingTest : public testing::Test {
 protected:
  void Make(int usable_blocks, int max_step_tokens = 64) {
    options_.scheduler.max_step_tokens = max_step_tokens;
    options_.scheduler.max_running = 8;
    options_.scheduler.lookahead_tokens = 0;
    options_.blocks.num_blocks = usable_blocks + 1;
    options_.blocks.block_size = 4;
    options_.blocks.watermark = 0;
    options_.max_model_len = 1000;
    options_.drafts = {.num_tokens = 4, .max_batch = 2};
    engine_ = std::make_unique<Engine>(options_);
    engine_->set_proposer(&said_);
  }
  std::unique_ptr<Request> New(RequestId id, int prompt, int max_tokens, int n = 1) {
    return MakeRequest(id, Tokens(static_cast<size_t>(prompt), static_cast<TokenId>(id)), max_tokens, sinks_[id], n);
  }
  StepPlan Plan() {
    const StepPlan* plan = engine_->NextPlan(0);
    engine_->scheduler().CheckIntegrity();
    return plan != nullptr ? *plan : StepPlan{};
  }
  void Commit(const std::vector<std::pair<SlotId, TokenId>>& drawn) {
    std::vector<SampledToken> tokens;
    for (const auto& [slot, token] : drawn) tokens.push_back({slot, token, 0, {}});
    ASSERT_TRUE(engine_->Fits(tokens));
    engine_->CommitStep(tokens);
    engine_->scheduler().CheckIntegrity();
  }
  /// Submits a request of three prompt tokens and commits its first step, which samples token 7.
  void Begin(int max_tokens) {
    ASSERT_FALSE(engine_->Submit(New(1, 3, max_tokens)));
    EXPECT_EQ(Plan().chunks, (std::vector<Chunk>{{0, 0, 3}}));
    EXPECT_TRUE(Plan().empty()) << "the sequence may get drafts, once its token is known";
    Commit({{0, 7}});
  }
  const Tokens& Got(RequestId id) { return sinks_[id].choices[0].tokens; }

  EngineOptions options_;
  Said said_;
  std::unique_ptr<Engine> engine_;
  std::map<RequestId, CollectingSink> sinks_;
};

TEST_F(DraftingTest, Sequence_GetsAcceptedDrafts_AndTheTokenAfterThem) {
  Make(20);
  Begin(20);
  said_.next = {10, 11, 12, 13};
  const StepPlan plan = Plan();
  EXPECT_EQ(plan.drafts, (std::vector<Draft>{{0, {10, 11, 12}}})) << "as many as may pay, before anything is measured";
  EXPECT_TRUE(plan.decodes.empty());
  EXPECT_EQ(plan.position_sum, 3u);
  EXPECT_EQ(plan.tables.size(), 1u) << "positions 4 to 6 need a second block";
  EXPECT_TRUE(Plan().empty()) << "what the sequence gains is not known yet";
  Commit({{0, 10}, {0, 11}, {0, 20}});
  EXPECT_EQ(Got(1), (Tokens{7, 10, 11, 20}));
  const DraftCounts& counts = engine_->stats().drafts[static_cast<size_t>(DraftSource::kAnswers)];
  EXPECT_EQ(counts.drafts, 1);
  EXPECT_EQ(counts.tokens, 3);
  EXPECT_EQ(counts.accepted, 2);
  EXPECT_EQ(Tokens(counts.accepted_at.begin(), counts.accepted_at.begin() + 3), (Tokens{1, 1, 0}));
  EXPECT_EQ(engine_->stats().all_drafts().tokens, 3);
  EXPECT_EQ(engine_->stats().generated_tokens, 4);
  EXPECT_EQ(sinks_[1].accepted_drafts, 2);
  EXPECT_EQ(sinks_[1].refused_drafts, 1);
}

TEST_F(DraftingTest, BlocksOfRejectedDrafts_AreFreed) {
  Make(20);
  Begin(20);
  said_.next = {10, 11, 12, 13};
  const int before = engine_->blocks().num_free();
  Plan();
  EXPECT_EQ(engine_->blocks().num_free(), before - 1);
  Commit({{0, 5}});
  EXPECT_EQ(Got(1), (Tokens{7, 5}));
  EXPECT_EQ(engine_->blocks().num_free(), before - 1) << "the block of the next token stays";
  EXPECT_EQ(Plan().drafts.size(), 0u) << "it rests";
}

TEST_F(DraftingTest, Answer_EndsWithItsStopToken_AmongAcceptedDrafts) {
  Make(20);
  auto request = New(1, 3, 20);
  request->limits.stop_token_ids = {11};
  ASSERT_FALSE(engine_->Submit(std::move(request)));
  Plan();
  Commit({{0, 7}});
  said_.next = {10, 11, 12};
  Plan();
  Commit({{0, 10}, {0, 11}, {0, 12}, {0, 13}});
  EXPECT_EQ(Got(1), (Tokens{7, 10}));
  EXPECT_EQ(sinks_[1].choices[0].finished, FinishReason::kStop);
  EXPECT_EQ(engine_->stats().generated_tokens, 3) << "with the stop token, without what came after it";
  EXPECT_EQ(engine_->scheduler().queue().clients().at("").generated_tokens, 3) << "and so does the client's account";
  EXPECT_EQ(engine_->stats().all_drafts().accepted, 2) << "the stop token was guessed, too";
  EXPECT_EQ(sinks_[1].accepted_drafts, 2);
  EXPECT_EQ(sinks_[1].refused_drafts, 1) << "right, and after the end";
  EXPECT_TRUE(engine_->idle());
  EXPECT_EQ(engine_->blocks().num_free(), engine_->blocks().num_usable());
}

TEST_F(DraftingTest, Drafts_NeverExceedTheMaxTokensOfAnAnswer) {
  Make(20);
  Begin(3);
  said_.next = {10, 11, 12, 13};
  EXPECT_EQ(Plan().drafts, (std::vector<Draft>{{0, {10}}})) << "two more tokens are wanted";
  Commit({{0, 10}, {0, 11}});
  EXPECT_EQ(Got(1), (Tokens{7, 10, 11}));
  EXPECT_TRUE(engine_->idle());
}

TEST_F(DraftingTest, Drafts_TakeOnlyTheRestOfTheStepsTokenBudget) {
  Make(20, 8);
  Begin(20);
  said_.next = {10, 11, 12, 13};
  ASSERT_FALSE(engine_->Submit(New(2, 5, 2)));
  const StepPlan plan = Plan();
  EXPECT_EQ(plan.chunks.size(), 1u);
  EXPECT_EQ(plan.drafts, (std::vector<Draft>{{0, {10, 11}}})) << "1 + 2 tokens beside a prompt of 5";
}

TEST_F(DraftingTest, Drafts_MayTakeTheLastFreeBlock_WhenNoOtherSequenceRuns) {
  Make(2);
  Begin(5);
  said_.next = {10, 11, 12, 13};
  const StepPlan plan = Plan();
  ASSERT_EQ(plan.drafts, (std::vector<Draft>{{0, {10, 11, 12}}}));
  Commit({{0, 10}, {0, 11}, {0, 12}, {0, 14}});
  EXPECT_EQ(Got(1), (Tokens{7, 10, 11, 12, 14}));
}

/// LossOf runs one sequence of `tokens` tokens, whose steps take 10 ms, and 5 ms more for each draft. `right` of a
/// hundred draft tokens are right. The result is the additional time as a fraction of the time without drafts; below 0:
/// drafts saved time.
class DraftsThatMustPay : public DraftingTest {
 protected:
  double LossOf(int tokens, int right, bool must_pay, const Tokens& prediction = {}) {
    Make(500);
    options_.max_model_len = 2000;
    options_.drafts.must_pay = must_pay;
    options_.drafts.num_tokens = 8;
    engine_ = std::make_unique<Engine>(options_);
    engine_->set_proposer(&said_);
    const RequestId id = ++last_;
    auto request = New(id, 3, tokens);
    request->prediction = prediction;
    EXPECT_FALSE(engine_->Submit(std::move(request)));
    test::Random random(7);
    std::deque<StepPlan> sent;
    double seconds = 0;
    while (!engine_->idle()) {
      said_.next.assign(8, random.Below(100) < right ? 7 : 8);
      for (StepPlan plan = Plan(); !plan.empty(); plan = Plan()) sent.push_back(plan);
      std::vector<SampledToken> drawn = {{0, 7, 0, {}}};
      size_t drafts = 0;
      if (!sent.front().drafts.empty()) {
        drafts = sent.front().drafts[0].tokens.size();
        if (sent.front().drafts[0].tokens[0] == 7) drawn.insert(drawn.end(), drafts, {0, 7, 0, {}});
      }
      sent.pop_front();
      const auto micros = static_cast<uint32_t>(10'000 + 5'000 * drafts);
      seconds += micros * 1e-6;
      engine_->CommitStep(drawn, {micros, 0, 0});
    }
    EXPECT_EQ(Got(id).size(), static_cast<size_t>(tokens));
    return seconds / (tokens * 0.010) - 1;
  }
  DraftCounts Counts() const { return engine_->stats().all_drafts(); }

 private:
  RequestId last_ = 0;
};

TEST_F(DraftsThatMustPay, Drafts_CostNoMoreThanAHundredthOfTheTime_WhenTheyAreSeldomRight) {
  for (const int right : {0, 20, 35, 45}) {
    EXPECT_LE(LossOf(1500, right, true), 0.012) << right;
    EXPECT_GT(Counts().tokens, 10) << "texts change, so they are tried again";
  }
  EXPECT_GT(LossOf(1500, 35, false), 0.015) << "drafts that need not pay cost more";
}

TEST_F(DraftsThatMustPay, Drafts_SaveAsMuchAsDraftsThatNeedNotPay_WhenTheyAreOftenRight) {
  const double free = LossOf(400, 95, false), bound = LossOf(400, 95, true);
  EXPECT_LT(free, -0.3);
  EXPECT_LT(bound, free + 0.03);
}

TEST_F(DraftsThatMustPay, Drafts_NeedNotPay_WhenTheClientSentAPrediction) {
  const double free = LossOf(300, 35, false), predicted = LossOf(300, 35, true, {7, 8, 9});
  EXPECT_EQ(predicted, free);
  EXPECT_GT(predicted, LossOf(300, 35, true));
}

/// In a pipeline a step that waits for results costs the time of the other stages.
TEST_F(DraftsThatMustPay, Drafts_AreSeldomTried_WhenTheyFailInAPipeline) {
  options_.scheduler.num_stages = 3;
  EXPECT_LE(LossOf(1500, 0, true), 0.012);
  EXPECT_LE(Counts().drafts, 7) << "a try costs two steps of the other stages, and fifteen are allowed";
  EXPECT_GE(Counts().drafts, 1);
}

TEST_F(DraftingTest, Sequences_GetNoDrafts_WhenThreeRunTogether) {
  Make(40);
  for (const RequestId id : {1, 2, 3}) ASSERT_FALSE(engine_->Submit(New(id, 3, 10)));
  said_.next = {10, 11};
  Plan();
  Commit({{0, 7}, {1, 7}, {2, 7}});
  EXPECT_EQ(Plan().decodes.size(), 3u);
  EXPECT_EQ(Plan().decodes.size(), 3u) << "such steps are planned ahead";
}

TEST_F(DraftingTest, Answer_EndsWithAStopString_AmongAcceptedDrafts) {
  Make(20);
  Begin(20);
  sinks_[1].stop_after = 3;
  said_.next = {10, 11, 12};
  Plan();
  Commit({{0, 10}, {0, 11}, {0, 12}, {0, 13}});
  EXPECT_EQ(Got(1), (Tokens{7, 10, 11}));
  EXPECT_EQ(engine_->stats().generated_tokens, 3);
  EXPECT_EQ(engine_->scheduler().queue().clients().at("").generated_tokens, 3);
  EXPECT_EQ(sinks_[1].accepted_drafts, 2);
  EXPECT_EQ(sinks_[1].refused_drafts, 1);
}

TEST_F(DraftingTest, Request_GetsDraftsOnlyFromItsPrediction_WhenDraftsFromTextAreOff) {
  Make(20);
  options_.drafts.from_text = false;
  engine_ = std::make_unique<Engine>(options_);
  auto predicted = New(1, 3, 20);
  predicted->prediction = {7, 10, 11, 12, 13};
  ASSERT_FALSE(engine_->Submit(std::move(predicted)));
  Plan();
  Commit({{0, 7}});
  EXPECT_EQ(Plan().drafts, (std::vector<Draft>{{0, {10, 11, 12}}}));
  Commit({{0, 10}, {0, 11}, {0, 12}, {0, 13}});
  engine_->Cancel(1);
  ASSERT_FALSE(engine_->Submit(New(2, 9, 20)));  // the text of this request repeats itself
  Plan();
  EXPECT_FALSE(Plan().empty()) << "nothing can be guessed, so steps are planned ahead";
}

TEST_F(DraftingTest, Request_GetsDraftsFromEarlierAnswers_OfItsClientAlone) {
  Make(20);
  options_.drafts.from_text = false;
  options_.drafts.from_answers = true;
  engine_ = std::make_unique<Engine>(options_);
  const auto begin = [&](RequestId id, const std::string& client, int max_tokens) {
    auto request = New(id, 3, max_tokens);
    request->client = client;
    ASSERT_FALSE(engine_->Submit(std::move(request)));
  };
  const auto draw = [&](const Tokens& tokens) {
    for (const TokenId token : tokens) {
      EXPECT_TRUE(Plan().drafts.empty()) << "before token " << token;
      Commit({{0, token}});
    }
  };
  begin(1, "a", 6);
  draw({10, 11, 12, 13, 14, 15});
  begin(2, "b", 5);
  draw({10, 11, 12, 13, 14});
  begin(3, "a", 9);
  draw({10, 11, 12});
  EXPECT_EQ(Plan().drafts, (std::vector<Draft>{{0, {13, 14, 15}}}));
  Commit({{0, 13}, {0, 14}, {0, 20}});
  EXPECT_EQ(engine_->stats().drafts[static_cast<size_t>(DraftSource::kAnswers)].accepted, 2);
  engine_->Cancel(3);
  engine_->FlushCache();
  EXPECT_EQ(engine_->earlier_answers().bytes(), 0u);
}

/// An engine whose workers have a draft model.
class DraftModelTest : public DraftingTest {
 protected:
  void MakeWithModel(int usable_blocks = 40, int model_max_len = 1000) {
    Make(usable_blocks);
    options_.drafts = {
        .num_tokens = 4, .max_batch = 2, .from_text = false, .from_model = true, .model_max_len = model_max_len};
    engine_ = std::make_unique<Engine>(options_);
    sinks_.clear();
  }
  /// Submits a request of three prompt tokens and commits its first step, which samples token 7 and orders no draft
  /// from the draft model.
  void BeginWithModel(int max_tokens) {
    ASSERT_FALSE(engine_->Submit(New(1, 3, max_tokens)));
    EXPECT_TRUE(Plan().guesses.empty()) << "the first token does not wait for the draft model";
    Commit({{0, 7}});
  }
  void CommitGuess(const Tokens& drawn, const std::vector<Draft>& guesses, StepTimes times = {}) {
    ASSERT_TRUE(engine_->Fits(Drawn(drawn)));
    ASSERT_TRUE(engine_->Fits(guesses));
    engine_->CommitStep(Drawn(drawn), times, {}, guesses);
    engine_->scheduler().CheckIntegrity();
  }
  const DraftCounts& counts() const { return engine_->stats().drafts[static_cast<size_t>(DraftSource::kModel)]; }
};

TEST_F(DraftModelTest, Guess_IsOrderedWithAStep_AndVerifiedInTheNextOne) {
  MakeWithModel();
  BeginWithModel(30);
  StepPlan plan = Plan();
  EXPECT_EQ(plan.decodes, std::vector<SlotId>{0});
  ASSERT_EQ(plan.guesses.size(), 1u);
  EXPECT_EQ(plan.guesses[0].slot, 0u);
  EXPECT_TRUE(Plan().empty()) << "the guess comes with the result";
  CommitGuess({8}, {{0, {9, 10}}});
  plan = Plan();
  EXPECT_EQ(plan.drafts, (std::vector<Draft>{{0, {9, 10}}}));
  EXPECT_EQ(plan.guesses.size(), 1u) << "the next guess is ordered at once";
  CommitGuess({9, 10, 11}, {{0, {20}}});
  EXPECT_EQ(Plan().drafts, (std::vector<Draft>{{0, {20}}}));
  CommitGuess({12}, {});
  EXPECT_EQ(Got(1), (Tokens{7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(counts().tokens, 3);
  EXPECT_EQ(counts().accepted, 2);
  plan = Plan();
  EXPECT_TRUE(plan.drafts.empty()) << "no token of the last guess was right, so the sequence rests for two tokens";
  EXPECT_EQ(plan.guesses.size(), 1u) << "the rest ends with this step";
  CommitGuess({13}, {{0, {20}}});
  EXPECT_EQ(Plan().drafts, (std::vector<Draft>{{0, {20}}}));
  CommitGuess({14}, {});
  EXPECT_TRUE(Plan().guesses.empty()) << "a second failure makes the rest longer";
  EXPECT_FALSE(Plan().empty()) << "steps without orders are planned ahead";
}

TEST_F(DraftModelTest, Guesses_CountForTheLayer_WhenAPredictionLayerMakesThem) {
  MakeWithModel();
  options_.drafts.model_source = DraftSource::kLayer;
  engine_ = std::make_unique<Engine>(options_);
  BeginWithModel(30);
  EXPECT_EQ(Plan().guesses.size(), 1u);
  CommitGuess({8}, {{0, {9, 10}}});
  EXPECT_EQ(Plan().drafts, (std::vector<Draft>{{0, {9, 10}}}));
  CommitGuess({9, 11}, {});
  EXPECT_EQ(counts().tokens, 0);
  const DraftCounts& of_layer = engine_->stats().drafts[static_cast<size_t>(DraftSource::kLayer)];
  EXPECT_EQ(of_layer.tokens, 2);
  EXPECT_EQ(of_layer.accepted, 1);
}

TEST_F(DraftModelTest, Sequence_Continues_WhenTheDraftModelGivesNoGuess) {
  MakeWithModel();
  BeginWithModel(30);
  for (TokenId token = 8; token < 14; ++token) {
    EXPECT_EQ(Plan().guesses.size(), 1u) << "the model may still be reading the prompt";
    CommitGuess({token}, {});
  }
  EXPECT_EQ(counts().drafts, 0);
}

TEST_F(DraftModelTest, Guesses_EndAtTheEndOfTheAnswer_AndOfTheDraftModelsContext) {
  MakeWithModel();
  BeginWithModel(4);
  EXPECT_EQ(Plan().guesses, (std::vector<GuessOrder>{{0, 1}})) << "two tokens are left, and one is drawn anyway";
  CommitGuess({8}, {{0, {9}}});
  EXPECT_TRUE(Plan().guesses.empty());
  CommitGuess({9, 10}, {});
  EXPECT_TRUE(engine_->idle());
  MakeWithModel(40, 7);
  BeginWithModel(30);
  EXPECT_EQ(Plan().guesses, (std::vector<GuessOrder>{{0, 2}})) << "five tokens are known after the step";
  CommitGuess({8}, {});
  EXPECT_EQ(Plan().guesses, (std::vector<GuessOrder>{{0, 1}}));
  CommitGuess({9}, {});
  EXPECT_TRUE(Plan().guesses.empty());
}

TEST_F(DraftModelTest, Engine_OrdersNoGuess_InFullSteps_OrForRequestsWithAPrediction) {
  MakeWithModel();
  for (RequestId id = 1; id <= 3; ++id) ASSERT_FALSE(engine_->Submit(New(id, 3, 20)));
  Plan();
  Commit({{0, 7}, {1, 7}, {2, 7}});
  EXPECT_TRUE(Plan().guesses.empty()) << "three sequences, at most two";
  MakeWithModel();
  auto predicted = New(4, 3, 20);
  predicted->prediction = {7, 8, 9};
  ASSERT_FALSE(engine_->Submit(std::move(predicted)));
  Plan();
  Commit({{0, 7}});
  const StepPlan plan = Plan();
  EXPECT_TRUE(plan.guesses.empty());
  EXPECT_EQ(plan.drafts.size(), 1u) << "its prediction";
}

TEST_F(DraftModelTest, OrdersForGuesses_Stop_WhenTheDraftModelIsTooSlow) {
  MakeWithModel(300);
  BeginWithModel(900);
  int orders = 0;
  for (int step = 0; step < 200; ++step) {
    const StepPlan plan = Plan();
    const bool drafts = !plan.drafts.empty(), ordered = !plan.guesses.empty();
    orders += ordered;
    const Tokens drawn = drafts ? Tokens{plan.drafts[0].tokens[0], 5} : Tokens{5};
    CommitGuess(drawn, ordered ? std::vector<Draft>{{0, {5}}} : std::vector<Draft>{},
                {.compute_micros = ordered ? 30'000u : 10'000u, .guess_micros = ordered ? 20'000u : 0});
  }
  EXPECT_LT(orders, 40) << "a right guess takes twice as long as the step that it saves";
  EXPECT_GT(orders, 5);
}

TEST_F(DraftModelTest, Engine_RefusesGuesses_ThatItHasNotOrdered) {
  MakeWithModel();
  BeginWithModel(30);
  const int most = Plan().guesses[0].count;
  const auto fits = [&](const std::vector<Draft>& guesses) { return engine_->Fits(guesses); };
  EXPECT_TRUE(fits({}));
  EXPECT_TRUE(fits({{0, {9}}}));
  EXPECT_FALSE(fits({{1, {9}}})) << "another slot";
  EXPECT_FALSE(fits({{0, {}}}));
  EXPECT_FALSE(fits({{0, Tokens(static_cast<size_t>(most) + 1, 9)}}));
  EXPECT_FALSE(fits({{0, {9}}, {0, {9}}}));
  EXPECT_FALSE(fits({{0, {-1}}}));
}

TEST_F(DraftingTest, Engine_RefusesAnAnswer_WhoseTokensBeforeTheLastAreNotTheDrafts) {
  Make(20);
  Begin(20);
  said_.next = {10, 11};
  Plan();
  EXPECT_FALSE(engine_->Fits(Drawn({12, 11})));
  EXPECT_FALSE(engine_->Fits(Drawn({10, 11, 12, 13}))) << "more tokens than rows";
  EXPECT_FALSE(engine_->Fits(Drawn({})));
  EXPECT_TRUE(engine_->Fits(Drawn({10, 11, 12})));
}

}  // namespace
}  // namespace quire
