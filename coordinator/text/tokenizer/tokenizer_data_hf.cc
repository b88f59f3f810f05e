#include <filesystem>
#include <limits>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/model_tree.h"
#include "coordinator/text/tokenizer/sentencepiece_model.h"
#include "coordinator/text/tokenizer/tokenizer_data.h"
#include "coordinator/text/tokenizer/tokenizer_json_steps.h"
#include "coordinator/text/tokenizer/tokenizer_json_tokens.h"
#include "coordinator/text/tokenizer/word_piece_files.h"

namespace quire {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxBytes = 64 << 20;
constexpr size_t kMaxTemplateBytes = 1 << 20;
constexpr JsonLimits kLimits = {.max_depth = 64, .max_nodes = 8'000'000};

void ReadMerges(const Json& model, const std::string& path, TokenizerData& data) {
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json& value = Part(model, key);
    if (!value.is_null() && value != "" && value != 0) Fail("{}: {} is not supported", path, key);
  }
  data.whole_words_first = model.value("ignore_merges", false);
  data.tokens.resize(std::min(model.at("vocab").size(), size_t{kMaxTokens}));  // texts come in any order
  for (const auto& [text, id] : model.at("vocab").items()) PutToken(data, ReadTokenId(id, path), text, path);
  for (const Json& merge : model.at("merges")) {
    const auto rank = static_cast<int>(data.merges.size());
    if (merge.is_array() && merge.size() == 2) {
      data.merges.push_back({merge[0].get<std::string>(), merge[1].get<std::string>(), rank});
      continue;
    }
    const auto text = merge.get<std::string>();
    const size_t space = text.find(' ', 1);
    if (space == std::string::npos) Fail("{}: merge \"{}\" is not a pair", path, text.substr(0, 100));
    data.merges.push_back({text.substr(0, space), text.substr(space + 1), rank});
  }
}

void ReadUnigram(const Json& model, const std::string& path, TokenizerData& data) {
  constexpr double kUnknownPenalty = 10;  // an unknown character scores this much less than the unlikeliest piece
  const Json& unknown = Part(model, "unk_id");
  if (unknown.is_null()) Fail("{}: a Unigram model without unk_id is not supported", path);
  UnigramModel& unigram = data.unigram.emplace();
  unigram.unknown = ReadTokenId(unknown, path);
  unigram.byte_fallback = Part(model, "byte_fallback") == true;
  double lowest = std::numeric_limits<double>::infinity();
  for (const Json& piece : model.at("vocab")) {
    if (!piece.is_array() || piece.size() != 2) Fail("{}: a piece of the vocabulary is no text with a score", path);
    const auto token = ReadTokenId(data.tokens.size(), path);
    data.tokens.push_back(piece[0].get<std::string>());
    unigram.pieces.push_back({token, piece[1].get<double>()});
    lowest = std::min(lowest, unigram.pieces.back().score);
  }
  if (unigram.pieces.empty()) Fail("{}: the vocabulary is empty", path);
  unigram.unknown_score = lowest - kUnknownPenalty;
}

void ReadModel(const Json& model, const std::string& path, TokenizerData& data) {
  const std::string type = model.value("type", "BPE");
  if (type == "BPE") {
    ReadMerges(model, path, data);
  } else if (type == "Unigram") {
    ReadUnigram(model, path, data);
  } else if (type == "WordPiece") {
    ReadWordPiece(model, path, data);
  } else {
    Fail("{}: model type {} is not supported; supported: BPE, Unigram, WordPiece", path, type);
  }
}

/// Reads the tokens that the post-processor puts around a single text, and around two texts that are read together.
void ReadPostProcessor(const Json& node, const std::string& path, TokenizerData& data) {
  const std::string type = TypeOf(node);
  if (type == "Sequence") {
    for (const Json& part : node.at("processors")) ReadPostProcessor(part, path, data);
  } else if (type == "TemplateProcessing") {
    bool before = true;
    for (const Json& part : node.at("single")) {
      if (part.contains("Sequence")) {
        before = false;
        continue;
      }
      const auto name = part.at("SpecialToken").at("id").get<std::string>();
      for (const Json& id : node.at("special_tokens").at(name).at("ids"))
        (before ? data.prefix : data.suffix).push_back(ReadTokenId(id, path));
    }
    data.pair = ReadPairFrame(node, path);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    const TokenId cls = ReadTokenId(node.at("cls").at(1), path), sep = ReadTokenId(node.at("sep").at(1), path);
    data.prefix.push_back(cls);
    data.suffix.push_back(sep);
    const bool is_bert = type == "BertProcessing";
    data.pair = PairFrame{{cls}, std::vector<TokenId>(is_bert ? 1 : 2, sep), {sep}, is_bert};
  } else if (!node.is_null() && type != "ByteLevel") {
    Fail("{}: post-processor {} is not supported", path, type);
  }
}

/// Reads how the tokenizer encodes characters that the vocabulary lacks.
void ReadUnknown(const Json& model, const std::string& path, TokenizerData& data) {
  if (Part(model, "byte_fallback") == true) {
    if (!data.metaspace->has_bytes) Fail("{}: the decoder does not say what <0x0A> is", path);
    return;
  }
  if (data.unigram) return;
  const Json& unknown = Part(model, "unk_token");
  if (!unknown.is_string())
    Fail("{}: a vocabulary of text with neither byte_fallback nor unk_token is not supported", path);
  data.unknown = ReadTokenId(model.at("vocab").at(unknown.get<std::string>()), path);
  data.fuses_unknown = Part(model, "fuse_unk") == true;
}

