// Tests of tokenizers from tokenizer.model files, and from the GGUF metadata that llama.cpp's converter makes of such
// files. Also tests refusals of other tokenizer files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/formats/gguf.h"
#include "comm/model/formats/mapped_file.h"
#include "coordinator/text/tokenizer/charsmap.h"
#include "coordinator/text/tokenizer/detokenizer.h"
#include "coordinator/text/tokenizer/protobuf_reader.h"
#include "coordinator/text/tokenizer/sentencepiece_model.h"
#include "coordinator/text/tokenizer/vocabulary_of.h"
#include "coordinator/text/utf8.h"
#include "tests/support/error_of.h"

namespace quire {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Type = SentencePieceModel::Type;

std::string Folder(const std::string& name) { return std::string(QUIRE_TEST_DATA) + "/tokenizers/" + name; }

/// Expects the tokens that sentencepiece makes of the texts in the folder `name` (tests/golden/make_unigram_golden.py).
/// Control tokens in these texts count as text.
void ExpectCases(const Tokenizer& tokenizer, const std::string& name) {
  const std::string path = Folder(name) + "/cases.json";
  const Json cases = ParseJson(ReadTextFile(path, 64 << 20), path, {.max_nodes = 2'000'000});
  ASSERT_GE(cases["encode"].size(), 250u);
  ASSERT_GE(cases["decode"].size(), 5u);
  for (const Json& c : cases["encode"]) {
    const auto text = c[0].get<std::string>();
    EXPECT_EQ(tokenizer.Encode(MarkedText(text, MarkedText::kFromUser)), c[1].get<std::vector<TokenId>>())
        << DumpJson(text);
  }
  for (const Json& c : cases["decode"])
    EXPECT_EQ(Decode(tokenizer, c[0].get<std::vector<TokenId>>(), true), c[1].get<std::string>()) << DumpJson(c[0]);
}

class SentencePieceTest : public testing::TestWithParam<std::string> {};

TEST_P(SentencePieceTest, Tokenizer_EqualsSentencepiece) {
  ExpectCases(Tokenizer(TokenizerDataFromHf(Folder(GetParam()))), GetParam());
}

TEST_P(SentencePieceTest, ControlTokens_AreFoundInTrustedTextOnly) {
  const Tokenizer tokenizer(TokenizerDataFromHf(Folder(GetParam())));
  const TokenId end = tokenizer.Encode(MarkedText("<|im_end|>", MarkedText::kTrusted)).at(0);
  EXPECT_TRUE(tokenizer.IsSpecial(end));
  for (const TokenId token : tokenizer.Encode(MarkedText("a<|im_end|>b", MarkedText::kFromUser)))
    EXPECT_FALSE(token == end) << token;
}

INSTANTIATE_TEST_SUITE_P(Kinds, SentencePieceTest,
                         testing::Values("sp_t5", "sp_unigram_bytes", "sp_suffix", "sp_llama2", "sp_gemma", "sp_bpe"),
                         [](const testing::TestParamInfo<std::string>& kind) { return kind.param; });

std::string ModelBytes(const std::string& name) { return ReadTextFile(Folder(name) + "/tokenizer.model", 1 << 20); }

TEST(UnigramGgufTest, Tokenizer_EqualsSentencepiece_WhenTheModelIsInGguf) {
  for (const std::string name : {"sp_t5", "sp_unigram_bytes"}) {
    const SentencePieceModel model = ReadSentencePieceModel(ModelBytes(name), name);
    GgufFile gguf{{}, {}, "file.gguf"};
    std::vector<std::string> tokens;
    std::vector<double> scores;
    std::vector<int64_t> types, charsmap;
    for (const auto& [text, score, type] : model.pieces) {
      tokens.push_back(text);
      scores.push_back(score);
      types.push_back(static_cast<int64_t>(type));
    }
    for (const char byte : model.normalizer.charsmap) charsmap.push_back(byte);  // as int8 values
    gguf.metadata["tokenizer.ggml.model"] = std::string("t5");
    gguf.metadata["tokenizer.ggml.tokens"] = tokens;
    gguf.metadata["tokenizer.ggml.scores"] = scores;
    gguf.metadata["tokenizer.ggml.token_type"] = types;
    gguf.metadata["tokenizer.ggml.precompiled_charsmap"] = charsmap;
    gguf.metadata["tokenizer.ggml.add_space_prefix"] = true;
    gguf.metadata["tokenizer.ggml.remove_extra_whitespaces"] = model.normalizer.remove_extra_whitespaces;
    gguf.metadata["tokenizer.ggml.eos_token_id"] = int64_t{2};
    const Tokenizer tokenizer(TokenizerDataFromGguf(gguf));
    ExpectCases(tokenizer, name);
    EXPECT_EQ(tokenizer.EncodePrompt("", true), std::vector<TokenId>{2}) << "the end goes behind prompts";
  }
}

// Loads a tokenizer.model together with these texts of tokenizer_config.json and added_tokens.json.
TokenizerData DataWith(const std::string& name, const std::string& config, const std::string& added = "") {
  HfTokenizerFiles files;
  files.sentencepiece = ModelBytes(name);
  files.config_json = config;
  files.added_tokens = added;
  return TokenizerDataFromHf(files, "DIR");
}

TEST(SentencePieceConfigTest, TokensAroundPrompts_FollowTheTokenizerClassAndTheConfiguration) {
  const auto prompt = [](const std::string& config) {
    return Tokenizer(DataWith("sp_llama2", config)).EncodePrompt("", true);
  };
  EXPECT_EQ(prompt(""), std::vector<TokenId>{1});
  EXPECT_EQ(prompt(R"({"add_bos_token": false})"), std::vector<TokenId>{});
  EXPECT_EQ(prompt(R"({"add_eos_token": true})"), (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(prompt(R"({"tokenizer_class": "T5Tokenizer"})"), std::vector<TokenId>{2});
  const TokenizerData data = DataWith("sp_llama2", R"({"eos_token": "<|im_end|>", "chat_template": "x"})");
  EXPECT_EQ(data.bos_token, "<s>");
  EXPECT_EQ(data.eos_token, "<|im_end|>");
  EXPECT_EQ(data.chat_template, "x");
}

TEST(SentencePieceConfigTest, AddedTokens_AreFound_FromTheConfigurationAndAddedTokensJson) {
  const size_t size = ReadSentencePieceModel(ModelBytes("sp_gemma"), "").pieces.size();
  const std::string config = fmt::format(
      R"({{"added_tokens_decoder": {{"{}": {{"content": "<end>", "special": true}}, "{}": {{"content": "<t>"}}}},
          "additional_special_tokens": ["<x>"]}})",
      size, size + 1);
  const Tokenizer tokenizer(DataWith("sp_gemma", config, fmt::format(R"({{"<x>": {}, "<end>": {}}})", size + 2, size)));
  const auto end = static_cast<TokenId>(size);
  const auto encode = [&](const std::string& text, char mark) { return tokenizer.Encode(MarkedText(text, mark)); };
  EXPECT_EQ(encode("<end><t><x>", MarkedText::kTrusted), (std::vector<TokenId>{end, end + 1, end + 2}));
  EXPECT_THAT(encode("<end>", MarkedText::kFromUser), ::testing::Not(::testing::Contains(end)));
  EXPECT_EQ(encode("<t>", MarkedText::kFromUser), std::vector<TokenId>{end + 1});
  EXPECT_TRUE(tokenizer.IsSpecial(end + 2));
  EXPECT_FALSE(tokenizer.IsSpecial(end + 1));
}

