// Tests that neither patterns of models nor texts of clients take unbounded time or memory. Also tests Unicode's normal
// forms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <utf8proc.h>

#include <chrono>
#include <cmath>
#include <cstdlib>

#include "comm/base/error.h"
#include "comm/base/thread_time.h"
#include "coordinator/text/newer_characters.h"
#include "coordinator/text/tokenizer/splitter.h"
#include "coordinator/text/tokenizer/tokenizer.h"
#include "coordinator/text/unicode_forms.h"
#include "tests/support/error_of.h"

namespace quire {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr const char* kO200kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// This pattern repeats groups letter by letter: the matcher's stack grows with the length of a word.
constexpr const char* kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+|)"
    R"([^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))+((?=[\p{L}])([^A-Z]))*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|)"
    R"(\s+(?!\S)|\s+)";

std::vector<std::string_view> Split(const std::string& pattern, std::string_view text,
                                    std::optional<std::chrono::nanoseconds> time = {}) {
  SplitBudget budget(text.size(), time);
  return PreTokenizer({pre_tokenize::Split{pattern}}).Cut(text, true, {}, budget).all;
}

/// Returns a tokenizer without tokens that splits texts at these patterns.
TokenizerData DataWith(const std::vector<std::string>& patterns) {
  TokenizerData data;
  for (const std::string& pattern : patterns) data.pre_tokenizer.emplace_back(pre_tokenize::Split{pattern});
  return data;
}

std::string RepeatedText(std::string_view text, size_t bytes) {
  std::string out;
  while (out.size() < bytes) out += text;
  return out;
}

TEST(SplitterBoundsTest, Pattern_IsRefused_WhenItMovesTheStartOfItsMatch) {
  EXPECT_THAT(ErrorThrownBy([] { Splitter(R"(ab\Kc)"); }), HasSubstr("at character 2: \\K"));
  EXPECT_THAT(ErrorThrownBy([] { Splitter(R"((?(DEFINE)(?<k>a\K))(?=(?&k)))"); }), HasSubstr("\\K"));
  EXPECT_THAT(ErrorThrownBy([] { Splitter(R"((?=a\K))"); }), HasSubstr("\\K"));
  EXPECT_EQ(Split(R"(\\K|a)", "xa\\Ky"), (std::vector<std::string_view>{"x", "a", "\\K", "y"})) << "no escape";
}

TEST(SplitterBoundsTest, Errors_NameTheCharacterInThePattern) {
  EXPECT_THAT(ErrorThrownBy([] { Splitter(R"(\s\S(a)"); }), HasSubstr("at character 6: "));
  EXPECT_THAT(ErrorThrownBy([] { Splitter(R"(\s\s\s\C)"); }), HasSubstr("at character 8: "));
  EXPECT_THAT(ErrorThrownBy([] { Splitter(std::string(17 << 10, 'a')); }), HasSubstr("at most 16384"));
  EXPECT_THAT(ErrorThrownBy([] { Splitter("((((a{999}){999}){999}){999})"); }), HasSubstr("too large"));
  EXPECT_THAT(ErrorThrownBy([&] {
                Tokenizer{DataWith({R"(\p{N})", "a(b"})};
              }),
              HasSubstr("tokenizer: pattern 2 of 2, \"a(b\": at character 3: "));
  EXPECT_THAT(ErrorThrownBy([&] { Tokenizer{DataWith(std::vector<std::string>(33, "a"))}; }), HasSubstr("33 patterns"));
}

