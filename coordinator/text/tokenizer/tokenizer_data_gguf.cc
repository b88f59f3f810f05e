#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "comm/base/error.h"
#include "comm/model/formats/gguf.h"
#include "comm/model/model_files.h"
#include "coordinator/text/tokenizer/sentencepiece_model.h"
#include "coordinator/text/tokenizer/tokenizer_data.h"
#include "coordinator/text/tokenizer/word_piece_files.h"

namespace quire {

namespace {

// GGUF's token types equal SentencePiece's.
using Type = SentencePieceModel::Type;

/// A pre-tokenizer of GGUF files: the names that llama.cpp's converter gives it, and the patterns in the tokenizer.json
/// files of the models that use it.
struct NamedCuts {
  std::vector<std::string_view> names;
  std::vector<std::string> patterns;
  bool nfc = false;
  bool whole_words_first = false;
  bool begins = false;  // llama.cpp adds the BOS token unless the file says otherwise
};

constexpr const char* kQwen35Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kSeedPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
/// A pattern for a run of letters of scripts with upper and lower case, and for an optional whitespace character before
/// the run, as in the tokenizer of the first DeepSeek models.
constexpr const char* kDeepseekLetters =
    R"(\s?[)"
    R"(A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}\x{295}-\x{2af})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1})"
    R"(\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5})"
    R"(\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77})"
    R"(\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d})"
    R"(\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe})"
    R"(\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4})"
    R"(\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124}\x{2126}\x{2128})"
    R"(\x{212a}-\x{212d}\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184})"
    R"(\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d})"
    R"(\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787}\x{a78b}-\x{a78e}\x{ab70}-\x{abbf})"
    R"(\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f})"
    R"(\x{104b0}-\x{104d3}\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df})"
    R"(\x{1e900}-\x{1e943})"
    R"(]+)";
constexpr const char *kDeepseekSigns =
                         R"(\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+)",
                     *kDeepseekAsian = R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)",
                     *kDeepseekV3Asian = R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)",
                     *kDeepseekV3Pattern =
                         R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
                         R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kEnglishEnds = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";

/// Returns a pattern that cuts words where an upper-case letter follows a lower-case one, as o200k and Tekken do.
/// `ends`: the pattern of endings of English words. `digits`: the quantifier for digits, such as {1,3}.
std::string WordsByCase(const char* ends, const char* digits) {
  constexpr const char *kUpper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])", *kLower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";
  return fmt::format(R"([^\r\n\p{{L}}\p{{N}}]?{0}*{1}+{2}|[^\r\n\p{{L}}\p{{N}}]?{0}+{1}*{2}|\p{{N}}{3})"
                     R"(| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                     kUpper, kLower, ends, digits);
}

