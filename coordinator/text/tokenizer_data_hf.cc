#include <filesystem>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/model_tree.h"
#include "coordinator/text/splitter.h"
#include "coordinator/text/tokenizer_data.h"

namespace quire {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxBytes = 64 << 20;
constexpr size_t kMaxTemplateBytes = 1 << 20;
constexpr JsonLimits kLimits = {.max_depth = 64, .max_nodes = 8'000'000};
constexpr int64_t kMaxTokens = 1 << 24;
constexpr int64_t kMaxGap = 4096;  // ids without a token in between

const Json& Part(const Json& json, const char* key) {
  static const Json kNull;
  return json.contains(key) ? json[key] : kNull;
}

std::string TypeOf(const Json& node) { return node.is_object() ? node.value("type", "") : ""; }

/// The "content" of a token given as text or as an object.
std::string TokenText(const Json& config, const char* key) {
  if (!config.contains(key)) return "";
  const Json& token = config[key];
  if (token.is_string()) return token.get<std::string>();
  return token.is_object() ? token.value("content", "") : "";
}

TokenId ReadTokenId(const Json& id, const std::string& path) {
  if (!id.is_number_integer() || id < 0 || id >= kMaxTokens) Fail("{}: {} is no token id", path, DumpJson(id));
  return id.get<TokenId>();
}

void PutToken(TokenizerData& data, TokenId id, const std::string& text, const std::string& path) {
  if (id > static_cast<int64_t>(data.tokens.size()) + kMaxGap) Fail("{}: token id {} is out of range", path, id);
  if (static_cast<size_t>(id) >= data.tokens.size()) data.tokens.resize(static_cast<size_t>(id) + 1);
  data.tokens[static_cast<size_t>(id)] = text;
}

void ReadModel(const Json& model, const std::string& path, TokenizerData& data) {
  const std::string type = model.value("type", "BPE");
  if (type != "BPE") Fail("{}: model type {} is not supported; supported: BPE", path, type);
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json& value = Part(model, key);
    if (!value.is_null() && value != "" && value != 0) Fail("{}: {} is not supported", path, key);
  }
  data.whole_words_first = model.value("ignore_merges", false);
  data.tokens.resize(std::min(model.at("vocab").size(), static_cast<size_t>(kMaxTokens)));  // texts come in any order
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

/// SentencePiece's manner shows in what spaces become: by the normalizer, or by a pre-tokenizer of that name.
Metaspace& MarksOf(TokenizerData& data) { return data.metaspace ? *data.metaspace : data.metaspace.emplace(); }

void CheckIsMark(const Json& text, const std::string& path) {
  if (text != Metaspace::kMark) Fail("{}: {} in the place of spaces is not supported", path, DumpJson(text));
}

void ReadMetaspace(const Json& node, const std::string& path, TokenizerData& data) {
  using Front = Metaspace::Front;
  CheckIsMark(node.value("replacement", std::string(Metaspace::kMark)), path);
  if (data.metaspace) Fail("{}: spaces are replaced twice", path);
  Metaspace& marks = MarksOf(data);
  marks.normalizes = false;
  marks.every_mark_cuts = node.value("split", true);
  const std::string scheme = node.value("prepend_scheme", node.value("add_prefix_space", true) ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    Fail("{}: prepend_scheme {} is not supported", path, scheme);
  marks.front = scheme == "always" ? Front::kPiece : scheme == "first" ? Front::kText : Front::kNone;
}

void ReadPreTokenizer(const Json& node, const std::string& path, TokenizerData& data) {
  const std::string type = TypeOf(node);
  if (type == "Sequence") {
    for (const Json& part : node.at("pretokenizers")) ReadPreTokenizer(part, path, data);
  } else if (type == "Digits") {
    data.split_patterns.emplace_back(node.value("individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)");
  } else if (type == "ByteLevel") {
    if (node.value("use_regex", true)) data.split_patterns.emplace_back(kGpt2Pattern);
    data.add_prefix_space = data.add_prefix_space || node.value("add_prefix_space", true);
  } else if (type == "Metaspace") {
    ReadMetaspace(node, path, data);
  } else if (type == "Split") {
    const Json& pattern = node.at("pattern");
    const bool cuts_nothing = data.metaspace && pattern.value("String", "") == " ";  // there are none any more
    if (cuts_nothing) return;
    if (node.value("behavior", "") != "Isolated" || node.value("invert", false) || !pattern.contains("Regex")) {
      Fail("{}: this kind of Split pre-tokenizer is not supported", path);
    }
    data.split_patterns.push_back(pattern["Regex"].get<std::string>());
  } else if (!node.is_null() || !data.metaspace) {
    Fail("{}: pre-tokenizer {} is not supported", path, type.empty() ? "null" : type);
  }
}

void ReadNormalizer(const Json& node, const std::string& path, TokenizerData& data) {
  const std::string type = TypeOf(node);
  if (type == "Sequence") {
    for (const Json& part : node.at("normalizers")) ReadNormalizer(part, path, data);
  } else if (type == "NFC") {
    if (data.metaspace) Fail("{}: NFC after other normalizers is not supported", path);
    data.nfc = true;
  } else if (type == "Prepend") {
    CheckIsMark(node.at("prepend"), path);
    MarksOf(data).front = Metaspace::Front::kAlways;
  } else if (type == "Replace") {
    if (node.at("pattern").value("String", "") != " ")
      Fail("{}: this kind of Replace normalizer is not supported", path);
    CheckIsMark(node.at("content"), path);
    MarksOf(data);
  } else if (!node.is_null()) {
    Fail("{}: normalizer {} is not supported; supported: NFC, Prepend, Replace", path, type);
  }
}

/// Tokens that the template puts before and after a single sequence.
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
  } else if (!node.is_null() && type != "ByteLevel") {
    Fail("{}: post-processor {} is not supported", path, type);
  }
}

/// How text is put together again from tokens with marks.
struct Decoder {
  bool reads_marks = false, reads_bytes = false, drops_first_space = false;
};

void ReadDecoder(const Json& node, const std::string& path, Decoder& decoder) {
  const std::string type = TypeOf(node);
  if (type == "Sequence") {
    for (const Json& part : node.at("decoders")) ReadDecoder(part, path, decoder);
  } else if (type == "Replace" && node.at("pattern").value("String", "") == Metaspace::kMark &&
             node.at("content") == " ") {
    decoder.reads_marks = true;
  } else if (type == "Metaspace") {
    decoder.reads_marks = true;
    decoder.drops_first_space = node.value("prepend_scheme", "always") != "never";
  } else if (type == "ByteFallback") {
    decoder.reads_bytes = true;
  } else if (type == "Strip" && node.at("content") == " " && node.at("start") == 1 && node.at("stop") == 0) {
    decoder.drops_first_space = true;
  } else if (type != "Fuse") {
    Fail("{}: decoder {} is not supported", path, type.empty() ? "null" : type);
  }
}

/// What must fit together in SentencePiece's manner, or there is no telling what the tokens say.
void FinishMetaspace(const Json& json, const std::string& path, TokenizerData& data) {
  if (!data.metaspace) {
    if (Part(json.at("model"), "byte_fallback") == true)
      Fail("{}: byte_fallback without a metaspace is not supported", path);
    return;
  }
  if (Part(json.at("model"), "byte_fallback") != true)
    Fail("{}: a metaspace without byte_fallback is not supported", path);
  if (!data.split_patterns.empty() || data.whole_words_first)
    Fail("{}: a metaspace with patterns or ignore_merges is not supported", path);
  Decoder decoder;
  ReadDecoder(Part(json, "decoder"), path, decoder);
  if (!decoder.reads_marks || !decoder.reads_bytes)
    Fail("{}: the decoder does not say what \u2581 and <0x0A> are", path);
  data.metaspace->drops_first_space = decoder.drops_first_space;
  for (const AddedToken& token : data.added) {
    if (!data.metaspace->normalizes && token.normalized && !token.special && token.text.find(' ') != std::string::npos)
      Fail("{}: added token {} is normalized and has spaces: not supported", path, token.id);
  }
}

void ReadAddedTokens(const Json& list, const std::string& path, TokenizerData& data) {
  for (const Json& token : list) {
    const TokenId id = ReadTokenId(token.at("id"), path);
    AddedToken added{id,
                     token.at("content").get<std::string>(),
                     token.value("special", false),
                     token.value("lstrip", false),
                     token.value("rstrip", false),
                     token.value("single_word", false),
                     token.value("normalized", false)};
    if (added.text.empty()) Fail("{}: added token {} is empty", path, id);
    PutToken(data, id, added.text, path);
    data.added.push_back(std::move(added));
  }
}

void ReadTokenizerJson(const Json& json, const std::string& path, TokenizerData& data) {
  ReadModel(json.at("model"), path, data);
  ReadAddedTokens(Part(json, "added_tokens"), path, data);
  ReadNormalizer(Part(json, "normalizer"), path, data);
  ReadPreTokenizer(Part(json, "pre_tokenizer"), path, data);
  ReadPostProcessor(Part(json, "post_processor"), path, data);
  FinishMetaspace(json, path, data);
}

/// The template, given as text or as a list of named ones, of which "default" is taken.
std::string ChatTemplateOf(const Json& config) {
  if (!config.contains("chat_template")) return "";
  const Json& text = config["chat_template"];
  if (text.is_string()) return text.get<std::string>();
  for (const Json& named : text.is_array() ? text : Json::array()) {
    if (named.is_object() && named.value("name", "") == "default") return named.value("template", "");
  }
  return "";
}

void ReadTokenizerConfig(const Json& config, TokenizerData& data) {
  data.bos_token = TokenText(config, "bos_token");
  data.eos_token = TokenText(config, "eos_token");
  data.pad_token = TokenText(config, "pad_token");
  data.chat_template = ChatTemplateOf(config);
}

std::string TextIfThere(const ModelTree& tree, const char* name, size_t max_bytes) {
  return tree.Has(name) ? tree.ReadText(name, max_bytes) : "";
}

}  // namespace

TokenizerData TokenizerDataFromHf(const HfTokenizerFiles& files, const std::string& directory) {
  TokenizerData data;
  std::string name = (fs::path(directory) / "tokenizer.json").string();
  try {
    ReadTokenizerJson(ParseJson(files.tokenizer_json, name, kLimits), name, data);
    name = (fs::path(directory) / "tokenizer_config.json").string();
    if (!files.config_json.empty()) ReadTokenizerConfig(ParseJson(files.config_json, name, kLimits), data);
  } catch (const Json::exception& error) {
    Fail("{}: {}", name, error.what());
  }
  if (!files.chat_template.empty()) data.chat_template = files.chat_template;
  return data;
}

TokenizerData TokenizerDataFromHf(const std::string& directory) {
  const ModelTree tree(directory);
  return TokenizerDataFromHf(
      {tree.ReadText("tokenizer.json", kMaxBytes), TextIfThere(tree, "tokenizer_config.json", kMaxBytes),
       TextIfThere(tree, "chat_template.jinja", kMaxTemplateBytes)},
      directory);
}

}  // namespace quire