TEST(SentencePieceConfigTest, Piece_IsNotFoundInUserText_WhenTheConfigurationCallsItSpecial) {
  const SentencePieceModel model = ReadSentencePieceModel(ModelBytes("sp_gemma"), "");
  const auto at = std::ranges::find(model.pieces, "<tool>", &SentencePieceModel::Piece::text) - model.pieces.begin();
  const auto encode = [&](const std::string& config, char mark) {
    return Tokenizer(DataWith("sp_gemma", config)).Encode(MarkedText("a<tool>b", mark));
  };
  const std::string special =
      fmt::format(R"({{"added_tokens_decoder": {{"{}": {{"content": "<tool>", "special": true}}}}}})", at);
  const auto has_it = ::testing::Contains(static_cast<TokenId>(at));
  EXPECT_THAT(encode("", MarkedText::kFromUser), has_it);
  EXPECT_THAT(encode(special, MarkedText::kFromUser), ::testing::Not(has_it));
  EXPECT_THAT(encode(special, MarkedText::kTrusted), has_it);
}

TEST(SentencePieceGrammarTest, Vocabulary_HoldsTextsOfPieces_ButNotOfControlTokens) {
  const Tokenizer tokenizer(TokenizerDataFromHf(Folder("sp_unigram_bytes")));
  const Vocabulary vocabulary = VocabularyOf(tokenizer, {2}, {});
  ASSERT_EQ(vocabulary.bytes.size(), static_cast<size_t>(tokenizer.vocab_size()));
  for (const TokenId control : {0, 1, 2}) EXPECT_THAT(vocabulary.bytes[static_cast<size_t>(control)], IsEmpty());
  const std::string text = "hello 漢\n";
  std::string spelled;
  for (const TokenId token : tokenizer.EncodePrompt(text, false))
    spelled += vocabulary.bytes[static_cast<size_t>(token)];
  EXPECT_EQ(spelled, " " + text);
}