/// Returns a pattern like WordsByCase, in which runs of Chinese characters (those with the property Script=Han) form
/// pieces.
std::string KimiWords() {
  const std::string upper = R"((?:(?!\p{sc:Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]))",
                    lower = R"((?:(?!\p{sc:Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}]))";
  return fmt::format(R"(\p{{sc:Han}}+|[^\r\n\p{{L}}\p{{N}}]?{0}*{1}+{2}|[^\r\n\p{{L}}\p{{N}}]?{0}+{1}*{2})"
                     R"(|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                     upper, lower, kEnglishEnds);
}

const std::vector<NamedCuts>& PreTokenizers() {
  static const std::string kDigit = R"(\p{N})";
  static const std::vector<NamedCuts> kAll = {
      {{"gpt-2", "default", "phi-2", "jais", "exaone4"}, {kGpt2Pattern}},
      {{"mpt", "olmo"}, {kGpt2Pattern}, true},  // GPT-NeoX's tokenizer
      {{"smollm", "starcoder", "refact", "codeshell"}, {kDigit, kGpt2Pattern}},
      {{"command-r"}, {kDigit, kGpt2Pattern}, true},
      {{"falcon"}, {R"([\p{P}$+<=>^`|~]+)", kGpt2Pattern, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2"},
       {kLlama3Pattern},
       false,
       true,
       true},
      {{"dbrx", "smaug-bpe", "chatglm-bpe", "glm4"}, {kLlama3Pattern}},
      {{"qwen2"}, {kQwen2Pattern}, true},
      {{"deepseek-r1-qwen", "hunyuan"}, {kQwen2Pattern}},
      {{"seed-coder"}, {kSeedPattern}},
      {{"qwen35"}, {kQwen35Pattern}, true},
      {{"deepseek-llm"}, {"[\\r\\n]", kDeepseekLetters, kDeepseekSigns, R"(\s+$)", kDeepseekAsian, kDigit}},
      {{"deepseek-coder"}, {"[\\r\\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepseekAsian, kDigit}},
      {{"deepseek-v3", "hunyuan-dense"}, {R"(\p{N}{1,3})", kDeepseekV3Asian, kDeepseekV3Pattern}},
      {{"kimi-k2"}, {KimiWords()}},
      {{"gpt-4o", "llama4", "minimax-m2"}, {WordsByCase(kEnglishEnds, "{1,3}")}},
      {{"tekken"}, {WordsByCase("", "")}, false, true, true},
      {{"bloom"}, {" ?[^(\\s|.,!?…。，、।۔،)]+"}},
  };
  return kAll;
}

/// Sets the pre-tokenizer with this name. Returns the default for files that do not say whether texts begin with BOS.
bool SetPreTokenizer(const std::string& name, const std::string& path, TokenizerData& data) {
  std::string known;
  for (const NamedCuts& pre : PreTokenizers()) {
    if (std::ranges::find(pre.names, name) != pre.names.end()) {
      if (pre.nfc) data.normalizer.emplace_back(UnicodeForm::kNfc);
      for (const std::string& pattern : pre.patterns) data.pre_tokenizer.emplace_back(pre_tokenize::Split{pattern});
      data.whole_words_first = pre.whole_words_first;
      return pre.begins;
    }
    for (const std::string_view other : pre.names) known += fmt::format("{}{}", known.empty() ? "" : ", ", other);
  }
  Fail("{}: pre-tokenizer \"{}\" is not supported; supported: {}", path, name, known);
}

std::string TokenText(const GgufFile& gguf, const TokenizerData& data, const char* key) {
  const int64_t* id = gguf.Find<int64_t>(key);
  if (id == nullptr || *id < 0 || *id >= static_cast<int64_t>(data.tokens.size())) return "";
  return data.tokens[static_cast<size_t>(*id)];
}

/// Returns the values of `key`, one for each token; null when the file lacks the key. Throws Error for another number
/// of values.
template <class Number>
const std::vector<Number>* PerToken(const GgufFile& gguf, const char* key, const TokenizerData& data) {
  const auto* numbers = gguf.Find<std::vector<Number>>(key);
  if (numbers != nullptr && numbers->size() != data.tokens.size())
    Fail("{}: {} has {} entries for {} tokens", gguf.path, key, numbers->size(), data.tokens.size());
  return numbers;
}

void ReadMerges(const GgufFile& gguf, TokenizerData& data) {
  for (const std::string& merge : gguf.Get<std::vector<std::string>>("tokenizer.ggml.merges")) {
    const size_t space = merge.find(' ', 1);
    if (space == std::string::npos) Fail("{}: merge \"{}\" is not a pair", gguf.path, merge.substr(0, 100));
    const auto rank = static_cast<int>(data.merges.size());
    data.merges.push_back({merge.substr(0, space), merge.substr(space + 1), rank});
  }
}

/// Reads a byte-level vocabulary. Returns the default for files that do not say whether texts begin with BOS.
bool ReadByteLevel(const GgufFile& gguf, TokenizerData& data) {
  const auto* pre = gguf.Find<std::string>("tokenizer.ggml.pre");
  const bool begins = SetPreTokenizer(pre != nullptr ? *pre : "gpt-2", gguf.path, data);
  ReadMerges(gguf, data);
  return begins;
}

/// Makes the tokenizer write spaces as marks. As in llama.cpp, every text between control tokens begins with a mark,
/// unless the file says otherwise.
void SetMetaspace(const GgufFile& gguf, TokenizerData& data) {
  const bool* front = gguf.Find<bool>("tokenizer.ggml.add_space_prefix");
  Metaspace& metaspace = data.metaspace.emplace();
  if (front == nullptr || *front) {
    metaspace.front = Metaspace::Front::kSpaceDropped;
    data.normalizer.emplace_back(normalize::Prepend{std::string(Metaspace::kMark)});
  }
  data.normalizer.emplace_back(normalize::Replace{" ", false, std::string(Metaspace::kMark)});
}

Type TypeOf(int64_t type, const std::string& path) {
  if (type == 0) return Type::kUnused;  // undefined in GGUF
  if (type < 1 || type > 6) Fail("{}: the token type {} is unknown", path, type);
  return static_cast<Type>(type);
}

/// Returns the vocabulary as SentencePiece pieces. Throws Error when a token has no finite score.
std::vector<SentencePieceModel::Piece> ReadPieces(const GgufFile& gguf, const TokenizerData& data) {
  const auto* scores = PerToken<double>(gguf, "tokenizer.ggml.scores", data);
  if (scores == nullptr) Fail("{}: there are no tokenizer.ggml.scores", gguf.path);
  const auto* types = PerToken<int64_t>(gguf, "tokenizer.ggml.token_type", data);
  std::vector<SentencePieceModel::Piece> pieces;
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    if (!std::isfinite((*scores)[id])) Fail("{}: token {} has the score {}", gguf.path, id, (*scores)[id]);
    pieces.push_back({data.tokens[id], static_cast<float>((*scores)[id]),
                      types != nullptr ? TypeOf((*types)[id], gguf.path) : Type::kNormal});
  }
  return pieces;
}

/// Reads a vocabulary of SentencePiece's BPE, which has scores instead of a list of merges.
void ReadScores(const GgufFile& gguf, TokenizerData& data) {
  SetMetaspace(gguf, data);
  data.merges = MergesByScore(ReadPieces(gguf, data));
}

void ReadUnigram(const GgufFile& gguf, TokenizerData& data) {
  SentencePieceModel model;
  model.pieces = ReadPieces(gguf, data);
  const auto is_byte = [](const SentencePieceModel::Piece& piece) { return piece.type == Type::kByte; };
  model.byte_fallback = std::ranges::any_of(model.pieces, is_byte);
  const auto flag = [&](const char* key) {
    const bool* value = gguf.Find<bool>(key);
    return value != nullptr && *value;
  };
  model.normalizer.add_dummy_prefix = flag("tokenizer.ggml.add_space_prefix");
  model.normalizer.remove_extra_whitespaces = flag("tokenizer.ggml.remove_extra_whitespaces");
  if (const auto* bytes = gguf.Find<std::vector<int64_t>>("tokenizer.ggml.precompiled_charsmap")) {
    for (const int64_t byte : *bytes) model.normalizer.charsmap += static_cast<char>(byte);
  }
  data.tokens.clear();
  AddSentencePiece(model, gguf.path, data);
}

}  // namespace

TokenizerData TokenizerDataFromGguf(const GgufFile& gguf) {
  const auto& model = gguf.Get<std::string>("tokenizer.ggml.model");
  if (model != "gpt2" && model != "llama" && model != "gemma4" && model != "t5" && model != "bert") {
    Fail(
        "{}: tokenizer \"{}\" is not supported; supported: gpt2 (byte-level BPE), llama (SentencePiece's BPE), gemma4 "
        "(the same with a list of merges), t5 (SentencePiece's Unigram), bert (WordPiece)",
        gguf.path, model);
  }
  TokenizerData data;
  data.tokens = gguf.Get<std::vector<std::string>>("tokenizer.ggml.tokens");
  // If the file does not say whether texts get a BOS or EOS token, llama.cpp's defaults hold.
  bool begins = model == "llama" || model == "gemma4", ends = model == "t5";
  if (model == "gpt2") {
    begins = ReadByteLevel(gguf, data);
  } else if (model == "gemma4") {
    SetMetaspace(gguf, data);
    ReadMerges(gguf, data);
  } else if (model == "bert") {
    ReadWordPieceGguf(gguf, data);
  } else if (model == "llama") {
    ReadScores(gguf, data);
  } else {
    ReadUnigram(gguf, data);
  }
  const auto* types = PerToken<int64_t>(gguf, "tokenizer.ggml.token_type", data);
  for (size_t id = 0; types != nullptr && model != "t5" && id < types->size(); ++id) {
    const Type type = TypeOf((*types)[id], gguf.path);
    if (type != Type::kControl && type != Type::kUserDefined) continue;
    data.added.push_back({.id = static_cast<TokenId>(id), .text = data.tokens[id], .special = type == Type::kControl});
  }
  if (const bool* add_bos = gguf.Find<bool>("tokenizer.ggml.add_bos_token")) begins = *add_bos;
  const int64_t* bos = gguf.Find<int64_t>("tokenizer.ggml.bos_token_id");
  if (begins && bos != nullptr && *bos >= 0 && *bos < INT32_MAX) data.prefix = {static_cast<TokenId>(*bos)};
  const bool* add_eos = gguf.Find<bool>("tokenizer.ggml.add_eos_token");
  const int64_t* eos = gguf.Find<int64_t>("tokenizer.ggml.eos_token_id");
  if (add_eos != nullptr) ends = *add_eos;
  if (ends && eos != nullptr && *eos >= 0 && *eos < INT32_MAX) data.suffix = {static_cast<TokenId>(*eos)};
  data.bos_token = TokenText(gguf, data, "tokenizer.ggml.bos_token_id");
  data.eos_token = TokenText(gguf, data, "tokenizer.ggml.eos_token_id");
  data.pad_token = TokenText(gguf, data, "tokenizer.ggml.padding_token_id");
  const auto template_named = [&](const char* key) {
    const auto* text = gguf.Find<std::string>(key);
    return text == nullptr ? "" : *text;
  };
  data.chat_template =
      JoinedTemplates(template_named("tokenizer.chat_template"), template_named("tokenizer.chat_template.tool_use"));
  return data;
}

std::string JoinedTemplates(const std::string& plain, const std::string& with_tools) {
  if (plain.empty() || with_tools.empty() || plain == with_tools) return plain.empty() ? with_tools : plain;
  // Jinja drops the line break at the end of a template, and whitespace next to statements. An empty expression at both
  // ends of each template preserves its other whitespace.
  const auto whole = [](const std::string& text) {
    return "{{ '' }}" + text.substr(0, text.size() - (text.ends_with('\n') ? 1 : 0)) + "{{ '' }}";
  };
  return "{% if tools or messages | selectattr('tool_calls') | list %}" + whole(with_tools) + "{% else %}" +
         whole(plain) + "{% endif %}";
}

TokenizerData TokenizerDataOf(const ModelFiles& model) {
  return model.gguf() != nullptr ? TokenizerDataFromGguf(*model.gguf()) : TokenizerDataFromHf(model.path());
}

}  // namespace quire
