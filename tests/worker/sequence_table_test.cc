#include "worker/engine/sequence_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "comm/base/error.h"
#include "tests/support/error_of.h"
#include "worker/engine/remaining_rows.h"

namespace quire {
namespace {

StepPlan Added() {
  StepPlan plan;
  plan.added = {{0, 4, 0, {1, 2, 3, 4}, {1, 2}, {}}};
  plan.chunks = {{0, 0, 4}};
  return plan;
}

std::string ErrorAfter(const StepPlan& next, bool advance = true) {
  SequenceTable table(4, 2, 16);
  const auto batch = table.Apply(Added());
  if (advance) {
    table.Resolve(table.Advance(batch), {{0, 9, 0, {}}});
  }
  return ErrorThrownBy([&] { table.Apply(next); });
}

TEST(SequenceTableTest, Apply_FollowsASequence_FromPromptToReuseOfTheSlot) {
  SequenceTable table(4, 2, 16);
  auto batch = table.Apply(Added());
  ASSERT_EQ(batch.size(), 1u);
  EXPECT_TRUE(batch[0].draws);
  table.Resolve(table.Advance(batch), {{0, 9, 0, {}}});
  EXPECT_EQ(table.at(0).tokens.back(), 9);
  StepPlan decode;
  decode.tables = {{0, 2, 5}};
  decode.decodes = {0};
  decode.position_sum = 4;
  batch = table.Apply(decode);
  EXPECT_EQ(batch[0].start, 4);
  EXPECT_EQ(table.at(0).blocks, (std::vector<BlockId>{1, 2, 5}));
  StepPlan release;
  release.released = {0};
  release.added = Added().added;
  release.chunks = {{0, 0, 2}};
  batch = table.Apply(release);  // the slot is released and reused in one plan
  EXPECT_FALSE(batch[0].draws);
  EXPECT_EQ(table.num_sequences(), 1);
}

TEST(SequenceTableTest, Slices_AreAppliedInOrder_AndTheLastSliceDraws) {
  SequenceTable table(4, 2, 16);
  const auto slice = [](int begin, int count) {
    StepPlan plan;
    plan.slices = {{0, begin, count, 4, 3}};
    return plan;
  };
  StepPlan first = slice(0, 5);
  first.added = Added().added;
  const auto apply = [&](const StepPlan& plan) {
    const std::vector<BatchMember> batch = table.Apply(plan);
    const auto draws = table.Advance(batch);
    if (!draws.empty()) table.Resolve(draws, {{0, 9, 0, {}}});
    return batch.front();
  };
  BatchMember member = apply(first);
  EXPECT_EQ(std::tuple(member.start, member.count, member.draws), std::tuple(0, 0, false));
  const auto error_of = [&](const StepPlan& plan) { return ErrorThrownBy([&] { table.Apply(plan); }); };
  EXPECT_NE(error_of(slice(4, 5)), "") << "computed already";
  EXPECT_NE(error_of(slice(6, 5)), "") << "a gap";
  StepPlan other = slice(5, 1);
  other.slices.front().tokens = 3;
  EXPECT_NE(error_of(other), "") << "the text has another length";
  StepPlan whole;
  whole.chunks = {{0, 0, 4}};
  EXPECT_NE(error_of(whole).find("its pass has begun"), std::string::npos);
  member = apply(slice(5, 7));
  EXPECT_EQ(std::tuple(member.start, member.count, member.draws), std::tuple(0, 4, true));
  EXPECT_EQ(table.at(0).num_computed, 4);
  EXPECT_NE(error_of(slice(12, 1)), "") << "the pass has ended";
}

TEST(SequenceTableTest, Slices_AreRefused_WithoutBlocksForTheWholeText) {
  StepPlan plan = Added();
  plan.chunks.clear();
  plan.slices = {{0, 0, 1, 4, 3}};
  const auto error_of = [&] { return ErrorThrownBy([&] { SequenceTable(4, 2, 16).Apply(plan); }); };
  EXPECT_EQ(error_of(), "");
  plan.added.front().blocks.pop_back();
  EXPECT_NE(error_of(), "");
}

TEST(SequenceTableTest, Apply_BranchesBeams_IntoNewSlotsAndInPlace) {
  SequenceTable table(4, 2, 16);
  table.Resolve(table.Advance(table.Apply(Added())), {{0, 9, 0, {}}});
  StepPlan plan;
  plan.branches = {{1, 0, 7}, {0, 0, 8}};
  plan.tables = {{0, 2, 5}, {1, 2, 6}};
  plan.decodes = {0, 1};
  plan.position_sum = 8;
  const auto batch = table.Apply(plan);
  EXPECT_EQ(table.at(0).tokens, (std::vector<TokenId>{1, 2, 3, 4, 8}));
  EXPECT_EQ(table.at(1).tokens, (std::vector<TokenId>{1, 2, 3, 4, 7}));
  EXPECT_EQ(table.at(1).blocks, (std::vector<BlockId>{1, 2, 6}));
  table.Advance(batch);
  StepPlan early = Added();
  early.added[0].slot = 2;
  early.chunks = {{2, 0, 3}};
  table.Advance(table.Apply(early));
  plan.branches = {{3, 2, 7}};
  EXPECT_THROW(table.Apply(plan), Error) << "has not drawn";
}

TEST(SequenceTableTest, Resolve_FillsPendingTokens_OnlyOfTheSequenceThatDrewThem) {
  SequenceTable table(4, 2, 16);
  const auto first = table.Advance(table.Apply(Added()));
  EXPECT_EQ(table.at(0).tokens, (std::vector<TokenId>{1, 2, 3, 4, kPendingToken}));
  StepPlan decode;
  decode.tables = {{0, 2, 5}};
  decode.decodes = {0};
  decode.position_sum = 4;
  const auto second = table.Advance(table.Apply(decode));  // begins before the first step is finished
  table.Resolve(first, {{0, 9, 0, {}}});
  EXPECT_EQ(table.at(0).tokens, (std::vector<TokenId>{1, 2, 3, 4, 9, kPendingToken}));
  StepPlan reuse = Added();  // another sequence of the same shape takes the slot
  reuse.released = {0};
  reuse.added[0].tokens = {6, 6, 6, 6, 6};
  reuse.added[0].blocks = {1, 2, 3};
  reuse.chunks = {{0, 0, 5}};
  const auto third = table.Advance(table.Apply(reuse));
  table.Resolve(second, {{0, 8, 0, {}}});
  EXPECT_EQ(table.at(0).tokens, (std::vector<TokenId>{6, 6, 6, 6, 6, kPendingToken}));
  table.Resolve(third, {{0, 7, 0, {}}});
  EXPECT_EQ(table.at(0).tokens.back(), 7);
}

TEST(SequenceTableTest, Apply_ThrowsAnError_WhenAPlanContradictsTheTable) {
  const auto plan = [](auto change) {
    StepPlan p;
    change(p);
    return ErrorAfter(p);
  };
  EXPECT_EQ(plan([](StepPlan& p) { p.tables = {{0, 2, 3}}, p.decodes = {0}, p.position_sum = 4; }), "");
  EXPECT_NE(plan([](StepPlan& p) { p.decodes = {0}, p.position_sum = 4; }), "") << "its blocks are full";
  EXPECT_NE(plan([](StepPlan& p) {
              p.tables = {{0, 2, 3}}, p.decodes = {0}, p.position_sum = 5;
            }),
            "")
      << "positions differ";
  EXPECT_NE(plan([](StepPlan& p) { p.decodes = {1}; }), "") << "unknown slot";
  EXPECT_NE(plan([](StepPlan& p) { p.released = {1}; }), "") << "unknown slot";
  EXPECT_NE(plan([](StepPlan& p) { p.added = Added().added, p.chunks = {{0, 0, 4}}; }), "") << "slot in use";
  EXPECT_NE(plan([](StepPlan& p) { p.tables = {{0, 3, 3}}; }), "") << "a hole in the table";
  EXPECT_NE(plan([](StepPlan& p) { p.chunks = {{0, 2, 1}}, p.position_sum = 2; }), "") << "computed already";
  EXPECT_NE(plan([](StepPlan& p) {
              p.tables = {{0, 2, 3}}, p.chunks = {{0, 4, 2}}, p.position_sum = 4;
            }),
            "")
      << "beyond the known tokens";
  EXPECT_NE(plan([](StepPlan& p) {
              p.tables = {{0, 2, kNullBlock}}, p.decodes = {0}, p.position_sum = 4;
            }),
            "")
      << "writes into the null block";
  EXPECT_NE(plan([](StepPlan& p) { p.branches = {{1, 2, 8}}; }), "") << "unknown parent";
  StepPlan decode;
  decode.decodes = {0};
  EXPECT_NE(ErrorAfter(decode, false), "") << "a prompt is no decode";
}

/// Returns a plan that gives two draft tokens to the sequence of Added(), after the first token that was sampled for
/// it.
StepPlan Drafted() {
  StepPlan plan;
  plan.tables = {{0, 2, 5}, {0, 3, 6}};
  plan.drafts = {{0, {10, 11}}};
  plan.position_sum = 4;
  return plan;
}

TEST(SequenceTableTest, SequenceTable_ComputesDrafts_AndKeepsTheVerifiedTokens) {
  for (const auto& [drawn, kept] : {std::pair(std::vector<TokenId>{10, 11, 12}, std::vector<TokenId>{10, 11, 12}),
                                    {{10, 20, 12}, {10, 20}},
                                    {{30, 11, 12}, {30}}}) {
    SequenceTable table(4, 2, 16);
    table.Resolve(table.Advance(table.Apply(Added())), {{0, 9, 0, {}}});
    const auto batch = table.Apply(Drafted());
    ASSERT_EQ(batch.size(), 1u);
    EXPECT_EQ(std::tuple(batch[0].start, batch[0].count, batch[0].num_rows()), std::tuple(4, 3, 3));
    EXPECT_EQ(table.at(0).tokens, (std::vector<TokenId>{1, 2, 3, 4, 9, 10, 11}));
    std::vector<SampledToken> tokens;
    for (const TokenId token : drawn) tokens.push_back({0, token, 0, {}});
    table.KeepVerified(batch, tokens);
    ASSERT_EQ(tokens.size(), kept.size());
    table.Resolve(table.Advance(batch), tokens);
    std::vector<TokenId> all = {1, 2, 3, 4, 9};
    all.insert(all.end(), kept.begin(), kept.end());
    EXPECT_EQ(table.at(0).tokens, all);
    EXPECT_EQ(table.at(0).num_computed, static_cast<int>(all.size()) - 1);
    EXPECT_EQ(table.at(0).blocks.size(), (all.size() + 1) / 2) << "without blocks for wrong drafts";
  }
}

TEST(SequenceTableTest, RemainingRows_CountAllTokensOfAStepButWrongDrafts) {
  SequenceTable table(4, 2, 16);
  table.Resolve(table.Advance(table.Apply(Added())), {{0, 9, 0, {}}});
  StepPlan plan = Drafted();
  plan.added = {Added().added[0]};
  plan.added[0].slot = 1;
  plan.chunks = {{1, 0, 3}};  // one token of the prompt is left, so nothing is sampled
  std::vector<BatchMember> batch = table.Apply(plan);
  const auto rows = [&](const std::vector<TokenId>& drawn) {
    std::vector<SampledToken> tokens;
    for (const TokenId token : drawn) tokens.push_back({0, token, 0, {}});
    table.KeepVerified(batch, tokens);
    return RemainingRows(batch, tokens);
  };
  EXPECT_EQ(rows({10, 11, 12}), (std::vector<int32_t>{3, 3}));
  EXPECT_EQ(rows({10, 20, 12}), (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(rows({30, 11, 12}), (std::vector<int32_t>{1, 3}));
}

TEST(SequenceTableTest, KeepVerified_EndsBeforeABrokenDraw_UnlessItIsTheFirst) {
  SequenceTable table(4, 2, 16);
  table.Resolve(table.Advance(table.Apply(Added())), {{0, 9, 0, {}}});
  const auto batch = table.Apply(Drafted());
  const float broken = std::nanf("");
  std::vector<SampledToken> tokens = {{0, 10, 0, {}}, {0, 11, broken, {}}, {0, 12, 0, {}}};
  table.KeepVerified(batch, tokens);
  EXPECT_EQ(tokens.size(), 1u);
  tokens = {{0, 10, broken, {}}, {0, 11, 0, {}}, {0, 12, 0, {}}};
  table.KeepVerified(batch, tokens);
  EXPECT_EQ(tokens.size(), 1u);
  EXPECT_TRUE(tokens.front().broken());
}

TEST(SequenceTableTest, Plan_IsRefused_WhileDraftsAreNotVerified) {
  SequenceTable table(4, 2, 16);
  table.Resolve(table.Advance(table.Apply(Added())), {{0, 9, 0, {}}});
  table.Advance(table.Apply(Drafted()));
  StepPlan decode;
  decode.decodes = {0};
  decode.tables = {{0, 3, 6}};
  decode.position_sum = 7;
  EXPECT_NE(ErrorThrownBy([&] { table.Apply(decode); }).find("not verified"), std::string::npos);
}

TEST(SequenceTableTest, Drafts_AreRefused_ForSequencesThatDoNotDecode) {
  StepPlan plan = Drafted();
  plan.drafts[0].slot = 1;
  EXPECT_NE(ErrorAfter(plan).find("not in use"), std::string::npos);
  StepPlan prompt = Drafted();
  prompt.position_sum = 0;
  EXPECT_NE(ErrorAfter(prompt, false).find("is no decode"), std::string::npos);
  SequenceTable table(4, 2, 16);
  table.Advance(table.Apply(Added()));
  EXPECT_NE(ErrorThrownBy([&] { table.Apply(Drafted()); }).find("after an unknown token"), std::string::npos);
}

}  // namespace
}  // namespace quire