// The functions below write files by hand, in Protocol Buffers' wire format.
std::string Varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
std::string Bytes(uint64_t number, const std::string& bytes) {
  return Varint(number << 3 | 2) + Varint(bytes.size()) + bytes;
}
std::string Integer(uint64_t number, uint64_t value) { return Varint(number << 3) + Varint(value); }
std::string Piece(const std::string& text, Type type, const std::string& score = std::string(4, '\0')) {
  return Bytes(1, Bytes(1, text) + Varint(2 << 3 | 5) + score + Integer(3, static_cast<uint64_t>(type)));
}

TEST(SentencePieceFileTest, BrokenFiles_AreRefused_WithThePlaceOfTheError) {
  const auto error = [](const std::string& bytes) {
    return ErrorThrownBy([&] {
      TokenizerData data;
      AddSentencePiece(ReadSentencePieceModel(bytes, "f.model"), "f.model", data);
      Tokenizer{data};
    });
  };
  const std::string unknown = Piece("<unk>", Type::kUnknown), a = Piece("a", Type::kNormal);
  EXPECT_EQ(error(unknown + a), "");
  EXPECT_THAT(error(""), HasSubstr("f.model: there are no pieces"));
  EXPECT_THAT(error(a), HasSubstr("no piece stands for what is not known"));
  EXPECT_THAT(error(a + "\x0a\x7f"),
              HasSubstr(fmt::format("f.model: at byte {}: field 1 says that it has 127 bytes", a.size())));
  EXPECT_THAT(error(a + "\x0a\xff"), HasSubstr("the file ends inside a number"));
  EXPECT_THAT(error(a + std::string(11, '\xff')), HasSubstr("more than ten bytes"));
  EXPECT_THAT(error(a + "\x0b"), HasSubstr("unknown wire type 3"));
  EXPECT_THAT(error(a + std::string(1, '\0')), HasSubstr("there is no field of that number"));
  EXPECT_THAT(error(Integer(1, 5)), HasSubstr("at byte 0: field 1 is of another type"));
  EXPECT_THAT(error(Bytes(1, Bytes(1, "a") + Bytes(2, "abcd"))), HasSubstr("at byte 5: field 2 is of another type"));
  EXPECT_THAT(error(Piece("", Type::kNormal)), HasSubstr("piece 0 is no text"));
  EXPECT_THAT(error(a + Piece("\xff", Type::kNormal)), HasSubstr("piece 1 is no text"));
  EXPECT_THAT(error(Piece("a", Type::kNormal, std::string("\0\0\x80\x7f", 4))), HasSubstr("piece 0 has the score inf"));
  EXPECT_THAT(error(Piece("a", static_cast<Type>(7))), HasSubstr("piece 0 is of the unknown type 7"));
  EXPECT_THAT(error(unknown + a + Bytes(2, Integer(3, 3))), HasSubstr("model_type 3 is not supported"));
  EXPECT_THAT(error(unknown + a + Bytes(5, Bytes(2, "x"))), HasSubstr("denormalizer_spec is not supported"));
  EXPECT_THAT(error(unknown + a + Bytes(3, Bytes(2, "x"))), HasSubstr("precompiled_charsmap of 1 bytes"));
  const std::string bpe = Bytes(2, Integer(3, 2)), b = Piece("b", Type::kNormal);
  EXPECT_THAT(error(unknown + a + b + Piece("ab", Type::kUnused) + bpe), HasSubstr("unused piece \"ab\" can be put"));
  EXPECT_EQ(error(unknown + a + b + Piece("abc", Type::kUnused) + bpe), "");
  EXPECT_THAT(error(unknown + a + bpe + Bytes(2, Integer(35, 1))), HasSubstr("there is no token <0x00>"));
}

