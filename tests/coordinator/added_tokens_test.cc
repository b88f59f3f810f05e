// Tests the search for added tokens. Also tests that encoding and loading take at most linear time, or stop at a limit,
// whatever a model's tokenizer files contain.
#include "coordinator/text/tokenizer/added_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/base/thread_time.h"
#include "comm/model/formats/mapped_file.h"
#include "coordinator/text/tokenizer/bpe.h"
#include "coordinator/text/tokenizer/tokenizer.h"
#include "tests/support/error_of.h"

namespace quire {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr size_t kTextBytes = 2 << 20;

std::chrono::nanoseconds TimeOf(const std::function<void()>& work) {
  const auto begin = ThreadTime();
  work();
  return ThreadTime() - begin;
}

/// Returns a tokenizer whose only tokens are these added tokens.
TokenizerData DataOf(const std::vector<AddedToken>& tokens) {
  TokenizerData data;
  for (const AddedToken& token : tokens) {
    data.tokens.resize(std::max(data.tokens.size(), static_cast<size_t>(token.id) + 1));
    data.tokens[static_cast<size_t>(token.id)] = token.text;
    data.added.push_back(token);
  }
  return data;
}

/// Finds tokens as a reference: tries every token at every byte of the text, from the end to the beginning.
std::vector<std::pair<size_t, const AddedToken*>> FoundSlowly(const std::vector<AddedToken>& tokens,
                                                              const MarkedText& text) {
  std::vector<std::pair<size_t, const AddedToken*>> found;
  for (size_t at = text.text.size(); at-- > 0;) {
    const AddedToken* longest = nullptr;
    for (const AddedToken& token : tokens) {
      if (token.text.empty() || text.text.compare(at, token.text.size(), token.text) != 0) continue;
      if (token.special && !text.IsTrusted(at, token.text.size())) continue;
      if (longest == nullptr || token.text.size() > longest->text.size()) longest = &token;
    }
    if (longest != nullptr) found.emplace_back(at, longest);
  }
  return found;
}

TEST(AddedTokenFinderTest, Finder_FindsTheTokensOfAnExhaustiveSearch_InTextsOfTwoLetters) {
  uint32_t state = 1;
  const auto random = [&](uint32_t below) { return (state = state * 1664525 + 1013904223) / 65536 % below; };
  const auto word = [&](uint32_t most) {
    std::string text;
    for (uint32_t left = random(most + 1); left > 0; --left) text += static_cast<char>('a' + random(2));
    return text;
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<AddedToken> tokens;
    for (uint32_t left = random(8); left > 0; --left)
      tokens.push_back({.id = static_cast<TokenId>(left), .text = word(6), .special = random(2) == 0});
    MarkedText text;
    for (uint32_t left = random(4); left > 0; --left)
      text += MarkedText(word(9), random(2) == 0 ? MarkedText::kTrusted : MarkedText::kFromUser);
    std::vector<AddedTokenFinder::Entry> entries;
    for (const AddedToken& token : tokens) entries.push_back({token.text, &token});
    std::vector<std::pair<size_t, const AddedToken*>> found;
    for (const AddedTokenFinder::Found& one : AddedTokenFinder(entries).FindAll(text.text, &text, {})) {
      EXPECT_EQ(one.length, one.token->text.size());
      found.emplace_back(one.begin, one.token);
    }
    ASSERT_EQ(found, FoundSlowly(tokens, text)) << text.text << " " << text.marks;
  }
}

/// A search in quadratic time once took 16 s with one long added token. With as many tokens as a file may have, it
/// would have taken hours.
TEST(AddedTokensTimeTest, Encode_TakesLinearTime_WhenTextsNearlyMatchTokens) {
  std::vector<AddedToken> almost = {{.id = 0, .text = std::string(1023, 'a') + "b"}}, nested, many;
  for (TokenId id = 0; id < 1024; ++id)
    nested.push_back({.id = id, .text = std::string(static_cast<size_t>(id) + 1, 'a'), .special = true});
  for (TokenId id = 0; id < 2000; ++id)
    many.push_back({.id = id, .text = fmt::format("{}{:06}", std::string(1000, 'a'), id)});
  const std::string text(kTextBytes, 'a');
  for (const auto* tokens : {&almost, &nested, &many}) {
    for (const bool normalized : {false, true}) {
      TokenizerData data = DataOf(*tokens);
      for (AddedToken& token : data.added) token.normalized = normalized;
      const Tokenizer tokenizer(data);
      EXPECT_TRUE(tokenizer.is_linear());
      MarkedText mixed;
      for (size_t at = 0; at < text.size(); at += 1500)
        mixed += MarkedText(text.substr(at, 1500), at % 3000 == 0 ? MarkedText::kTrusted : MarkedText::kFromUser);
      EXPECT_LT(TimeOf([&] { tokenizer.Encode(MarkedText(text, MarkedText::kFromUser)); }), seconds(2));
      EXPECT_LT(TimeOf([&] { tokenizer.Encode(MarkedText(text, MarkedText::kTrusted)); }), seconds(2));
      EXPECT_LT(TimeOf([&] { tokenizer.Encode(mixed); }), seconds(2));
    }
  }
}

TEST(AddedTokensTimeTest, Encode_Ends_WhenStoppedOrOverMaxTokens) {
  const Tokenizer tokenizer(DataOf({{.id = 0, .text = "a"}, {.id = 1, .text = "b", .normalized = true}}));
  std::stop_source stop;
  stop.request_stop();
  for (const char letter : {'a', 'b', 'c'}) {
    const MarkedText text(std::string(kTextBytes, letter), MarkedText::kTrusted);
    EXPECT_THROW(tokenizer.Encode(text, {.stop = stop.get_token()}), Stopped) << letter;
  }
  for (const char letter : {'a', 'b'}) {
    const MarkedText text(std::string(kTextBytes, letter), MarkedText::kTrusted);
    EXPECT_THROW(tokenizer.Encode(text, {.max_tokens = 100}), TooManyTokens) << letter;
  }
  EXPECT_EQ(tokenizer.Encode(MarkedText("abab", MarkedText::kTrusted), {.max_tokens = 4}).size(), 4u);
}

TEST(AddedTokensTimeTest, Tokenizer_RefusesTokens_WhenTheirBytesOrNumberExceedALimit) {
  std::vector<AddedToken> tokens;
  for (TokenId id = 0; id < 17 << 10; ++id) tokens.push_back({.id = id, .text = fmt::format("{:01024}", id)});
  EXPECT_THAT(ErrorThrownBy([&] { Tokenizer{DataOf(tokens)}; }),
              HasSubstr("17825792 bytes, at most 16777216 are allowed"));
  TokenizerData data = DataOf({{.id = 0, .text = "a"}});
  data.prefix.assign(65, 0);
  EXPECT_THAT(ErrorThrownBy([&] { Tokenizer{data}; }), HasSubstr("65 tokens go around prompts, at most 64"));
  data.prefix.clear();
  data.bos_token = std::string(8 << 20, 'b');
  EXPECT_THAT(ErrorThrownBy([&] { Tokenizer{data}; }),
              HasSubstr("the token of beginning has 8388608 bytes, at most 1024"));
}

TEST(NormalizerTimeTest, Replace_TakesLinearTime_WhenTextsNearlyMatchThePattern) {
  const std::string text(kTextBytes, 'a');
  SplitBudget budget(text.size());
  std::string storage;
  for (const size_t length : {3, 60, 255, 256, 257, 1000, 1023}) {
    const Normalizer normalizer({normalize::Replace{std::string(length, 'a') + "b", false, "c"}});
    EXPECT_LT(TimeOf([&] { EXPECT_EQ(normalizer.Apply(text, storage, budget), text); }), seconds(2)) << length;
    EXPECT_EQ(normalizer.Apply(std::string(length + 1, 'a') + "bb", storage, budget), "acb");
  }
  EXPECT_THAT(ErrorThrownBy([] {
                Normalizer({normalize::Replace{std::string(1025, 'a'), false, ""}});
              }),
              HasSubstr("replaces a text of 1025 bytes, at most 1024"));
}

TEST(NormalizerTimeTest, Normalizer_RefusesTooManySteps_AndTextsThatGrowTooLong) {
  EXPECT_THAT(ErrorThrownBy([] { Normalizer(std::vector<NormalizerStep>(33, normalize::Lowercase{})); }),
              HasSubstr("33 normalizers, at most 32"));
  EXPECT_THAT(ErrorThrownBy([] { PreTokenizer(std::vector<PreTokenizerStep>(65, pre_tokenize::Marks{})); }),
              HasSubstr("65 pre-tokenizers, at most 64"));
  TokenizerData data = DataOf({{.id = 0, .text = "<t>"}});
  data.normalizer = {normalize::Replace{"a", false, std::string(1000, 'b')}};
  const Tokenizer tokenizer(data);
  std::string text;
  while (text.size() < 400'000) text += "a<t>";
  EXPECT_THAT(ErrorThrownBy([&] { tokenizer.EncodePrompt(text, false); }), HasSubstr("grows too long"));
  EXPECT_EQ(ErrorThrownBy([&] { tokenizer.EncodePrompt("a<t>a<t>a", false); }), "");
}

TEST(NormalizerTimeTest, Normalizer_Ends_WhenStoppedOrOverItsTimeBudget) {
  const Normalizer normalizer({normalize::Lowercase{}});
  const std::string text(kTextBytes, 'a');
  std::string storage;
  std::stop_source stop;
  stop.request_stop();
  SplitBudget stopped(text.size(), {}, stop.get_token()), spent(text.size(), std::chrono::nanoseconds(1));
  EXPECT_THROW(normalizer.Apply(text, storage, stopped), Stopped);
  EXPECT_THAT(ErrorThrownBy([&] { normalizer.Apply(text, storage, spent); }), HasSubstr("takes more than"));
}

TEST(SplitterTimeTest, Find_ObeysItsTimeBudget_WhenTheLiteralIsLong) {
  EXPECT_TRUE(Splitter(LiteralPattern("<|a|>")).is_linear());
  const std::string nearly = std::string(1000, 'a') + "b", text = std::string(kTextBytes, 'a') + "b";
  const Splitter splitter(LiteralPattern(nearly));
  EXPECT_FALSE(splitter.is_linear());
  std::vector<Splitter::Match> matches;
  SplitBudget budget(text.size(), std::chrono::milliseconds(300));
  EXPECT_LT(TimeOf([&] { ErrorThrownBy([&] { splitter.Find(text, matches, budget); }); }), seconds(5));
}

/// The normalizer searches for the user-defined pieces of a tokenizer.model before all other pieces.
TEST(SentencePieceTimeTest, Normalizer_TakesLinearTime_WhenTextsNearlyMatchUserDefinedPieces) {
  normalize::SentencePiece rules;
  rules.user_defined = {std::string(100'000, 'a') + "b", "ab", "abc"};
  const Normalizer normalizer({rules});
  const std::string text(kTextBytes, 'a');
  SplitBudget budget(text.size());
  std::string storage;
  EXPECT_LT(TimeOf([&] { normalizer.Apply(text, storage, budget); }), seconds(2));
  EXPECT_EQ(normalizer.Apply("xabcab c", storage, budget), "\u2581xabcab\u2581c");
}

/// Each added token is compared with the list of special texts. A file with 1.3 MiB of both once took minutes.
TEST(TokenizerFilesTimeTest, Load_TakesLinearTime_InSpecialTextsAndAddedTokens) {
  HfTokenizerFiles files;
  const std::string folder = std::string(QUIRE_TEST_DATA) + "/tokenizers/sp_llama2";
  files.sentencepiece = ReadTextFile(folder + "/tokenizer.model", 1 << 20);
  const auto pieces = static_cast<int64_t>(TokenizerDataFromHf(files, "DIR").tokens.size());
  Json added = Json::object(), decoder = Json::object(), special = Json::array();
  for (int64_t i = 0; i < 40'000; ++i) {
    added[fmt::format("t{}", i)] = pieces + i;
    if (i % 2 == 0) decoder[std::to_string(pieces + i)] = {{"content", fmt::format("t{}", i)}};
  }
  for (int i = 0; i < 200'000; ++i) special.push_back(fmt::format("x{}", i));
  special.push_back("t4321");
  files.added_tokens = DumpJson(added);
  files.config_json = DumpJson(Json{{"additional_special_tokens", special},
                                    {"added_tokens_decoder", decoder},
                                    {"bos_token", std::string(8'000'000, 'b')}});
  TokenizerData data;
  EXPECT_LT(TimeOf([&] { data = TokenizerDataFromHf(files, "DIR"); }), seconds(10));
  const auto token = [&](int64_t i) { return *std::ranges::find(data.added, pieces + i, &AddedToken::id); };
  EXPECT_TRUE(token(4321).special);
  EXPECT_FALSE(token(4323).special);
  EXPECT_EQ(token(39'999).text, "t39999");
  EXPECT_THAT(ErrorThrownBy([&] { Tokenizer{data}; }), HasSubstr("the token of beginning has 8000000 bytes"));
}

/// With a predictable hash function, a file could choose merges whose pairs all collide in one bucket.
TEST(TokenizerFilesTimeTest, AddMerge_TakesLinearTime_WhenPairsAreChosenToCollide) {
  constexpr uint64_t kSpread = 0x9e3779b97f4a7c15;  // a multiplier that the hash function used before it became random
  Bpe bpe;
  const auto meets = [&](uint64_t left, uint64_t right) {
    return ((left << 32 | right) * kSpread >> 32 & 0xfffff) < 1024;
  };
  int merges = 0;
  const auto time = TimeOf([&] {
    for (TokenId left = 0; merges < 200'000; ++left) {
      for (TokenId right = 0; right < 20'000 && merges < 200'000; ++right) {
        if (meets(static_cast<uint64_t>(left), static_cast<uint64_t>(right))) bpe.AddMerge(left, right, 0, merges++);
      }
    }
  });
  EXPECT_LT(time, seconds(5));
}

}  // namespace
}  // namespace quire
