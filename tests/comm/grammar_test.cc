#include <gtest/gtest.h>

#include <random>
#include <set>

#include "comm/base/error.h"
#include "comm/grammar/grammar_compiler.h"

namespace quire {
namespace {

constexpr TokenId kControl = 0, kStop = 1;
constexpr int kModelVocab = 300;  // the model has more tokens than its tokenizer

/// Returns a vocabulary of all single bytes and of some tokens of several bytes: parts of words, of JSON punctuation,
/// and of a character.
Vocabulary TestVocabulary() {
  Vocabulary vocabulary{{"", ""}, {kStop}};
  for (int byte = 0; byte < 256; ++byte) vocabulary.bytes.emplace_back(1, static_cast<char>(byte));
  for (const char* more :
       {"ab", "abc", "bc", "ca", "{\"", "\":", "\", \"", "}}", "12", "tru", "e,", "\xc3\xa9", "\xa9x", "aab"})
    vocabulary.bytes.emplace_back(more);
  return vocabulary;
}

std::set<TokenId> Allowed(GrammarMatcher& matcher) {
  std::vector<uint32_t> bits(matcher.num_words());
  matcher.Allow(bits);
  std::set<TokenId> allowed;
  for (size_t token = 0; token < 32 * bits.size(); ++token) {
    if ((bits[token / 32] >> token % 32 & 1) != 0) allowed.insert(static_cast<TokenId>(token));
  }
  return allowed;
}

/// Returns the tokens that a finite language allows after a text, found by comparison with each word of the language.
std::set<TokenId> AllowedBy(const std::set<std::string>& words, const std::string& text, const Vocabulary& vocabulary) {
  std::set<TokenId> allowed;
  if (words.contains(text)) allowed.insert(kStop);
  for (TokenId token = 2; token < static_cast<TokenId>(vocabulary.bytes.size()); ++token) {
    const std::string longer = text + vocabulary.bytes[static_cast<size_t>(token)];
    const auto found = words.lower_bound(longer);
    if (found != words.end() && found->starts_with(longer)) allowed.insert(token);
  }
  return allowed;
}

/// Generates 200 random texts of the grammar, token by token. Before each token, compares the matcher's mask with the
/// tokens after which the text still begins one of `words`. `words` must be all texts of the grammar.
void ExpectSameMasks(const GrammarSource& source, const std::set<std::string>& words) {
  const Vocabulary vocabulary = TestVocabulary();
  GrammarCompiler compiler(vocabulary, kModelVocab);
  std::mt19937 random(7);
  std::set<std::string> reached;
  for (int walk = 0; walk < 200; ++walk) {
    GrammarMatcher matcher(compiler.Compile(source));
    std::vector<TokenId> tokens;
    std::string text;
    for (;;) {
      ASSERT_TRUE(matcher.Follow(tokens));
      const std::set<TokenId> expected = AllowedBy(words, text, vocabulary);
      ASSERT_EQ(Allowed(matcher), expected) << source.text << " after " << text;
      ASSERT_FALSE(expected.empty());
      tokens.push_back(*std::next(expected.begin(), static_cast<int>(random() % expected.size())));
      if (tokens.back() == kStop) break;
      text += vocabulary.bytes[static_cast<size_t>(tokens.back())];
    }
    reached.insert(text);
    ASSERT_TRUE(matcher.Follow(tokens));
    EXPECT_EQ(Allowed(matcher).size(), static_cast<size_t>(kModelVocab)) << "nobody looks behind the end";
  }
  EXPECT_GT(reached.size(), words.size() / 2);
}

TEST(GrammarTest, Masks_AllowExactlyTheTokensOfAllWords_OfARegex) {
  std::set<std::string> words;
  for (const std::string first : {"ab", "a"}) {
    for (const std::string second : {"c", "bc", "\xc3\xa9"}) {
      words.insert(first + second);
      for (const std::string third : {"c", "bc", "\xc3\xa9"}) words.insert(first + second + third);
    }
  }
  ExpectSameMasks({GrammarSource::kRegex, "(ab|a)(c|bc|\xc3\xa9){1,2}"}, words);
}

TEST(GrammarTest, Masks_AllowExactlyTheTokensOfAllValues_OfASchema) {
  ExpectSameMasks({GrammarSource::kJsonSchema, R"({"enum":["ab","abc",12,true,null]})"},
                  {"\"ab\"", "\"abc\"", "12", "true", "null"});
  std::set<std::string> numbers;
  for (int i = -12; i <= 130; ++i) numbers.insert(std::to_string(i));
  ExpectSameMasks({GrammarSource::kJsonSchema, R"({"type":"integer","minimum":-12,"maximum":130})"}, numbers);
}

TEST(GrammarTest, Masks_AllowExactlyTheTokensOfAllWords_OfEbnfRules) {
  ExpectSameMasks({GrammarSource::kEbnf, "root ::= \"a\" b? | b \"ca\"\nb ::= \"b\" | \"bc\""},
                  {"a", "ab", "abc", "bca", "bcca"});
}

TEST(GrammarTest, StateOfAGrammar_DependsOnlyOnTheTokensThatItFollowed) {
  GrammarCompiler compiler(TestVocabulary(), kModelVocab);
  const auto grammar = compiler.Compile({GrammarSource::kRegex, "[a-c]{3,6}x"});
  const auto token = [](char c) { return static_cast<TokenId>(2 + static_cast<unsigned char>(c)); };
  GrammarMatcher one(grammar), other(grammar);
  const std::vector<TokenId> longer = {token('a'), token('b'), token('c'), token('a')},
                             shorter = {token('c'), token('c')};
  ASSERT_TRUE(one.Follow(longer));
  ASSERT_TRUE(one.Follow(shorter)) << "back to another beginning";
  ASSERT_TRUE(other.Follow(shorter));
  EXPECT_EQ(Allowed(one), Allowed(other));
  ASSERT_TRUE(one.Follow({}));
  EXPECT_FALSE(Allowed(one).contains(token('x')));
  EXPECT_FALSE(one.Follow(std::vector{token('x')}));
}

std::vector<TokenId> Spelled(const std::string& text) {
  std::vector<TokenId> tokens;
  for (const char c : text) tokens.push_back(static_cast<TokenId>(2 + static_cast<unsigned char>(c)));
  return tokens;
}

TEST(GrammarTest, Allow_ReturnsFalse_AtADeadEnd) {
  GrammarCompiler compiler(TestVocabulary(), kModelVocab);
  for (const char* rules : {"root ::= \"a\" x\nx ::= x \"b\"", "root ::= \"a\" [^\\u0000-\\U0010ffff]"}) {
    GrammarMatcher matcher(compiler.Compile({GrammarSource::kEbnf, rules}));
    std::vector<uint32_t> allowed(matcher.num_words());
    EXPECT_TRUE(matcher.Allow(allowed)) << rules;
    ASSERT_TRUE(matcher.Follow(Spelled("a"))) << rules;
    EXPECT_FALSE(matcher.Allow(allowed)) << rules;
    EXPECT_FALSE(matcher.overworked()) << rules;
    EXPECT_FALSE(matcher.Follow(Spelled("ab"))) << rules;
    EXPECT_EQ(matcher.num_followed(), 1u) << rules;
  }
}

/// Adds the same letter again and again, with masks, until the matcher is overworked. Returns the number of letters, or
/// -1 when the matcher accepts `most` letters.
int LettersUntilOverworked(const std::string& rules, int most) {
  GrammarCompiler compiler(TestVocabulary(), kModelVocab);
  GrammarMatcher matcher(compiler.Compile({GrammarSource::kEbnf, rules}));
  std::vector<uint32_t> allowed(matcher.num_words());
  for (int length = 0; length <= most; ++length) {
    if (matcher.Follow(Spelled(std::string(static_cast<size_t>(length), 'a'))) && matcher.Allow(allowed)) continue;
    EXPECT_TRUE(matcher.overworked());
    EXPECT_FALSE(matcher.Follow({})) << "for good";
    EXPECT_FALSE(matcher.Allow(allowed));
    return length;
  }
  return -1;
}

TEST(GrammarTest, AmbiguousGrammar_ExceedsItsWorkLimit_AtTheSameTokenEachTime) {
  const std::string rules = "root ::= s\ns ::= \"a\" | s s | s s s | s s s s";
  const int length = LettersUntilOverworked(rules, 99);  // overworked by its work; its memory stays far below the bound
  EXPECT_GT(length, 5);
  EXPECT_EQ(LettersUntilOverworked(rules, 99), length);
  EXPECT_EQ(LettersUntilOverworked("root ::= \"a\"*", 5000), -1);
}

/// Adds the same letter again and again, without masks, until the matcher is overworked. Returns the number of letters,
/// or -1 when the matcher accepts `most` letters.
int LettersFollowedUntilOverworked(const GrammarSource& source, size_t most) {
  GrammarCompiler compiler(TestVocabulary(), kModelVocab);
  GrammarMatcher matcher(compiler.Compile(source));
  const std::vector<TokenId> tokens = Spelled(std::string(most, 'a'));
  if (matcher.Follow(tokens)) return -1;
  EXPECT_TRUE(matcher.overworked());
  return static_cast<int>(matcher.num_followed());
}

TEST(GrammarTest, Follow_TakesBoundedTime_ForAWholeSequence) {
  // In this grammar each letter completes every rule, and each completion visits all predictions that the parser made
  // at the beginning.
  std::string rules = "root ::= x0", more;
  for (int i = 0; i < 30; ++i) {
    const std::string x = "x" + std::to_string(i), y = "y" + std::to_string(i);
    rules += " | " + x + " | " + y;
    more += "\n" + x + " ::= " + x + " [a-z] | [a-z]\n" + y + " ::= x0 \"#\" | " + y + " \"#\"";
  }
  const GrammarSource heavy{GrammarSource::kEbnf, rules + more};
  const int length = LettersFollowedUntilOverworked(heavy, 5000);
  EXPECT_GT(length, 5) << "it is what many tokens add up to, not one of them";
  EXPECT_EQ(LettersFollowedUntilOverworked(heavy, 5000), length);
  EXPECT_EQ(LettersUntilOverworked(heavy.text, 5000), length) << "the same token, followed one by one or all at once";
  EXPECT_EQ(LettersFollowedUntilOverworked({GrammarSource::kEbnf, "root ::= [a-z]*"}, 20000), -1);
}

TEST(GrammarTest, MemoryOfAMatcher_IsBounded) {
  std::string rules = "root ::= r0", more;
  for (int i = 0; i < 300; ++i) {
    if (i > 0) rules += " | r" + std::to_string(i);
    more += "\nr" + std::to_string(i) + " ::= [a-z] r" + std::to_string(i) + " | \"" + std::to_string(i) + "#\"";
  }
  EXPECT_GT(LettersUntilOverworked(rules + more, 5000), 5);
}

TEST(GrammarTest, ControlTokens_AreNeverAllowed) {
  GrammarCompiler compiler(TestVocabulary(), kModelVocab);
  GrammarMatcher matcher(compiler.Compile({GrammarSource::kRegex, "(.|\\n)*"}));
  const std::set<TokenId> allowed = Allowed(matcher);
  EXPECT_TRUE(allowed.contains(kStop));
  EXPECT_FALSE(allowed.contains(kControl));
  EXPECT_EQ(*allowed.rbegin(), static_cast<TokenId>(TestVocabulary().bytes.size()) - 1)
      << "nor what no text stands for";
}

TEST(GrammarTest, Masks_AllowOnlyValidUtf8) {
  Vocabulary vocabulary = TestVocabulary();
  const auto surrogate = static_cast<TokenId>(vocabulary.bytes.size());
  vocabulary.bytes.emplace_back("a\xed\xa0\x80");
  GrammarCompiler compiler(vocabulary, kModelVocab);
  GrammarMatcher matcher(compiler.Compile({GrammarSource::kRegex, "(.|\\n)*"}));
  EXPECT_FALSE(Allowed(matcher).contains(surrogate)) << "broken inside";
  const auto token = [](int byte) { return static_cast<TokenId>(2 + byte); };
  const std::tuple<int, int, int> ranges[] = {{0xc3, 0x80, 0xbf}, {0xe0, 0xa0, 0xbf}, {0xe1, 0x80, 0xbf},
                                              {0xed, 0x80, 0x9f}, {0xf0, 0x90, 0xbf}, {0xf1, 0x80, 0xbf},
                                              {0xf4, 0x80, 0x8f}};
  for (const auto& [lead, first, last] : ranges) {
    ASSERT_TRUE(matcher.Follow(std::vector{token('a'), token(lead)}));
    const std::set<TokenId> allowed = Allowed(matcher);
    for (int byte = 0; byte < 256; ++byte)
      EXPECT_EQ(allowed.contains(token(byte)), byte >= first && byte <= last) << lead << " " << byte;
  }
  ASSERT_TRUE(matcher.Follow({}));
  for (const int never : {0x80, 0xbf, 0xc0, 0xc1, 0xf5, 0xff})
    EXPECT_FALSE(Allowed(matcher).contains(token(never))) << never;
}

TEST(GrammarTest, UnsupportedOrBrokenGrammars_AreRefused) {
  GrammarCompiler compiler(TestVocabulary(), kModelVocab);
  const auto refused = [&](GrammarSource::Kind kind, const std::string& text) {
    try {
      compiler.Compile({kind, text});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refused(GrammarSource::kRegex, "a(?=b)").find("Lookahead"), std::string::npos);
  EXPECT_NE(refused(GrammarSource::kRegex, "(ab"), "");
  EXPECT_NE(refused(GrammarSource::kEbnf, "root ::= other"), "");
  for (const char* attribute : {"max_chars=0", "max_tokens=5, capture", "lazy", "temperature = 0.5", "capture=\"]\""}) {
    const std::string rules = std::string("root[") + attribute + "] ::= \"a\"";
    EXPECT_NE(refused(GrammarSource::kEbnf, rules).find("attributes of rules"), std::string::npos) << rules;
  }
  EXPECT_EQ(refused(GrammarSource::kEbnf, "root ::= a[lazy] b\na ::= \"a\"\nb ::= \"b\""), "") << "a class of letters";
  EXPECT_NE(refused(GrammarSource::kJsonSchema, "{\"type\":\"strange\"}").find("type must be"), std::string::npos);
  EXPECT_NE(refused(GrammarSource::kJsonSchema, "{\"enum\":[1],\"type\":\"null\"}").find("no answer"),
            std::string::npos);
  EXPECT_NE(refused(GrammarSource::kJsonSchema, "[1"), "");
  EXPECT_NE(refused(GrammarSource::kStructuralTag, "{}"), "");
  EXPECT_NE(refused(GrammarSource::kRegex, std::string(kMaxGrammarBytes + 1, 'a')).find("65537 bytes"),
            std::string::npos);
  EXPECT_EQ(refused(GrammarSource::kRegex, "a+"), "") << "and what was refused leaves nothing behind";

  Vocabulary endless = TestVocabulary();
  endless.stop_tokens.clear();
  GrammarCompiler without_stop(endless, kModelVocab);
  EXPECT_THROW(without_stop.Compile({GrammarSource::kRegex, "a"}), Error);
}

TEST(GrammarTest, CompiledGrammars_AreCached_UntilManyOthersWereCompiled) {
  GrammarCompiler compiler(TestVocabulary(), kModelVocab);
  const GrammarSource first = {GrammarSource::kRegex, "a{1,7}"};
  const auto compiled = compiler.Compile(first);
  EXPECT_EQ(compiler.Compile(first), compiled);
  for (int i = 0; i < 200; ++i) compiler.Compile({GrammarSource::kRegex, "b{1," + std::to_string(i + 1) + "}"});
  EXPECT_NE(compiler.Compile(first), compiled) << "but not for ever";
}

}  // namespace
}  // namespace quire
