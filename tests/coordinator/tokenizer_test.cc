#include "coordinator/text/tokenizer/tokenizer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/formats/gguf.h"
#include "comm/model/formats/mapped_file.h"
#include "coordinator/text/tokenizer/byte_level.h"
#include "coordinator/text/tokenizer/detokenizer.h"
#include "coordinator/text/tokenizer/splitter.h"
#include "coordinator/text/utf8.h"
#include "tests/support/error_of.h"

namespace quire {
namespace {

/// Compares the tokenizer with at least `least` cases that HF tokenizers computed (tests/golden/make_text_golden.py).
/// `mark` says whether control tokens in the texts are trusted or plain text; sentencepiece computed the cases of plain
/// text.
void ExpectTokenizerCases(const Tokenizer& tokenizer, const std::string& path, size_t least = 1000,
                          char mark = MarkedText::kTrusted) {
  const Json cases = ParseJson(ReadTextFile(path, 512 << 20), path, {.max_depth = 8, .max_nodes = 50'000'000});
  ASSERT_GE(cases["encode"].size(), least);
  int wrong = 0;
  for (const Json& c : cases["encode"]) {
    const auto text = c[0].get<std::string>();
    const auto expected = c[1].get<std::vector<TokenId>>();
    const std::vector<TokenId> tokens = tokenizer.Encode(MarkedText(text, mark));
    if (tokens == expected) continue;
    if (++wrong <= 5) {
      EXPECT_EQ(tokens, expected) << DumpJson(text);
    }
  }
  for (const Json& c : cases["decode"]) {
    const auto ids = c[0].get<std::vector<TokenId>>();
    const auto without_special = c[1].get<std::string>(), whole = c[2].get<std::string>();
    if (Decode(tokenizer, ids, true) == without_special && Decode(tokenizer, ids, false) == whole) continue;
    if (++wrong <= 5) {
      EXPECT_EQ(Decode(tokenizer, ids, true), without_special) << DumpJson(c[0]);
      EXPECT_EQ(Decode(tokenizer, ids, false), whole) << DumpJson(c[0]);
    }
  }
  EXPECT_EQ(wrong, 0);
}

class SmallTokenizerTest : public testing::TestWithParam<std::string> {
 protected:
  std::string directory_ = std::string(QUIRE_TEST_DATA) + "/tokenizers/" + GetParam();
  Tokenizer tokenizer_{TokenizerDataFromHf(directory_)};
};

TEST_P(SmallTokenizerTest, Tokenizer_EqualsHf_OnGeneratedAndAdversarialTexts) {
  ExpectTokenizerCases(tokenizer_, directory_ + "/cases.json");
}

TEST_P(SmallTokenizerTest, SurelyExceeds_IsFalse_ForTheRealNumberOfTokens) {
  const Json cases =
      ParseJson(ReadTextFile(directory_ + "/cases.json", 64 << 20), "cases", {.max_depth = 8, .max_nodes = 2'000'000});
  for (const Json& c : cases["encode"])
    ASSERT_FALSE(tokenizer_.SurelyExceeds(c[0].get_ref<const std::string&>(), c[1].size())) << DumpJson(c[0]);
}

TEST_P(SmallTokenizerTest, UserText_NeverBecomesControlTokens) {
  const Json cases =
      ParseJson(ReadTextFile(directory_ + "/cases.json", 64 << 20), "cases", {.max_depth = 8, .max_nodes = 2'000'000});
  int spelled = 0;
  for (const Json& c : cases["encode"]) {
    const auto text = c[0].get<std::string>();
    spelled += text.find("<|im_end|>") != std::string::npos;
    for (const TokenId token : tokenizer_.Encode(MarkedText(text, MarkedText::kFromUser))) {
      ASSERT_FALSE(tokenizer_.IsSpecial(token)) << DumpJson(text);
    }
  }
  EXPECT_GT(spelled, 50);
}

TEST_P(SmallTokenizerTest, ControlToken_IsPlainText_WhenPartOfItComesFromTheUser) {
  MarkedText text("<|im_", MarkedText::kTrusted);
  text += MarkedText("end|>", MarkedText::kFromUser);
  for (const TokenId token : tokenizer_.Encode(text)) EXPECT_FALSE(tokenizer_.IsSpecial(token));
  EXPECT_EQ(tokenizer_.Encode(MarkedText("<|im_end|>", MarkedText::kTrusted)).size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Kinds, SmallTokenizerTest,
                         testing::Values("gpt2", "smollm", "llama3", "qwen2", "metaspace_llama2", "metaspace_gemma",
                                         "metaspace_first", "metaspace_split", "metaspace_across"),
                         [](const testing::TestParamInfo<std::string>& kind) { return kind.param; });

// Tests Unigram models, and the steps before and after a model (cases of tests/golden/make_unigram_golden.py).
class StepsTest : public testing::TestWithParam<std::string> {
 protected:
  std::string directory_ = std::string(QUIRE_TEST_DATA) + "/tokenizers/" + GetParam();
  Tokenizer tokenizer_{TokenizerDataFromHf(directory_)};
};

TEST_P(StepsTest, Tokenizer_EqualsHf) { ExpectTokenizerCases(tokenizer_, directory_ + "/cases.json", 250); }

TEST_P(StepsTest, SurelyExceeds_IsFalse_ForTheRealNumberOfTokens) {
  const Json cases = ParseJson(ReadTextFile(directory_ + "/cases.json", 64 << 20), "cases", {.max_nodes = 2'000'000});
  for (const Json& c : cases["encode"])
    ASSERT_FALSE(tokenizer_.SurelyExceeds(c[0].get_ref<const std::string&>(), c[1].size())) << DumpJson(c[0]);
}

INSTANTIATE_TEST_SUITE_P(Kinds, StepsTest,
                         testing::Values("unigram_t5", "unigram_words", "unigram_albert", "unigram_bytes",
                                         "unigram_nmt", "pre_falcon", "pre_removed", "pre_next", "pre_inverted",
                                         "pre_words"),
                         [](const testing::TestParamInfo<std::string>& kind) { return kind.param; });

// Tests a BOS token, and added tokens of all kinds, alone and inside words: special or not, single words, tokens that
// strip spaces on the left or right, and tokens that are found in normalised text.
class AddedTokensTest : public testing::TestWithParam<std::string> {
 protected:
  std::string directory_ = std::string(QUIRE_TEST_DATA) + "/tokenizers/" + GetParam();
  Tokenizer tokenizer_{TokenizerDataFromHf(directory_)};
  /// The tokens that HF computes for each text, with BOS and without.
  Json cases_ = ParseJson(ReadTextFile(directory_ + "/cases.json", 1 << 20), directory_,
                          {.max_depth = 8, .max_nodes = 200'000})["encode"];
};

TEST_P(AddedTokensTest, Tokenizer_EqualsHf_WithAndWithoutBos) {
  ASSERT_GT(cases_.size(), 500u);
  EXPECT_EQ(cases_[0][1].size(), 1u) << "BOS is what an empty prompt becomes";
  for (const Json& c : cases_) {
    const auto text = c[0].get<std::string>();
    EXPECT_EQ(tokenizer_.EncodePrompt(text, true), c[1].get<std::vector<TokenId>>()) << DumpJson(text);
    EXPECT_EQ(tokenizer_.EncodePrompt(text, false), c[2].get<std::vector<TokenId>>()) << DumpJson(text);
  }
}

TEST_P(AddedTokensTest, UserText_NeverBecomesControlTokens) {
  for (const Json& c : cases_) {
    for (const TokenId token : tokenizer_.Encode(MarkedText(c[0].get<std::string>(), MarkedText::kFromUser)))
      EXPECT_FALSE(tokenizer_.IsSpecial(token)) << DumpJson(c[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, AddedTokensTest, testing::Values("added", "added_space"),
                         [](const testing::TestParamInfo<std::string>& kind) { return kind.param; });

TEST(EncodeBoundsTest, Encode_EndsEarly_WhenStoppedOrOverMaxTokens) {
  const Tokenizer tokenizer(TokenizerDataFromHf(std::string(QUIRE_TEST_DATA) + "/tokenizers/gpt2"));
  std::string words;
  for (int i = 0; i < 1000; ++i) words += "word ";
  const size_t count = tokenizer.EncodePrompt(words, false).size();
  EXPECT_EQ(tokenizer.EncodePrompt(words, false, {.max_tokens = count}).size(), count);
  EXPECT_THROW(tokenizer.EncodePrompt(words, false, {.max_tokens = count - 1}), TooManyTokens);
  std::stop_source stop;
  EXPECT_EQ(tokenizer.EncodePrompt(words, false, {.stop = stop.get_token()}).size(), count);
  stop.request_stop();
  EXPECT_THROW(tokenizer.EncodePrompt(words, false, {.stop = stop.get_token()}), Stopped);
  const std::string one_piece(100'000, 'a');
  EXPECT_THROW(tokenizer.EncodePrompt(one_piece, false, {.stop = stop.get_token()}), Stopped);
}

// The tokenizer caches the tokens of words of a long text. A repeated word must get the same tokens.
TEST(RecentWordsTest, RepeatedWords_GetTheSameTokens) {
  for (const std::string name : {"gpt2", "metaspace_llama2", "unigram_t5", "pre_falcon"}) {
    const Tokenizer tokenizer(TokenizerDataFromHf(std::string(QUIRE_TEST_DATA) + "/tokenizers/" + name));
    std::string text;
    std::vector<TokenId> expected;
    for (int i = 0; i < 3000; ++i) {
      const std::string word = fmt::format(" w{}x", i * 7919 % 211);
      text += word;
    }
    for (int i = 0; i < 3000; i += 10) {  // each part is too short for the cache of words
      std::string part;
      for (int j = i; j < i + 10; ++j) part += fmt::format(" w{}x", j * 7919 % 211);
      const std::vector<TokenId> tokens =
          tokenizer.EncodePrompt(name == "metaspace_llama2" ? part.substr(1) : part, false);
      expected.insert(expected.end(), tokens.begin(), tokens.end());
    }
    EXPECT_EQ(tokenizer.EncodePrompt(name == "metaspace_llama2" ? text.substr(1) : text, false), expected) << name;
  }
}

TEST(SurelyExceedsTest, SurelyExceeds_ComparesBytesWithTheLongestToken_AndIsFalseWhenBytesMayVanish) {
  TokenizerData data = TokenizerDataFromHf(std::string(QUIRE_TEST_DATA) + "/models/gqa");
  const Tokenizer plain(data);
  const size_t longest = plain.longest_token();
  EXPECT_FALSE(plain.SurelyExceeds(std::string(10 * longest, 'a'), 10));
  EXPECT_TRUE(plain.SurelyExceeds(std::string(11 * longest, 'a'), 10));
  data.tokens[5] = "unspeakable";  // token 5 was the ampersand, which now has no token
  const Tokenizer without(data);
  ASSERT_TRUE(without.EncodePrompt(std::string(1000, '&'), false).empty());
  EXPECT_FALSE(without.SurelyExceeds(std::string(1'000'000, '&'), 10));
  data.normalizer = {UnicodeForm::kNfc};
  const Tokenizer normalising(data);
  EXPECT_FALSE(normalising.SurelyExceeds(std::string(1'000'000, 'a'), 10)) << "what is dropped is not known beforehand";
}

TEST(DetokenizerTest, Push_ReturnsWholeCharactersOnly) {
  const Tokenizer tokenizer(TokenizerDataFromHf(std::string(QUIRE_TEST_DATA) + "/tokenizers/gpt2"));
  const std::string text = "añ漢👩‍🚀 ü";
  for (const bool user : {false, true}) {
    Detokenizer detokenizer(tokenizer, true);
    std::string joined;
    for (const TokenId token :
         tokenizer.Encode(MarkedText(text, user ? MarkedText::kFromUser : MarkedText::kTrusted))) {
      const std::string piece = detokenizer.Push(token);
      EXPECT_TRUE(IsValidUtf8(piece));
      joined += piece;
    }
    EXPECT_EQ(joined + detokenizer.Finish(), text);
  }
}

TEST(DetokenizerTest, Finish_ReplacesAnUnfinishedCharacter) {
  const Tokenizer tokenizer(TokenizerDataFromHf(std::string(QUIRE_TEST_DATA) + "/tokenizers/gpt2"));
  Detokenizer detokenizer(tokenizer, true);
  const auto tokens = tokenizer.Encode(MarkedText("漢", MarkedText::kTrusted));
  ASSERT_GT(tokens.size(), 1u);
  EXPECT_EQ(detokenizer.Push(tokens[0]), "");
  EXPECT_EQ(detokenizer.Finish(), "\xef\xbf\xbd");
}

TEST(TokenizerDataTest, TokenizerDataFromHf_Throws_WhenTheDirectoryDoesNotExist) {
  EXPECT_THROW(TokenizerDataFromHf("/nonexistent"), Error);
}

/// Returns a GGUF file with a byte-level vocabulary: one token for each byte, and the token "12".
GgufFile ByteLevelGguf(const std::string& pre) {
  GgufFile gguf{{}, {}, "file.gguf"};
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(BytesToAlphabet(std::string(1, static_cast<char>(byte))));
  tokens.emplace_back("12");
  gguf.metadata["tokenizer.ggml.model"] = std::string("gpt2");
  gguf.metadata["tokenizer.ggml.tokens"] = std::move(tokens);
  gguf.metadata["tokenizer.ggml.merges"] = std::vector<std::string>{"1 2"};
  gguf.metadata["tokenizer.ggml.pre"] = pre;
  return gguf;
}

/// Returns the pieces into which the pre-tokenizer steps cut the text.
std::vector<std::string> Cut(const std::vector<PreTokenizerStep>& steps, const std::string& text) {
  SplitBudget budget(text.size() * steps.size());
  const PreTokenizer::Pieces pieces = PreTokenizer(steps).Cut(text, true, {}, budget);
  return {pieces.all.begin(), pieces.all.end()};
}

TEST(GgufTokenizerTest, PreTokenizers_CutTextsAsHfDoes) {
  const Json golden =
      ParseJson(ReadTextFile(std::string(QUIRE_TEST_DATA) + "/pre_tokenizers.json", 1 << 20), "pre_tokenizers.json");
  EXPECT_GE(golden.size(), 15u);
  for (const auto& [name, kind] : golden.items()) {
    const TokenizerData data = TokenizerDataFromGguf(ByteLevelGguf(name));
    EXPECT_EQ(data.normalizer.size(), kind["nfc"].get<bool>() ? 1u : 0u) << name;
    for (const Json& expected : kind["cases"])
      EXPECT_EQ(Cut(data.pre_tokenizer, expected[0]), expected[1].get<std::vector<std::string>>()) << name;
  }
}

TEST(GgufTokenizerTest, BosToken_IsAddedAsInLlamaCpp) {
  const auto begins = [](const std::string& pre, std::optional<bool> said) {
    GgufFile gguf = ByteLevelGguf(pre);
    gguf.metadata["tokenizer.ggml.bos_token_id"] = int64_t{7};
    if (said) gguf.metadata["tokenizer.ggml.add_bos_token"] = *said;
    return !TokenizerDataFromGguf(gguf).prefix.empty();
  };
  for (const char* pre : {"llama-bpe", "tekken"}) {
    EXPECT_TRUE(begins(pre, std::nullopt)) << pre;
    EXPECT_FALSE(begins(pre, false)) << pre;
  }
  EXPECT_FALSE(begins("qwen2", std::nullopt));
  EXPECT_TRUE(begins("qwen2", true));
}

TEST(GgufTokenizerTest, PreTokenizers_CutAndNormaliseAsTheirModelFamilies) {
  const auto tokens = [](const std::string& pre, const char* text) {
    return Tokenizer(TokenizerDataFromGguf(ByteLevelGguf(pre))).EncodePrompt(text, false).size();
  };
  for (const char* pre : {"gpt-2", "phi-2", "mpt", "llama-bpe", "chatglm-bpe"}) EXPECT_EQ(tokens(pre, "12"), 1u) << pre;
  for (const char* pre : {"smollm", "starcoder", "command-r", "qwen2"}) EXPECT_EQ(tokens(pre, "12"), 2u) << pre;
  for (const char* pre : {"mpt", "olmo", "command-r", "qwen2"}) EXPECT_EQ(tokens(pre, "e\u0301"), 2u) << pre;
  for (const char* pre : {"gpt-2", "llama3", "refact"}) EXPECT_EQ(tokens(pre, "e\u0301"), 3u) << pre;
}

TEST(GgufTokenizerTest, UnsupportedPreTokenizersAndModels_AreRefused_WithTheirName) {
  const auto message = [](const GgufFile& gguf) -> std::string {
    return ErrorThrownBy([&] { TokenizerDataFromGguf(gguf); });
  };
  EXPECT_THAT(message(ByteLevelGguf("xyz")), testing::HasSubstr("file.gguf: pre-tokenizer \"xyz\" is not supported"));
  GgufFile gguf = ByteLevelGguf("gpt-2");
  gguf.metadata["tokenizer.ggml.model"] = std::string("rwkv");
  EXPECT_THAT(message(gguf), testing::HasSubstr("tokenizer \"rwkv\" is not supported"));
  gguf.metadata["tokenizer.ggml.model"] = std::string("llama");
  EXPECT_THAT(message(gguf), testing::HasSubstr("no tokenizer.ggml.scores"));
  gguf.metadata["tokenizer.ggml.scores"] = std::vector<double>(3);
  EXPECT_THAT(message(gguf), testing::HasSubstr("tokenizer.ggml.scores has 3 entries for 257 tokens"));
}

TEST(GgufTokenizerTest, Gemma4Tokenizer_EqualsHf) {
  constexpr int64_t kNormal = 1, kControl = 3, kUserDefined = 4;
  const std::string directory = std::string(QUIRE_TEST_DATA) + "/tokenizers/metaspace_gemma";
  const TokenizerData hf = TokenizerDataFromHf(directory);
  std::vector<std::string> merges;
  for (const MergeRule& merge : hf.merges) merges.push_back(merge.left + " " + merge.right);
  std::vector<int64_t> types(hf.tokens.size(), kNormal);
  for (const AddedToken& token : hf.added)
    types[static_cast<size_t>(token.id)] = token.special ? kControl : kUserDefined;
  GgufFile gguf{{}, {}, "file.gguf"};
  gguf.metadata = {{"tokenizer.ggml.model", "gemma4"},
                   {"tokenizer.ggml.tokens", hf.tokens},
                   {"tokenizer.ggml.merges", merges},
                   {"tokenizer.ggml.token_type", types},
                   {"tokenizer.ggml.add_space_prefix", false}};
  const Tokenizer tokenizer(TokenizerDataFromGguf(gguf)), wanted(hf);
  const std::string path = directory + "/cases.json";
  const Json cases = ParseJson(ReadTextFile(path, 64 << 20), path, {.max_depth = 8, .max_nodes = 2'000'000});
  int compared = 0;
  for (const Json& c : cases["encode"]) {
    const auto text = c[0].get<std::string>();
    // GGUF does not say how much surrounding whitespace an added token strips.
    if (text.find("<mask>") != std::string::npos || text.find("tool") != std::string::npos) continue;
    ASSERT_EQ(tokenizer.EncodePrompt(text, false), wanted.EncodePrompt(text, false)) << DumpJson(text);
    ++compared;
  }
  EXPECT_GT(compared, 500);
}

TEST(GgufTokenizerTest, Tokenizer_IsRefused_WhenAByteHasNoToken) {
  TokenizerData data;
  data.metaspace.emplace();
  for (int byte = 0; byte < 255; ++byte) data.tokens.push_back(fmt::format("<0x{:02X}>", byte));
  EXPECT_THROW(Tokenizer{data}, Error);
  data.tokens.emplace_back("<0xFF>");
  EXPECT_EQ(Tokenizer(data).EncodePrompt("é", false), (std::vector<TokenId>{0xc3, 0xa9}));
}

// Compares the vocabulary of the quickstart model, from its GGUF file, with HF.
TEST(RealTokenizerTest, QuickstartTokenizer_EqualsHf) {
  const char* path = std::getenv("QUIRE_TEST_MODEL");
  if (path == nullptr) GTEST_SKIP() << "QUIRE_TEST_MODEL is not set";
  const MappedFile file(path);
  const GgufFile gguf = ReadGguf(file.bytes(), file.path());
  ExpectTokenizerCases(Tokenizer(TokenizerDataFromGguf(gguf)),
                       std::string(QUIRE_TEST_DATA) + "/tokenizer_smollm2.json");
}

// Returns the folders of published models' vocabularies, which tests/golden/compare_tokenizers.py makes; none in a run
// of all tests.
std::vector<std::string> Vocabularies() {
  std::vector<std::string> folders;
  const char* all = std::getenv("QUIRE_TEST_VOCABULARIES");
  if (all == nullptr) return folders;
  for (const auto& entry : std::filesystem::directory_iterator(all)) folders.push_back(entry.path());
  std::ranges::sort(folders);
  return folders;
}

class VocabularyTest : public testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(VocabularyTest);

TEST_P(VocabularyTest, Tokenizer_EqualsHfOrSentencepiece) {
  if (std::filesystem::exists(GetParam() + "/tokenizer.model")) {
    return ExpectTokenizerCases(Tokenizer(TokenizerDataFromHf(GetParam())), GetParam() + "/cases.json", 1000,
                                MarkedText::kFromUser);
  }
  const std::string vocabulary = GetParam() + "/vocabulary.gguf";
  if (!std::filesystem::exists(vocabulary))
    return ExpectTokenizerCases(Tokenizer(TokenizerDataFromHf(GetParam())), GetParam() + "/cases.json");
  const MappedFile file(vocabulary);
  ExpectTokenizerCases(Tokenizer(TokenizerDataFromGguf(ReadGguf(file.bytes(), file.path()))),
                       GetParam() + "/cases.json");
}

INSTANTIATE_TEST_SUITE_P(Folders, VocabularyTest, testing::ValuesIn(Vocabularies()),
                         [](const auto& folder) { return std::filesystem::path(folder.param).filename().string(); });

}  // namespace
}  // namespace quire