void ReadAddedTokens(const Json& list, const std::string& path, TokenizerData& data) {
  for (const Json& token : list) {
    AddedToken added = ReadAddedToken(token, ReadTokenId(token.at("id"), path), path);
    PutToken(data, added.id, added.text, path);
    data.added.push_back(std::move(added));
  }
}

/// Throws Error for pre-tokenizers that put a mark only before the first piece, if there are normalizers. Hugging
/// Face's tokenizers find the first piece by positions in the original text, which a normalizer may have changed.
void RefuseUnsureBeginnings(const std::string& path, const TokenizerData& data) {
  for (const PreTokenizerStep& step : data.pre_tokenizer) {
    const auto* marks = std::get_if<pre_tokenize::Marks>(&step);
    if (marks != nullptr && marks->front == pre_tokenize::Marks::Front::kFirst && !data.normalizer.empty())
      Fail("{}: prepend_scheme first behind normalizers is not supported", path);
  }
}

void ReadTokenizerJson(const Json& json, const std::string& path, TokenizerData& data) {
  ReadModel(json.at("model"), path, data);
  ReadAddedTokens(Part(json, "added_tokens"), path, data);
  ReadNormalizer(Part(json, "normalizer"), path, data.normalizer);
  PreTokenizerSteps pre = ReadPreTokenizer(Part(json, "pre_tokenizer"), path);
  data.pre_tokenizer = std::move(pre.steps);
  RefuseUnsureBeginnings(path, data);
  ReadPostProcessor(Part(json, "post_processor"), path, data);
  if (pre.byte_level) {
    if (data.unigram || data.word_piece) Fail("{}: such a model over bytes is not supported", path);
    if (Part(json.at("model"), "byte_fallback") == true) Fail("{}: byte_fallback over bytes is not supported", path);
    return CheckByteLevelDecoder(Part(json, "decoder"), path);
  }
  if (data.word_piece) return;
  data.metaspace = ReadTextDecoder(Part(json, "decoder"), path);
  ReadUnknown(json.at("model"), path, data);
}

/// Returns the chat template in the configuration, which gives a text or a list of named templates; empty: none.
std::string ChatTemplateOf(const Json& config) {
  if (!config.contains("chat_template")) return "";
  const Json& text = config["chat_template"];
  if (text.is_string()) return text.get<std::string>();
  std::string plain, with_tools;
  for (const Json& named : text.is_array() ? text : Json::array()) {
    if (!named.is_object()) continue;
    const std::string name = named.value("name", "");
    if (name == "default") plain = named.value("template", "");
    if (name == "tool_use") with_tools = named.value("template", "");
  }
  return JoinedTemplates(plain, with_tools);
}

void ReadTokenizerConfig(const Json& config, TokenizerData& data) {
  for (const auto& [key, token] :
       {std::pair{"bos_token", &data.bos_token}, {"eos_token", &data.eos_token}, {"pad_token", &data.pad_token}}) {
    if (config.contains(key)) *token = TokenText(config, key);
  }
  data.chat_template = ChatTemplateOf(config);
}

std::string TextIfThere(const ModelTree& tree, const char* name, size_t max_bytes) {
  return tree.Has(name) ? tree.ReadText(name, max_bytes) : "";
}

}  // namespace

TokenizerData TokenizerDataFromHf(const HfTokenizerFiles& files, const std::string& directory) {
  const auto path = [&](const char* name) { return (fs::path(directory) / name).string(); };
  TokenizerData data;
  std::string name = path("tokenizer_config.json");
  try {
    const Json config = files.config_json.empty() ? Json::object() : ParseJson(files.config_json, name, kLimits);
    if (!files.tokenizer_json.empty()) {
      name = path("tokenizer.json");
      ReadTokenizerJson(ParseJson(files.tokenizer_json, name, kLimits), name, data);
    } else if (!files.sentencepiece.empty()) {
      SentencePieceModel model = ReadSentencePieceModel(files.sentencepiece, path("tokenizer.model"));
      Json added;
      if (!files.added_tokens.empty()) {
        name = path("added_tokens.json");
        added = ParseJson(files.added_tokens, name, kLimits);
      }
      name = path("tokenizer_config.json");
      ReadSentencePieceTokenizer(std::move(model), config, added, directory, data);
    } else if (!files.vocab_txt.empty()) {
      ReadVocabTxt(files.vocab_txt, config, path("vocab.txt"), data);
    } else {
      Fail("{}: there is neither tokenizer.json nor tokenizer.model nor vocab.txt", directory);
    }
    name = path("tokenizer_config.json");
    ReadTokenizerConfig(config, data);
  } catch (const Json::exception& error) {
    Fail("{}: {}", name, error.what());
  }
  if (!files.chat_template.empty()) data.chat_template = files.chat_template;
  return data;
}

TokenizerData TokenizerDataFromHf(const std::string& directory) {
  const ModelTree tree(directory);
  HfTokenizerFiles files;
  files.tokenizer_json = TextIfThere(tree, "tokenizer.json", kMaxBytes);
  files.config_json = TextIfThere(tree, "tokenizer_config.json", kMaxBytes);
  files.chat_template = TextIfThere(tree, "chat_template.jinja", kMaxTemplateBytes);
  if (files.tokenizer_json.empty()) {
    files.sentencepiece = TextIfThere(tree, "tokenizer.model", kMaxBytes);
    files.added_tokens = TextIfThere(tree, "added_tokens.json", kMaxBytes);
    files.vocab_txt = TextIfThere(tree, "vocab.txt", kMaxBytes);
  }
  return TokenizerDataFromHf(files, directory);
}

}  // namespace quire
