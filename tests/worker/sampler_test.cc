#include "worker/cpu/sampler.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "tests/support/random.h"
#include "tests/support/sampling_effects.h"
#include "tests/support/thread_collectives.h"
#include "worker/sampling/draw.h"

namespace quire {
namespace {

constexpr int64_t kSampledVocab = test::kEffectVocab;

/// Returns settings of greedy and random rows, with and without log-probabilities; one row requests more
/// log-probabilities than there are tokens.
std::vector<SamplingSpec> Specs() {
  std::vector<SamplingSpec> specs(7);
  specs[0].temperature = specs[3].temperature = 0;
  specs[1].num_logprobs = 0;
  specs[2].num_logprobs = 3;
  specs[3].num_logprobs = 2;
  specs[4].num_logprobs = static_cast<int32_t>(kSampledVocab) + 9;
  specs[5].top_k = 4;
  specs[6].top_p = 0.5f;
  for (size_t i = 0; i < specs.size(); ++i) specs[i].seed = i;
  return specs;
}

/// The tokens before a sampled token.
struct Context {
  std::vector<TokenId> prompt = {1}, generated = {};
};

/// Allows one token, which depends on the sum of the generated tokens.
class OneToken final : public TokenConstraint {
 public:
  static TokenId Allowed(std::span<const TokenId> generated) {
    TokenId sum = 3;
    for (const TokenId token : generated) sum += token;
    return sum % static_cast<TokenId>(kSampledVocab);
  }
  Outcome Allow(std::span<const TokenId> generated, size_t, std::span<uint32_t> allowed) override {
    const TokenId token = Allowed(generated);
    std::ranges::fill(allowed, 0);
    allowed[static_cast<size_t>(token) / 32] = 1u << token % 32;
    return Outcome::kMasked;
  }
};

/// Returns the same outcome at every call, and counts the calls.
class Always final : public TokenConstraint {
 public:
  explicit Always(Outcome outcome) : outcome_(outcome) {}
  Outcome Allow(std::span<const TokenId>, size_t, std::span<uint32_t> allowed) override {
    ++asked;
    std::ranges::fill(allowed, ~0u);
    return outcome_;
  }
  int asked = 0;

 private:
  Outcome outcome_;
};

std::shared_ptr<TokenConstraint> AllowOneToken(const GrammarSource&, size_t, size_t) {
  return std::make_shared<OneToken>();
}

struct Batch {
  explicit Batch(const std::vector<SamplingSpec>& specs, const Context& context = {},
                 const decltype(SequenceTable::constrain)& constrain = AllowOneToken)
      : table(static_cast<int>(specs.size()), 16, 16) {
    std::vector<TokenId> tokens = context.prompt;
    tokens.insert(tokens.end(), context.generated.begin(), context.generated.end());
    StepPlan plan;
    for (SlotId slot = 0; slot < specs.size(); ++slot) {
      plan.added.push_back({slot,
                            static_cast<int32_t>(context.prompt.size()),
                            0,
                            tokens,
                            {static_cast<BlockId>(slot + 1)},
                            specs[slot]});
      plan.chunks.push_back({slot, 0, static_cast<int32_t>(tokens.size())});
    }
    table.constrain = constrain;
    members = table.Apply(plan);
  }