TEST(SplitterBoundsTest, Splitting_Ends_WhenAPatternMatchesTheEmptyText) {
  EXPECT_EQ(Split("x*", "axxb"), (std::vector<std::string_view>{"a", "xx", "b"}));
  EXPECT_EQ(Split("(?=b)", "aébb"), (std::vector<std::string_view>{"aébb"}));
  EXPECT_EQ(Split("(?<=b)a|", "bab"), (std::vector<std::string_view>{"b", "a", "b"}));
  const std::string text = RepeatedText("é", 200'000);
  EXPECT_EQ(Split("(?=$)", text).size(), 1u);
}

/// Without a limit, such patterns run for hours or never end.
TEST(SplitterBoundsTest, SlowPatterns_AreStopped) {
  const std::string text(1'000'000, 'a');
  for (const std::string pattern :
       {"(?=.*.*=)a", "(?=.*=)a", "(?=.*[ab]*+=)a", "(?=[ab]*=)[ab]", "(?=(a+)+=)a", "(a|aa)+=", "(?:a|a)*+=|(?=.*b)a",
        "(?=.*?b)a", "(*NO_JIT)(?=.*.*=)a", "(*NO_JIT)(?=(a+)+=)a", "(?=.*(?(R)x|=))a", "((?=.*=)|a)+?b"}) {
    const auto begin = ThreadTime();
    EXPECT_THAT(ErrorThrownBy([&] { Split(pattern, text, std::chrono::milliseconds(200)); }),
                AnyOf(HasSubstr("takes more than 0.2 s to split"), HasSubstr("too intricate"), ""))
        << pattern;
    EXPECT_LT(ThreadTime() - begin, std::chrono::seconds(5)) << pattern;
  }
  EXPECT_THAT(ErrorThrownBy([&] { Split("(?=.*=)a", text, std::chrono::milliseconds(200)); }),
              HasSubstr("takes more than"));
}

TEST(SplitterBoundsTest, Splitting_Stops_WhenTheClientIsGone) {
  const std::string text(1'000'000, 'a');
  std::stop_source stop;
  stop.request_stop();
  std::vector<Splitter::Match> matches;
  SplitBudget budget(text.size(), std::chrono::seconds(60), stop.get_token());
  const auto begin = ThreadTime();
  EXPECT_THROW(Splitter("(?=.*=)a").Find(text, matches, budget), Stopped);
  EXPECT_LT(ThreadTime() - begin, std::chrono::seconds(2));
}

TEST(SplitterBoundsTest, IsLinear_HoldsOnlyForKnownPatterns) {
  EXPECT_TRUE(Tokenizer(TokenizerData()).is_linear());
  EXPECT_TRUE(Tokenizer(DataWith({R"(\p{N})", kLlama3Pattern, LiteralPattern(".*a|")})).is_linear());
  EXPECT_FALSE(Tokenizer(DataWith({R"(\p{N})", kLlama3Pattern, R"(\p{N}{1,3})"})).is_linear());
  TokenizerData data;
  data.normalizer = {normalize::Replace{" {2,}", true, " "}, normalize::Replace{".*", false, " "}};
  EXPECT_TRUE(Tokenizer(data).is_linear());
  data.normalizer.emplace_back(normalize::Replace{".*a", true, " "});
  EXPECT_FALSE(Tokenizer(data).is_linear());
}

TEST(SplitterBoundsTest, TimeLimitOfSplitting_CoversAllPiecesTogether) {
  const Tokenizer tokenizer(DataWith({R"(\p{N})", "(?=.*[ab]*=)[ab]"}));
  const std::string text = RepeatedText(std::string(3000, 'a') + "1", 200'000);
  const auto begin = ThreadTime();
  EXPECT_THAT(ErrorThrownBy([&] { tokenizer.EncodePrompt(text, false); }),
              AnyOf(HasSubstr("takes more than 2.8 s"), HasSubstr("too intricate")));
  EXPECT_LT(ThreadTime() - begin, std::chrono::seconds(20));
}

TEST(SplitterBoundsTest, TimeLimitOfSplitting_CoversAllTexts_ThatShareABudget) {
  const Tokenizer tokenizer(DataWith({"(?=.*[ab]*=)[ab]"}));
  const std::string text(1000, 'a');
  SplitBudget shared(text.size(), std::chrono::milliseconds(300));
  int texts = 0;
  const auto encode = [&] {
    for (; texts < 100'000; ++texts) tokenizer.EncodePrompt(text, false, {.splitting = &shared});
  };
  EXPECT_THAT(ErrorThrownBy(encode), HasSubstr("takes more than 0.3 s"));
  EXPECT_GT(texts, 0) << "each by itself is well within it";
}

/// The split patterns of real models take linear time in adversarial texts.
TEST(SplitterBoundsTest, KnownPatterns_SplitAdversarialTexts_WithinTheirBudget) {
  for (const char* pattern : {kGpt2Pattern, kLlama3Pattern, kQwen2Pattern, kO200kPattern, kTekkenPattern}) {
    // With kTekkenPattern, the matcher's stack suffices only for words of some hundred thousand letters.
    const size_t bytes = pattern == kTekkenPattern ? 256 << 10 : 1 << 20;
    std::string marks = RepeatedText("\u0301\u0323", bytes),
                indented = RepeatedText(std::string(1000, ' ') += 'a', bytes);
    for (const std::string& text :
         {std::string(bytes, ' '), std::string(bytes, ' ') += 'a', RepeatedText(" \n", bytes), std::string(bytes, 'A'),
          std::string(bytes, 'a'), RepeatedText("Aa", bytes), marks, indented, std::string(bytes, '!'),
          std::string(bytes, '7'), std::string(bytes, '\''), RepeatedText("\u6f22", bytes),
          RepeatedText("\r\n\r", bytes)}) {
      const auto begin = ThreadTime();
      size_t cut = 0;
      for (const std::string_view piece : Split(pattern, text)) cut += piece.size();
      EXPECT_EQ(cut, text.size()) << pattern << text.substr(0, 10);
      EXPECT_LT(ThreadTime() - begin, std::chrono::seconds(5)) << pattern << text.substr(0, 10);
    }
  }
}

/// Formerly, each of thousands of reserved tokens with a common beginning was compared at every byte.
TEST(AddedTokensBoundsTest, ManyTokensWithACommonBeginning_CostNoMoreThanOneToken) {
  TokenizerData data = DataWith({kGpt2Pattern});
  for (TokenId id = 0; id < 20'000; ++id) {
    data.tokens.push_back(fmt::format("<|reserved_special_token_{}|>", id));
    data.added.push_back({id, data.tokens.back(), true, false, false, false});
  }
  const Tokenizer tokenizer(data);
  for (const std::string& text :
       {std::string(1 << 20, '<'), RepeatedText("<|", 1 << 20), RepeatedText("<|reserved_special_token_", 1 << 20),
        RepeatedText(data.tokens[1234], 1 << 20)}) {
    for (const char mark : {MarkedText::kFromUser, MarkedText::kTrusted}) {
      const auto begin = ThreadTime();
      const std::vector<TokenId> tokens = tokenizer.Encode(MarkedText(text, mark));
      const bool spelled_out = text.starts_with(data.tokens[1234]) && mark == MarkedText::kTrusted;
      EXPECT_EQ(tokens, std::vector<TokenId>(spelled_out ? text.size() / data.tokens[1234].size() : 0, 1234));
      EXPECT_LT(ThreadTime() - begin, std::chrono::seconds(5)) << text.substr(0, 30);
    }
  }
  data.added[7].text = std::string(2000, 'a');
  EXPECT_THAT(ErrorThrownBy([&] { Tokenizer{data}; }), HasSubstr("added token 7 has 2000 bytes, at most 1024"));
}

TEST(TokenBoundsTest, Token_IsRefused_WhenItIsTooLong) {
  TokenizerData data;
  data.tokens = {"a", std::string(64 << 10, 'b')};
  EXPECT_EQ(Tokenizer(data).Bytes(1).size(), size_t{64} << 10);
  data.tokens[1] += 'b';
  EXPECT_EQ(ErrorThrownBy([&] { Tokenizer{data}; }), "tokenizer: token 1 has 65537 bytes, at most 65536 are allowed");
}

TEST(AddedTokensBoundsTest, LongestAddedToken_IsFound_AmongTheTokensThatUsersMayWrite) {
  TokenizerData data;
  data.tokens = {"<a", "<a>", "<a>b", "<a"};
  data.added = {{0, "<a", false}, {1, "<a>", true}, {2, "<a>b", false}, {3, "<a", false}};
  const Tokenizer tokenizer(data);
  const auto encode = [&](const std::string& text, char mark) { return tokenizer.Encode(MarkedText(text, mark)); };
  EXPECT_EQ(encode("<a>b", MarkedText::kFromUser), std::vector<TokenId>{2});
  EXPECT_EQ(encode("<a>", MarkedText::kTrusted), std::vector<TokenId>{1});
  EXPECT_EQ(encode("<a>", MarkedText::kFromUser), std::vector<TokenId>{0})
      << "the first of those that are spelled alike";
  EXPECT_EQ(encode("<a<a>", MarkedText::kTrusted), (std::vector<TokenId>{0, 1}));
}

/// Encodes texts that nearly match long pieces of the vocabulary, unknown characters, and runs of spaces.
TEST(UnigramBoundsTest, AdversarialTexts_TakeLinearTime) {
  TokenizerData data;
  data.metaspace.emplace().has_bytes = false;
  data.tokens = {"<unk>", "a", std::string(250, 'a') + "b", "\u2581"};
  data.unigram = UnigramModel{.pieces = {{1, -1}, {2, -2}, {3, -3}}, .unknown = 0, .unknown_score = -20};
  data.normalizer = {normalize::SentencePiece{}};
  const Tokenizer tokenizer(data);
  const size_t bytes = 1 << 20;
  for (const std::string& text :
       {std::string(bytes / 4, 'a'), RepeatedText("\u6f22", bytes), std::string(bytes, ' ') += 'a',
        RepeatedText("a ", bytes), RepeatedText("e\u0301\u0323", bytes)}) {
    const auto begin = ThreadTime();
    EXPECT_FALSE(tokenizer.EncodePrompt(text, false).empty());
    EXPECT_FALSE(tokenizer.SurelyExceeds(text, 1));
    EXPECT_LT(ThreadTime() - begin, std::chrono::seconds(10)) << text.substr(0, 10);
  }
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(tokenizer.EncodePrompt(std::string(bytes, 'a'), false, {.stop = stop.get_token()}), Stopped);
}

TEST(UnigramBoundsTest, PiecesAndScores_AreRefused_OutOfBounds) {
  TokenizerData data;
  data.metaspace.emplace();
  data.tokens = {"<unk>", std::string(2000, 'a')};
  const auto error = [&](const UnigramModel& model) {
    data.unigram = model;
    return ErrorThrownBy([&] { Tokenizer{data}; });
  };
  EXPECT_THAT(error({.pieces = {{1, 0}}}), HasSubstr("piece 1 has 2000 bytes, at most 256"));
  EXPECT_THAT(error({.pieces = {{2, 0}}}), HasSubstr("piece 2 of 2"));
  EXPECT_THAT(error({.pieces = {{0, std::nan("")}}}), HasSubstr("has the score nan"));
  EXPECT_THAT(error({.unknown = 2}), HasSubstr("token 2, which stands for what is not known"));
}

/// Two steps that each make a text 1,000 times as long would fill any memory.
TEST(NormalizerBoundsTest, Normalizer_StopsTexts_ThatGrowTooLong) {
  const std::string content(1000, 'a');
  const Normalizer grows({normalize::Replace{"a", false, content}, normalize::Replace{"a", true, content}});
  SplitBudget budget(0);
  std::string storage;
  EXPECT_EQ(grows.Apply("b", storage, budget), "b");
  EXPECT_THAT(ErrorThrownBy([&] { grows.Apply(std::string(100'000, 'a'), storage, budget); }),
              HasSubstr("grows too long"));
  EXPECT_THAT(ErrorThrownBy([] { Normalizer({normalize::Prepend{std::string(2000, 'a')}}); }),
              HasSubstr("at most 1024"));
  EXPECT_THAT(ErrorThrownBy([] { Normalizer({normalize::Replace{"a(", true, ""}}); }), HasSubstr("at character 2"));
}

TEST(NfcTest, Nfc_EqualsUtf8proc_OnRandomTexts) {
  // The parts are letters, marks, characters that decompose into marks only, Hangul, singletons, composition exclusions
  // and a space.
  const std::vector<std::string> parts = {"a",      "e\u0301", "\u00e9", "\u0323", "\u0307",    "\u0344",
                                          "\u0f73", "\u0f71",  "\u1100", "\u1161", "\u11a8",    "\uac00",
                                          "\u212b", "\u0958",  "\u1e9b", "\u0345", "\u03b1",    "\u0313",
                                          " ",      "\u0f80",  "\u3099", "\u304b", "\U0001d15e"};
  uint32_t state = 1;
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) text += parts[(state = state * 1664525 + 1013904223) / 256 % parts.size()];
    utf8proc_uint8_t* expected = utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
    EXPECT_EQ(ToForm(text, UnicodeForm::kNfc), reinterpret_cast<const char*>(expected)) << text;
    std::free(expected);
  }
  EXPECT_EQ(ToForm("plain", UnicodeForm::kNfc), "plain");
  EXPECT_EQ(ToForm("e\u0323\u0301", UnicodeForm::kNfc), ToForm("e\u0301\u0323", UnicodeForm::kNfc));
}

TEST(UnicodeFormTest, UnicodeForms_FollowUnicode9) {
  const auto stays = [](const char* text) {
    for (const UnicodeForm form : {UnicodeForm::kNfc, UnicodeForm::kNfd, UnicodeForm::kNfkc, UnicodeForm::kNfkd})
      EXPECT_EQ(ToForm(text, form), text);
  };
  stays("\u32ff");                   // an era name of 2019
  stays("x\U0001fbf4y");             // a segmented digit
  stays("\U0001078d");               // a modifier letter
  stays("a\U0001e130\u0323\u0301");  // a mark of 2019 counts as a letter: the marks after it compose with nothing
  EXPECT_EQ(ToForm("\u32fe", UnicodeForm::kNfkc), "\u30f2");
  EXPECT_EQ(ToForm("e\u0301\U0001e130e\u0301", UnicodeForm::kNfc), "\u00e9\U0001e130\u00e9");
  EXPECT_TRUE(WasMarkInUnicode9(U'\u0301'));
  EXPECT_TRUE(WasMarkInUnicode9(U'\u1cf2'));
  for (const char32_t character : {U'a', U'\u0558', U'\u089b', U'\U00010f4d', U'\U0001cf13', U'\U0001e135'})
    EXPECT_FALSE(WasMarkInUnicode9(character)) << static_cast<uint32_t>(character);
}

/// A million marks on one letter once took minutes.
TEST(NfcTest, Nfc_IsNotQuadratic_InRunsOfMarks) {
  const auto begin = ThreadTime();
  const std::string text = std::string("e").append(RepeatedText("\u0301\u0323", 2 << 20));
  const std::string normal = ToForm(text, UnicodeForm::kNfc);
  EXPECT_EQ(normal.size(), text.size());
  EXPECT_EQ(normal.substr(0, 5), "\u1eb9\u0323") << "the mark below goes first";
  EXPECT_LT(ThreadTime() - begin, std::chrono::seconds(10));
}

}  // namespace
}  // namespace quire
