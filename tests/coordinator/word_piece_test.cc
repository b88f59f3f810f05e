// Tests of WordPiece and of pairs of texts against Hugging Face's tokenizers (tests/golden/make_encoder_golden.py).
#include "coordinator/text/tokenizer/word_piece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/formats/mapped_file.h"
#include "comm/model/model_files.h"
#include "coordinator/text/tokenizer/detokenizer.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kEncoders = std::string(QUIRE_TEST_DATA) + "/models/";

Json GoldenTexts(const std::string& model) {
  const std::string path = std::string(QUIRE_TEST_DATA) + "/encoders.json";
  return ParseJson(ReadTextFile(path, 8 << 20), path, {.max_depth = 8, .max_nodes = 1'000'000}).at(model).at("texts");
}

/// Expects the golden tokens of all texts and pairs.
void ExpectGoldenTexts(const Tokenizer& tokenizer, const Json& texts) {
  size_t pairs = 0;
  for (const Json& entry : texts) {
    const auto text = entry.at("text").get<std::string>();
    const auto ids = entry.at("ids").get<std::vector<TokenId>>();
    if (!entry.contains("second")) {
      EXPECT_EQ(tokenizer.EncodePrompt(text, true), ids) << text;
      continue;
    }
    ++pairs;
    const auto second = entry.at("second").get<std::string>();
    const Tokenizer::JoinedPair pair =
        tokenizer.JoinPair(tokenizer.EncodePrompt(text, false), tokenizer.EncodePrompt(second, false));
    EXPECT_EQ(pair.tokens, ids) << text << " | " << second;
    std::vector<int> types;
    for (int i = 0; i < std::ssize(ids); ++i) types.push_back(pair.second > 0 && i >= pair.second ? 1 : 0);
    EXPECT_EQ(types, entry.at("types").get<std::vector<int>>()) << text << " | " << second;
  }
  EXPECT_GT(pairs, 20U);
}

TEST(EncoderTokenizers, TokensAndTypes_EqualHuggingFace_OnTextsAndPairs) {
  for (const char* model : {"bert", "xlmr", "modernbert"})
    ExpectGoldenTexts(Tokenizer(TokenizerDataFromHf(kEncoders + model)), GoldenTexts(model));
}

TEST(EncoderTokenizers, TokensAndTypes_EqualHuggingFace_InGgufFiles) {
  for (const std::string model : {"bert", "nomicbert", "jinabert"}) {
    const ModelFiles files = ModelFiles::Open(kEncoders + model + ".gguf");
    ExpectGoldenTexts(Tokenizer(TokenizerDataOf(files)), GoldenTexts(model));
  }
}

/// Returns the files of a directory that has vocab.txt instead of tokenizer.json.
HfTokenizerFiles WithVocabTxt(const char* line_end) {
  const TokenizerData data = TokenizerDataFromHf(kEncoders + "bert");
  HfTokenizerFiles files;
  for (const std::string& token : data.tokens) files.vocab_txt += token + line_end;
  return files;
}

TEST(EncoderTokenizers, TokensAndTypes_EqualHuggingFace_WithVocabTxtAlone) {
  for (const char* line_end : {"\n", "\r\n"}) {
    const Tokenizer tokenizer(TokenizerDataFromHf(WithVocabTxt(line_end), "DIR"));
    ExpectGoldenTexts(tokenizer, GoldenTexts("bert"));
    EXPECT_TRUE(tokenizer.IsSpecial(4)) << "[MASK]";
  }
}

TEST(EncoderTokenizers, TokenizerOfVocabTxt_FollowsTokenizerConfigJson) {
  HfTokenizerFiles files;
  files.vocab_txt = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nA\na\né\ne\n";
  const auto encode = [&](const char* config, const char* text) {
    files.config_json = config;
    return Tokenizer(TokenizerDataFromHf(files, "DIR")).EncodePrompt(text, true);
  };
  EXPECT_THAT(encode("{}", "A é"), ElementsAre(2, 5, 7, 3));
  EXPECT_THAT(encode(R"({"do_lower_case": false})", "A é"), ElementsAre(2, 4, 6, 3));
  EXPECT_THAT(encode(R"({"strip_accents": false})", "A é"), ElementsAre(2, 5, 6, 3));
  files.vocab_txt = "[PAD]\n[CLS]\n[SEP]\na";
  try {
    encode("{}", "a");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("DIR/vocab.txt: there is no token [UNK]"));
  }
}

