#include <filesystem>

#include "comm/error.h"
#include "comm/json.h"
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
  if (type != "BPE") Fail("{}: model type {} is not supported; supported: BPE (byte-level)", path, type);
  if (model.value("byte_fallback", false))
    Fail("{}: byte-fallback BPE is not supported; supported: byte-level BPE", path);
  data.whole_words_first = model.value("ignore_merges", false);
  data.tokens.resize(std::min(model.at("vocab").size(), static_cast<size_t>(kMaxTokens)));  // texts come in any order
  for (const auto& [text, id] : model.at("vocab").items()) PutToken(data, ReadTokenId(id, path), text, path);
  for (const Json& merge : model.at("merges")) {
    if (merge.is_array() && merge.size() == 2) {
      data.merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      continue;
    }
    const auto text = merge.get<std::string>();
    const size_t space = text.find(' ', 1);
    if (space == std::string::npos) Fail("{}: merge \"{}\" is not a pair", path, text.substr(0, 100));
    data.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
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
  } else if (type == "Split") {
    const Json& pattern = node.at("pattern");
    if (node.value("behavior", "") != "Isolated" || node.value("invert", false) || !pattern.contains("Regex")) {
      Fail("{}: this kind of Split pre-tokenizer is not supported", path);
    }
    data.split_patterns.push_back(pattern["Regex"].get<std::string>());
  } else {
    Fail("{}: pre-tokenizer {} is not supported", path, type.empty() ? "null" : type);
  }
}

void ReadNormalizer(const Json& node, const std::string& path, TokenizerData& data) {
  const std::string type = TypeOf(node);
  if (type == "Sequence") {
    for (const Json& part : node.at("normalizers")) ReadNormalizer(part, path, data);
  } else if (type == "NFC") {
    data.nfc = true;
  } else if (!node.is_null()) {
    Fail("{}: normalizer {} is not supported; supported: NFC", path, type);
  }
}

/// Tokens that the template puts before a single sequence.
void ReadPostProcessor(const Json& node, const std::string& path, TokenizerData& data) {
  const std::string type = TypeOf(node);
  if (type == "Sequence") {
    for (const Json& part : node.at("processors")) ReadPostProcessor(part, path, data);
  } else if (type == "TemplateProcessing") {
    bool before = true;
    for (const Json& part : node.at("single")) {
      if (part.contains("Sequence")) {
        before = false;
      } else if (before) {
        const auto name = part.at("SpecialToken").at("id").get<std::string>();
        for (const Json& id : node.at("special_tokens").at(name).at("ids"))
          data.prefix.push_back(ReadTokenId(id, path));
      } else {
        Fail("{}: tokens after the prompt are not supported", path);
      }
    }
  } else if (!node.is_null() && type != "ByteLevel") {
    Fail("{}: post-processor {} is not supported", path, type);
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

const Json& Part(const Json& json, const char* key) {
  static const Json kNull;
  return json.contains(key) ? json[key] : kNull;
}

void ReadTokenizerJson(const Json& json, const std::string& path, TokenizerData& data) {
  ReadModel(json.at("model"), path, data);
  ReadAddedTokens(Part(json, "added_tokens"), path, data);
  ReadNormalizer(Part(json, "normalizer"), path, data);
  ReadPreTokenizer(Part(json, "pre_tokenizer"), path, data);
  ReadPostProcessor(Part(json, "post_processor"), path, data);
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