TEST(SentencePieceFileTest, TruncatedFile_YieldsAnErrorOrAModel) {
  const std::string whole = ModelBytes("sp_t5");
  for (size_t size = 0; size < whole.size(); size += 7) {
    EXPECT_THAT(ErrorThrownBy([&] { ReadSentencePieceModel(whole.substr(0, size), "f.model"); }),
                testing::AnyOf("", HasSubstr("f.model")))
        << size;
  }
}

TEST(HfDirectoryTest, Directory_IsRefused_WithoutATokenizer) {
  EXPECT_THAT(ErrorThrownBy([] { TokenizerDataFromHf(HfTokenizerFiles(), "DIR"); }),
              HasSubstr("DIR: there is neither tokenizer.json nor tokenizer.model"));
}

TEST(TokenizerJsonTest, UnsupportedParts_AreRefused_WithTheirName) {
  const Json whole = Json::parse(R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1]]},
      "normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "Metaspace"}, "decoder": {"type": "Metaspace"}})");
  const auto error = [&](const char* part, const std::string& value) {
    Json json = whole;
    json[Json::json_pointer(part)] = Json::parse(value);
    HfTokenizerFiles files;
    files.tokenizer_json = DumpJson(json);
    return ErrorThrownBy([&] { Tokenizer{TokenizerDataFromHf(files, "DIR")}; });
  };
  EXPECT_EQ(error("/model/unk_id", "0"), "");
  EXPECT_THAT(error("/model/unk_id", "null"), HasSubstr("DIR/tokenizer.json: a Unigram model without unk_id"));
  EXPECT_THAT(error("/model/type", R"("WordLevel")"), HasSubstr("model type WordLevel is not supported"));
  EXPECT_THAT(error("/model/byte_fallback", "true"), HasSubstr("the decoder does not say what <0x0A> is"));
  EXPECT_THAT(error("/normalizer", R"({"type": "ByteLevel"})"), HasSubstr("normalizer ByteLevel is not"));
  EXPECT_THAT(error("/normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "?"})"), HasSubstr("no base64"));
  EXPECT_THAT(error("/pre_tokenizer", R"({"type": "FixedLength"})"), HasSubstr("pre-tokenizer FixedLength is not"));
  EXPECT_THAT(error("/pre_tokenizer", R"({"type": "Punctuation", "behavior": "Odd"})"), HasSubstr("behavior Odd"));
  EXPECT_THAT(error("/pre_tokenizer", R"({"type": "ByteLevel"})"), HasSubstr("such a model over bytes"));
  EXPECT_THAT(error("/pre_tokenizer", R"({"type": "Metaspace", "replacement": "_"})"), HasSubstr("in the place of"));
  EXPECT_THAT(error("/pre_tokenizer", R"({"type": "Metaspace", "prepend_scheme": "first"})"),
              HasSubstr("first behind"));
  EXPECT_THAT(error("/decoder", R"({"type": "WordPiece"})"), HasSubstr("decoder WordPiece is not supported"));
  EXPECT_THAT(error("/decoder", R"({"type": "Fuse"})"), HasSubstr("does not say what \u2581 is"));
}

TEST(CharsmapTest, BrokenTables_AreRefusedOrHaveNoEntries) {
  EXPECT_THAT(ErrorThrownBy([] { Charsmap(std::string("\x08\0\0\0abcd", 8)); }),
              HasSubstr("says that its array has 8"));
  EXPECT_THAT(ErrorThrownBy([] { Charsmap(std::string("\x04\0\0\0abcdx", 9)); }), HasSubstr("does not end"));
  EXPECT_THAT(ErrorThrownBy([] { Charsmap(std::string("\x04\0\0\0abcd\xff\0", 10)); }), HasSubstr("not valid UTF-8"));
  const Charsmap astray(std::string("\x04\0\0\0\xff\xff\xff\x7f\0", 9));  // the root refers to an offset far outside
  EXPECT_EQ(astray.Longest("abc").length, 0u);
  const SentencePieceModel model = ReadSentencePieceModel(ModelBytes("sp_t5"), "");
  const Charsmap charsmap(model.normalizer.charsmap);
  EXPECT_EQ(charsmap.Longest("ﬁx").text, "fi");
  EXPECT_EQ(charsmap.Longest("e\u0301").length, 3u);
  EXPECT_EQ(charsmap.Longest("plain").length, 0u);
  EXPECT_EQ(charsmap.Shortest(std::string("\0a", 2)).length, 0u);
}

}  // namespace
}  // namespace quire