TEST(EncoderTokenizers, Tokens_AreDecodedToText_WithoutMarks) {
  const Tokenizer tokenizer(TokenizerDataFromHf(kEncoders + "bert"));
  EXPECT_EQ(Decode(tokenizer, tokenizer.EncodePrompt("Hello the lazy dog", true), true), "hello the lazy dog");
}

// Long pairs are cut to the same lengths as by Hugging Face's "longest_first".
TEST(EncoderTokenizers, LongPairs_LoseTheEndOfTheLongerText_First) {
  const Tokenizer tokenizer(TokenizerDataFromHf(kEncoders + "bert"));
  const auto lengths = [&](size_t first, size_t second, size_t most) {
    const auto pair = tokenizer.JoinPair(std::vector<TokenId>(first, 100), std::vector<TokenId>(second, 200), most);
    return std::pair(std::ranges::count(pair.tokens, 100), std::ranges::count(pair.tokens, 200));
  };
  EXPECT_EQ(lengths(4, 9, 16), (std::pair{4L, 9L})) << "three tokens go around";
  EXPECT_EQ(lengths(4, 9, 12), (std::pair{4L, 5L}));
  EXPECT_EQ(lengths(9, 4, 12), (std::pair{5L, 4L}));
  EXPECT_EQ(lengths(9, 9, 12), (std::pair{4L, 5L}));
  EXPECT_EQ(lengths(9, 8, 12), (std::pair{5L, 4L}));
  EXPECT_EQ(lengths(0, 9, 8), (std::pair{0L, 5L}));
  EXPECT_EQ(lengths(9, 9, 4), (std::pair{0L, 1L}));
  EXPECT_EQ(lengths(3, 9, 8), (std::pair{2L, 3L}));
  EXPECT_EQ(lengths(5, 20, 13), (std::pair{5L, 5L}));
}

TEST(EncoderTokenizers, Pairs_AreRefused_WhenTheTokenizerHasNoPairTemplate) {
  TokenizerData data = TokenizerDataFromHf(kEncoders + "bert");
  data.pair.reset();
  EXPECT_THROW(Tokenizer(data).JoinPair({5}, {6}), Error);
}

TEST(EncoderTokenizers, PairTemplates_AreIgnored_WhenTheirOrderOrTypesAreUnusual) {
  const auto frame_of = [](const std::string& pair) {
    HfTokenizerFiles files;
    files.tokenizer_json = R"({"model": {"type": "WordPiece", "vocab": {"[UNK]": 0, "[S]": 1}, "unk_token": "[UNK]"},
      "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": {"type": "TemplateProcessing", "single": [],
      "pair": [)" + pair + R"(], "special_tokens": {"[S]": {"id": "[S]", "ids": [1], "tokens": ["[S]"]}}}})";
    return TokenizerDataFromHf(files, "DIR").pair;
  };
  const std::string a = R"({"Sequence": {"id": "A", "type_id": 0}})", b = R"({"Sequence": {"id": "B", "type_id": 1}})",
                    s = R"({"SpecialToken": {"id": "[S]", "type_id": 0}})",
                    late = R"({"SpecialToken": {"id": "[S]", "type_id": 1}})";
  ASSERT_TRUE(frame_of(a + "," + s + "," + b + "," + late));
  EXPECT_TRUE(frame_of(a + "," + s + "," + b + "," + late)->second_type);
  for (const std::string& other : {std::string(), a, b + "," + a, a + "," + a, a + "," + b + "," + b,
                                   a + "," + b + "," + s, a + "," + late + "," + b})
    EXPECT_FALSE(frame_of(other)) << other;
}

TEST(WordPiece, WordsThatAreTooLongOrHaveNoPieces_BecomeOneUnknownToken) {
  const std::vector<std::string> tokens = {"[UNK]", "a", "##a", "##aa", "ab", "é"};
  const WordPiece words({.unknown = 0, .most_characters = 5}, tokens);
  const auto encode = [&](const char* word) {
    std::vector<TokenId> out = {9};
    words.Encode(word, out);
    out.erase(out.begin());
    return out;
  };
  EXPECT_THAT(encode("aaaa"), ElementsAre(1, 3, 2));
  EXPECT_THAT(encode("aba"), ElementsAre(4, 2));
  EXPECT_THAT(encode("abc"), ElementsAre(0));
  EXPECT_THAT(encode("éaaaa"), ElementsAre(5, 3, 3)) << "five characters in six bytes";
  EXPECT_THAT(encode("aaaaaa"), ElementsAre(0));
  EXPECT_THROW(WordPiece({.unknown = 6}, tokens), Error);
}

}  // namespace
}  // namespace quire