  SequenceTable table;
  std::vector<BatchMember> members;
};

SequenceState Greedy(std::shared_ptr<TokenConstraint> constraint, uint64_t seed = 1) {
  SequenceState sequence;
  sequence.sampling.temperature = 0;
  sequence.sampling.seed = seed;
  sequence.sampling.grammar = {GrammarSource::kRegex, "a"};
  sequence.tokens = {1};
  sequence.num_prompt_tokens = 1;
  sequence.constraint = std::move(constraint);
  return sequence;
}

SampledToken DrawFive(const SequenceState& sequence, RowDrawer drawer = {}) {
  std::vector<float> row(static_cast<size_t>(kSampledVocab), 0.0f);
  row[5] = 9;
  return drawer.Draw(row, sequence, 3);
}

TEST(DrawTest, SeenTokens_CountsGeneratedTokensOnly) {
  SequenceState sequence;
  sequence.tokens = {4, 2, 4, 7, 2, 7, 7, 0};
  sequence.num_prompt_tokens = 3;
  const std::vector<std::pair<TokenId, int32_t>> seen = {{4, 0}, {2, 1}, {7, 3}, {0, 1}};
  EXPECT_EQ(SeenTokens(sequence, static_cast<size_t>(kSampledVocab)), seen);
}

TEST(DrawTest, Draw_MarksTheToken_WhenItsConstraintIsOverworkedOrAtADeadEnd) {
  using Outcome = TokenConstraint::Outcome;
  const SampledToken drawn = DrawFive(Greedy(std::make_shared<Always>(Outcome::kMasked)));
  EXPECT_EQ(drawn.token, 5);
  EXPECT_FALSE(drawn.broken() || drawn.overworked() || drawn.dead_end());
  EXPECT_TRUE(DrawFive(Greedy(std::make_shared<Always>(Outcome::kOverworked))).overworked());
  const SampledToken dead = DrawFive(Greedy(std::make_shared<Always>(Outcome::kDeadEnd)));
  EXPECT_TRUE(dead.dead_end());
  EXPECT_FALSE(dead.broken() || dead.overworked());
}

TEST(DrawTest, Draw_MarksADeadEnd_WhenNoTokenIsLeft_AndABrokenRow_WhenLogitsAreNaN) {
  SequenceState sequence = Greedy(nullptr);
  sequence.sampling.grammar = {};
  sequence.sampling.allowed_tokens = {5};
  EXPECT_EQ(DrawFive(sequence).token, 5);
  sequence.sampling.bad_words = {{5}};
  const SampledToken dead = DrawFive(sequence);
  EXPECT_TRUE(dead.dead_end());
  EXPECT_FALSE(dead.broken());
  std::vector<float> row(static_cast<size_t>(kSampledVocab), std::numeric_limits<float>::quiet_NaN());
  sequence.sampling.bad_words.clear();
  const SampledToken broken = DrawFromRow(row, sequence, 3);
  EXPECT_TRUE(broken.broken());
  EXPECT_FALSE(broken.dead_end());
}

TEST(DrawTest, Draw_MarksNoDeadEnd_WhenALogprobOverflows) {
  SequenceState sequence = Greedy(std::make_shared<OneToken>());  // allows token 3 only
  sequence.sampling.num_logprobs = 0;
  std::vector<float> row(static_cast<size_t>(kSampledVocab), 0.0f);
  row[3] = -3e38f, row[5] = 3e38f;
  const SampledToken drawn = RowDrawer().Draw(row, sequence, 3);
  EXPECT_EQ(drawn.token, 3);
  EXPECT_FALSE(drawn.dead_end());
}

TEST(DrawTest, RowDrawer_DoesNotAskTheConstraintAgain_WhenAnotherChoiceWasOverworked) {
  const auto constraint = std::make_shared<Always>(TokenConstraint::Outcome::kOverworked);
  std::vector<float> row(static_cast<size_t>(kSampledVocab), 0.0f);
  RowDrawer drawer;
  for (uint32_t choice = 0; choice < 4; ++choice) {
    SequenceState sequence = Greedy(constraint);
    sequence.sampling.choice = choice;
    EXPECT_TRUE(drawer.Draw(row, sequence, choice).overworked());
  }
  EXPECT_EQ(constraint->asked, 1);
  const auto other = std::make_shared<Always>(TokenConstraint::Outcome::kMasked);
  EXPECT_FALSE(drawer.Draw(row, Greedy(other, 2), 4).overworked());
  SequenceState longer = Greedy(other);
  longer.tokens = {1, 2};
  longer.num_prompt_tokens = 2;
  EXPECT_FALSE(drawer.Draw(row, longer, 5).overworked());
  EXPECT_EQ(other->asked, 2) << "requests that share no more than a grammar";
}

/// Samples on `ranks` ranks: rank 0 has two threads, rank 1 three, rank 2 one, rank 3 two, and so on. Expects that all
/// ranks agree. Row `broken` is an exception: its log-probability is NaN, which does not equal itself.
std::vector<SampledToken> DrawOn(int ranks, const std::vector<float>& logits, const std::vector<SamplingSpec>& specs,
                                 size_t broken = SIZE_MAX, const Context& context = {},
                                 const decltype(SequenceTable::constrain)& constrain = AllowOneToken) {
  std::vector<Range> vocab;
  for (int64_t r = 0; r < ranks; ++r) vocab.push_back({r * kSampledVocab / ranks, (r + 1) * kSampledVocab / ranks});
  auto collectives = MakeThreadCollectives(ranks);
  std::vector<std::vector<SampledToken>> drawn(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (size_t r = 0; r < drawn.size(); ++r) {
    threads.emplace_back([&, r] {
      const Batch batch(specs, context, constrain);
      std::vector<float> mine;
      for (size_t row = 0; row < specs.size(); ++row) {
        const auto begin = logits.begin() + static_cast<ptrdiff_t>(row) * kSampledVocab;
        mine.insert(mine.end(), begin + vocab[r].begin, begin + vocab[r].end);
      }
      const kernels::CpuStream stream(1 + static_cast<int>(r + 1) % 3);
      const auto logits_of = [&](int64_t row, int64_t count) {
        EXPECT_LE(count, Sampler::kDrawnAtOnce);
        const auto width = static_cast<size_t>(vocab[r].size());
        return std::span(mine).subspan(static_cast<size_t>(row) * width, static_cast<size_t>(count) * width);
      };
      drawn[r] = Sampler(vocab, *collectives[r], stream).Draw(logits_of, batch.members, batch.table);
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& of_rank : drawn) {
    for (size_t row = 0; row < of_rank.size(); ++row) {
      if (row == broken) {
        EXPECT_EQ(of_rank[row].token, drawn[0][row].token);
      } else {
        EXPECT_EQ(of_rank[row], drawn[0][row]) << ranks << " ranks";
      }
    }
  }
  return drawn[0];
}

TEST(SamplerTest, Ranks_DrawTheSameTokensAsOneRank_FromShardedRows) {
  const auto specs = Specs();
  auto logits = test::Random(3).Floats(static_cast<int64_t>(specs.size()) * kSampledVocab);
  for (float& x : logits) x *= 4;
  std::vector<SampledToken> expected;
  const Batch batch(specs);
  for (SlotId slot = 0; slot < specs.size(); ++slot) {
    auto row = logits;
    expected.push_back(
        DrawFromRow(std::span(row).subspan(slot * kSampledVocab, kSampledVocab), batch.table.at(slot), slot));
  }
  EXPECT_EQ(expected[4].top.size(), static_cast<size_t>(kSampledVocab));
  for (const int ranks : {1, 2, 3, 9}) EXPECT_EQ(DrawOn(ranks, logits, specs), expected) << ranks << " ranks";
  EXPECT_EQ(DrawOn(2, logits, {specs[2]}).size(), 1u) << "fewer rows than ranks";
}

TEST(SamplerTest, Draw_SamplesEachRowFromItsOwnLogits_WhenThereAreMoreRowsThanAreDrawnAtOnce) {
  std::vector<SamplingSpec> specs;
  while (specs.size() < 2 * Sampler::kDrawnAtOnce + 7) {
    for (const SamplingSpec& spec : Specs()) specs.push_back(spec);
  }
  auto logits = test::Random(4).Floats(static_cast<int64_t>(specs.size()) * kSampledVocab);
  std::vector<SampledToken> expected;
  const Batch batch(specs);
  for (SlotId slot = 0; slot < specs.size(); ++slot) {
    auto row = logits;
    expected.push_back(
        DrawFromRow(std::span(row).subspan(slot * kSampledVocab, kSampledVocab), batch.table.at(slot), slot));
  }
  for (const int ranks : {1, 3}) EXPECT_EQ(DrawOn(ranks, logits, specs), expected) << ranks << " ranks";
}

TEST(SamplerTest, Draws_FollowTheGrammar_OfTheirRow) {
  std::vector<SamplingSpec> specs = Specs();
  for (const size_t constrained : {0, 2, 5}) specs[constrained].grammar = {GrammarSource::kRegex, "a"};
  const auto logits = test::Random(5).Floats(static_cast<int64_t>(specs.size()) * kSampledVocab);
  for (const int ranks : {1, 2, 3}) {
    const Context context{{1, 2}, {4, 5}};
    const auto drawn = DrawOn(ranks, logits, specs, SIZE_MAX, context);
    for (const size_t constrained : {0, 2, 5})
      EXPECT_EQ(drawn[constrained].token, OneToken::Allowed(context.generated));
    EXPECT_NE(drawn[3].token, OneToken::Allowed(context.generated)) << "its row's best is another";
    EXPECT_EQ(drawn[2].top.size(), 3u);
    EXPECT_LT(drawn[2].logprob, 0) << "the model's own";
  }
}

/// Allows the tokens whose bit is set in the mask.
class Bits final : public TokenConstraint {
 public:
  explicit Bits(std::vector<uint32_t> bits) : bits_(std::move(bits)) {}
  Outcome Allow(std::span<const TokenId>, size_t, std::span<uint32_t> allowed) override {
    EXPECT_EQ(allowed.size(), bits_.size());
    std::ranges::copy(bits_, allowed.begin());
    return Outcome::kMasked;
  }

 private:
  std::vector<uint32_t> bits_;
};

TEST(DrawTest, KeepAllowed_MasksExactlyTheForbiddenTokens_OfARanksPart) {
  test::Random random(11);
  const std::vector<uint32_t> patterns = {0, ~0u, 1, 1u << 31, 0x80000001, 0xfffffffe, 0x7fffffff, 0xdeadbeef};
  for (int round = 0; round < 200; ++round) {
    std::vector<uint32_t> allowed;
    for (int word = 0; word < 4; ++word) allowed.push_back(patterns[static_cast<size_t>(random.Below(8))]);
    const int64_t first = random.Below(128), count = random.Between(0, 128 - first);
    std::vector<float> logits(static_cast<size_t>(count), 2);
    KeepAllowed(allowed, first, logits);
    for (int64_t i = 0; i < count; ++i) {
      const auto token = static_cast<size_t>(first + i);
      const bool may = (allowed[token / 32] >> token % 32 & 1) != 0;
      ASSERT_EQ(std::isfinite(logits[static_cast<size_t>(i)]), may) << "token " << token << " of a part from " << first;
    }
  }
}

TEST(SamplerTest, Ranks_SampleOnlyTokens_ThatMasksOfOtherRanksAllow) {
  // Greedy rows with and without log-probabilities share the masks. In each row the best allowed token is sampled.
  test::Random random(6);
  constexpr size_t kRows = 11;
  std::vector<SamplingSpec> specs(2 * kRows);
  std::vector<std::vector<uint32_t>> masks;
  for (size_t row = 0; row < kRows; ++row) {
    std::vector<uint32_t>& mask = masks.emplace_back(MaskWords(kSampledVocab));
    for (int64_t token = 0; token < kSampledVocab; ++token) {
      if (random.Below(8) == 0 || token == static_cast<int64_t>(row))
        mask[static_cast<size_t>(token) / 32] |= 1u << token % 32;
    }
  }
  const auto logits = random.Floats(2 * kRows * kSampledVocab);
  for (size_t row = 0; row < specs.size(); ++row) {
    specs[row].temperature = 0;
    specs[row].grammar = {GrammarSource::kRegex, std::to_string(row % kRows)};
    if (row >= kRows) specs[row].num_logprobs = 0;
  }
  const auto constrain = [&](const GrammarSource& source, size_t, size_t) {
    return std::make_shared<Bits>(masks[static_cast<size_t>(std::stoi(source.text))]);
  };
  for (const int ranks : {1, 2, 3, 9}) {
    const auto drawn = DrawOn(ranks, logits, specs, SIZE_MAX, {}, constrain);
    for (size_t row = 0; row < specs.size(); ++row) {
      int64_t best = -1;
      for (int64_t token = 0; token < kSampledVocab; ++token) {
        const bool may = (masks[row % kRows][static_cast<size_t>(token) / 32] >> token % 32 & 1) != 0;
        const auto logit = [&](int64_t t) { return logits[row * kSampledVocab + static_cast<size_t>(t)]; };
        if (may && (best < 0 || logit(token) > logit(best))) best = token;
      }
      EXPECT_EQ(drawn[row].token, best) << "row " << row << ", " << ranks << " ranks";
      EXPECT_FALSE(drawn[row].broken() || drawn[row].dead_end() || drawn[row].overworked());
    }
  }
}

TEST(SamplerTest, Ranks_MarkRows_WhenAGrammarIsOverworkedOrAtADeadEnd) {
  // Two requests of three choices each. One request's grammar exceeds its work limit, and the other request's grammar
  // allows no token. Both requests are greedy, first without and then with log-probabilities.
  for (const int32_t num_logprobs : {-1, 2}) {
    std::vector<SamplingSpec> specs(7);
    for (size_t row = 0; row < 6; ++row) {
      specs[row].grammar = {GrammarSource::kRegex, row % 2 == 0 ? "a" : "b"};
      specs[row].choice = static_cast<uint32_t>(row / 2);
      specs[row].num_logprobs = num_logprobs;
      specs[row].temperature = 0;
    }
    const auto logits = test::Random(8).Floats(static_cast<int64_t>(specs.size()) * kSampledVocab);
    const auto constrain = [](const GrammarSource& source, size_t, size_t) {
      return std::make_shared<Always>(source.text == "a" ? TokenConstraint::Outcome::kOverworked
                                                         : TokenConstraint::Outcome::kDeadEnd);
    };
    for (const int ranks : {1, 2, 3}) {
      const auto drawn = DrawOn(ranks, logits, specs, SIZE_MAX, {}, constrain);
      for (size_t row = 0; row < 6; ++row) {
        EXPECT_EQ(drawn[row].overworked(), row % 2 == 0) << "row " << row << ", " << ranks << " ranks";
        EXPECT_EQ(drawn[row].dead_end(), row % 2 == 1) << "row " << row << ", " << ranks << " ranks";
      }
      EXPECT_FALSE(drawn[6].overworked() || drawn[6].dead_end());
    }
  }
}

TEST(SamplerTest, SampledRows_AreMarkedBroken_WhenTheirLogitsAreNaNOrInfinite) {
  const auto specs = Specs();
  auto logits = test::Random(4).Floats(static_cast<int64_t>(specs.size()) * kSampledVocab);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const size_t row : {0, 2, 5}) {  // greedy, with log-probabilities, sampled
      std::fill_n(logits.begin() + static_cast<ptrdiff_t>(row) * kSampledVocab, kSampledVocab, bad);
      for (const int ranks : {1, 3}) {
        const auto drawn = DrawOn(ranks, logits, specs, row);
        for (size_t i = 0; i < specs.size(); ++i) {
          EXPECT_EQ(drawn[i].broken(), i == row) << "row " << i << " of " << ranks << " ranks";
          EXPECT_TRUE(drawn[i].token >= 0 && drawn[i].token < kSampledVocab);
        }
        EXPECT_EQ(drawn[2].top.size(), 3u) << "as many as ever";
      }
      std::fill_n(logits.begin() + static_cast<ptrdiff_t>(row) * kSampledVocab, kSampledVocab, 0.5f);
    }
  }
}

/// Samples greedily from logits in which token 3 leads, then 40, then 20.
TokenId DrawGreedily(SamplingSpec spec, const Context& context = {}) {
  std::vector<float> logits(static_cast<size_t>(kSampledVocab), -5.0f);
  logits[3] = 5, logits[40] = 4, logits[20] = 3;
  spec.temperature = 0;
  const TokenId alone = DrawOn(1, logits, {spec}, SIZE_MAX, context)[0].token;
  EXPECT_EQ(DrawOn(3, logits, {spec}, SIZE_MAX, context)[0].token, alone);
  return alone;
}

TEST(SamplerTest, Sampler_DrawsAllowedTokensOnly) {
  EXPECT_EQ(DrawGreedily({}), 3);
  EXPECT_EQ(DrawGreedily({.allowed_tokens = {20, 40}}), 40);
  EXPECT_EQ(DrawGreedily({.logit_bias = {{3, 90.0f}}, .allowed_tokens = {20}}), 20);
}

TEST(SamplerTest, Draw_AvoidsTheTokenThatWouldCompleteABadWord) {
  EXPECT_EQ(DrawGreedily({.bad_words = {{3}}}), 40);
  EXPECT_EQ(DrawGreedily({.bad_words = {{3}, {40}}}), 20);
  const SamplingSpec spec{.bad_words = {{7, 8, 3}}};
  EXPECT_EQ(DrawGreedily(spec, {{1}, {7, 8}}), 40);
  EXPECT_EQ(DrawGreedily(spec, {{1}, {9, 7, 8}}), 40);
  EXPECT_EQ(DrawGreedily(spec, {{1}, {7, 9}}), 3) << "another beginning";
  EXPECT_EQ(DrawGreedily(spec, {{7, 8}, {}}), 3) << "the prompt is not generated";
  EXPECT_EQ(DrawGreedily(spec, {{7}, {8}}), 3);
}

TEST(SamplerTest, Draw_ClosesThoughts_WhenTheyReachTheirLimit) {
  const ThoughtLimit begun{.tokens = 3, .begun = true, .open = {50}, .close = {20, 40}};
  EXPECT_EQ(DrawGreedily({.thoughts = begun}, {{1}, {7, 8}}), 3) << "two of three";
  EXPECT_EQ(DrawGreedily({.thoughts = begun}, {{1}, {7, 8, 9}}), 20);
  EXPECT_EQ(DrawGreedily({.thoughts = begun}, {{1}, {7, 8, 9, 20}}), 40) << "all that has to follow";
  EXPECT_EQ(DrawGreedily({.thoughts = begun}, {{1}, {7, 8, 9, 20, 40}}), 3) << "the answer";
  EXPECT_EQ(DrawGreedily({.thoughts = begun}, {{1}, {7, 20, 9}}), 3) << "they ended by themselves";
  EXPECT_EQ(DrawGreedily({.thoughts = begun}, {{7, 8, 9}, {}}), 3) << "the prompt is not generated";
  EXPECT_EQ(DrawGreedily({.thoughts = {.tokens = 0, .begun = true, .open = {50}, .close = {20}}}, {{1}, {}}), 20);
  EXPECT_EQ(DrawGreedily({.logit_bias = {{20, -90.0f}}, .allowed_tokens = {3}, .bad_words = {{20}}, .thoughts = begun},
                         {{1}, {7, 8, 9}}),
            20)
      << "whatever else is asked for";
}

TEST(SamplerTest, Draw_ClosesThoughts_WhenTheAnswerOpenedThemAndTheyReachTheirLimit) {
  const ThoughtLimit limit{.tokens = 1, .begun = false, .open = {50, 51}, .close = {20}};
  const SamplingSpec spec{.thoughts = limit};
  EXPECT_EQ(DrawGreedily(spec, {{1}, {}}), 3);
  EXPECT_EQ(DrawGreedily(spec, {{1}, {50, 51}}), 3);
  EXPECT_EQ(DrawGreedily(spec, {{1}, {50, 51, 7}}), 20);
  EXPECT_EQ(DrawGreedily(spec, {{1}, {9, 9, 9, 9, 50, 51, 7}}), 20) << "behind spaces";
  EXPECT_EQ(DrawGreedily(spec, {{1}, {9, 9, 9, 9, 9, 50, 51, 7}}), 3) << "an answer that speaks of them later";
  EXPECT_EQ(DrawGreedily(spec, {{1}, {50, 9, 51, 7}}), 3) << "not opened";
  EXPECT_EQ(DrawGreedily(spec, {{50, 51}, {7, 8}}), 3) << "the prompt is not looked at";
}

TEST(SamplerTest, Settings_HaveTheirEffect_OnAnyNumberOfRanks) {
  for (const test::SamplingEffect& effect : test::SamplingEffects()) {
    std::vector<SamplingSpec> specs(test::kEffectSeeds, effect.spec);
    std::vector<float> logits;
    for (size_t i = 0; i < specs.size(); ++i) {
      specs[i].seed = i;
      const std::vector<float> row = effect.Row();
      logits.insert(logits.end(), row.begin(), row.end());
    }
    for (const int ranks : {1, 2, 3, 9}) {
      std::set<TokenId> drawn;
      for (const SampledToken& token : DrawOn(ranks, logits, specs, SIZE_MAX, {effect.prompt, effect.generated}))
        drawn.insert(token.token);
      EXPECT_EQ(drawn, effect.drawn) << effect.what << ", " << ranks << " ranks";
    }
  }
}

}  // namespace
}  // namespace quire
