#include "worker/serve/grammar_store.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <string>

namespace quire {
namespace {

constexpr TokenId kStop = 0;  // tokens 1 and 2 are "a" and "b"
constexpr int kVocab = 3;

/// Returns for each token whether it may follow. Returns an empty vector if the constraint gives no mask, as at a dead
/// end.
std::vector<bool> Allowed(TokenConstraint& constraint, const std::vector<TokenId>& generated = {}, size_t guessed = 0) {
  std::vector<uint32_t> bits(1);
  if (constraint.Allow(generated, guessed, bits) != TokenConstraint::Outcome::kMasked) return {};
  std::vector<bool> allowed;
  for (int token = 0; token < kVocab; ++token) allowed.push_back((bits[0] >> token & 1) != 0);
  return allowed;
}

TEST(GrammarStoreTest, PreparedGrammar_IsReady_WhileAnotherIsCompiled) {
  const GrammarSource first = {GrammarSource::kRegex, "ab"}, second = {GrammarSource::kRegex, "ba"};
  std::promise<void> prepared, busy, release;
  GrammarStore store({{"", "a", "b"}, {kStop}}, kVocab);
  store.set_on_report([&, reports = 0]() mutable {
    if (++reports == 1) return prepared.set_value();
    busy.set_value();  // the compiling thread waits until the test releases it
    release.get_future().wait();
  });
  store.Prepare({1, first});
  prepared.get_future().wait();
  store.Prepare({2, second});
  busy.get_future().wait();
  auto allowed = std::async(std::launch::async, [&] { return Allowed(*store.Constrain(first, 0, 1)); });
  const bool ready = allowed.wait_for(std::chrono::seconds(30)) == std::future_status::ready;
  release.set_value();
  EXPECT_TRUE(ready);
  EXPECT_EQ(allowed.get(), (std::vector<bool>{false, true, false}));
  const std::vector<GrammarReady> reports = store.TakeReports();
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[1].ticket, 2u);
  EXPECT_EQ(reports[1].problem, "");
}

TEST(GrammarStoreTest, PreparedGrammar_IsKept_UntilItIsForgotten) {
  std::mutex mutex;
  std::condition_variable changed;
  int reports = 0;
  GrammarStore store({{"", "a", "b"}, {kStop}}, kVocab);
  store.set_on_report([&] {
    const std::lock_guard lock(mutex);
    ++reports;
    changed.notify_one();
  });
  const auto numbered = [](int i) { return GrammarSource{GrammarSource::kRegex, "a{" + std::to_string(i) + "}b"}; };
  constexpr int kMany = 300;  // more grammars than the store holds
  for (int i = 1; i <= kMany; ++i) store.Prepare({static_cast<uint64_t>(i), numbered(i)});
  std::unique_lock lock(mutex);
  ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return reports == kMany; }));
  lock.unlock();
  EXPECT_GT(store.TakeReports()[0].bytes, 0u);
  EXPECT_TRUE(store.IsReady(numbered(1)));
  store.Forget(1);
  EXPECT_FALSE(store.IsReady(numbered(1)));
  EXPECT_TRUE(store.IsReady(numbered(2)));
  EXPECT_FALSE(store.IsReady({GrammarSource::kEbnf, numbered(2).text}));  // the same text makes another grammar
}

TEST(GrammarStoreTest, UnpreparedGrammar_IsCompiled_WhenAConstraintNeedsIt) {
  GrammarStore store({{"", "a", "b"}, {kStop}}, kVocab);
  const auto constraint = store.Constrain({GrammarSource::kRegex, "b*"}, 0, 1);
  EXPECT_EQ(Allowed(*constraint), (std::vector<bool>{true, false, true}));
}

/// Returns after how many letters "a" an answer of a grammar with 100 alternatives needs more states than the store
/// allows; 200 if never.
size_t TokensUntilOverworked(int64_t bytes_of_answers) {
  std::string rules = "root ::= r0", more;
  for (int i = 0; i < 100; ++i) {
    const std::string r = "r" + std::to_string(i);
    if (i > 0) rules += " | " + r;
    more += "\n" + r + " ::= [ab] " + r + " | \"b\"";
  }
  GrammarStore store({{"", "a", "b"}, {kStop}}, kVocab, {.answers = bytes_of_answers});
  const auto constraint = store.Constrain({GrammarSource::kEbnf, rules + more}, 0, 1);
  std::vector<TokenId> answer;
  std::vector<uint32_t> bits(1);
  for (; answer.size() < 200; answer.push_back(1)) {
    if (constraint->Allow(answer, 0, bits) == TokenConstraint::Outcome::kOverworked) break;
  }
  return answer.size();
}

TEST(GrammarStoreTest, Answer_KeepsFewerStates_WhenMemoryForAnswersIsSmall) {
  const size_t usual = TokensUntilOverworked(GrammarMemory().answers), small = TokensUntilOverworked(1 << 16);
  EXPECT_GT(small, 0u);
  EXPECT_LT(small, usual / 2);
}

TEST(GrammarStoreTest, Constraint_GoesBackToTheVerifiedTokens_AfterDrafts) {
  GrammarStore store({{"", "a", "b"}, {kStop}}, kVocab);
  const std::vector<bool> only_a = {false, true, false}, only_b = {false, false, true}, a_or_end = {true, true, false};
  const auto constraint = store.Constrain({GrammarSource::kRegex, "(ab){1,3}"}, 0, 1);
  EXPECT_EQ(Allowed(*constraint), only_a);
  EXPECT_EQ(Allowed(*constraint, {1}, 1), only_b);
  EXPECT_EQ(Allowed(*constraint, {1, 1}, 2), std::vector<bool>()) << "the grammar refuses this guess";
  EXPECT_EQ(Allowed(*constraint, {1}), only_b) << "the first draft was right";
  EXPECT_EQ(Allowed(*constraint, {1, 2}, 1), a_or_end);
  EXPECT_EQ(Allowed(*constraint, {1, 2, 1}, 2), only_b);
  EXPECT_EQ(Allowed(*constraint, {1, 2, 1, 2}), a_or_end) << "both were right";
  EXPECT_EQ(Allowed(*constraint, {1, 2, 1, 2, 0}, 1), std::vector<bool>(3, true)) << "a guess of the end";
  EXPECT_EQ(Allowed(*constraint, {1, 2, 1, 2, 1}), only_b) << "that was wrong";
}

}  // namespace
}  // namespace quire
