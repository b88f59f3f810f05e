#include "coordinator/text/tokenizer/word_piece_files.h"

#include <algorithm>
#include <string_view>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/formats/gguf.h"
#include "coordinator/text/tokenizer/tokenizer_json_steps.h"
#include "coordinator/text/tokenizer/tokenizer_json_tokens.h"

namespace quire {

namespace {

constexpr int64_t kMostWordCharacters = 1 << 16;

/// Adds the vocabulary's token `text` as a control token. Returns its id. Throws Error when the vocabulary lacks it.
TokenId AddControl(const std::string& text, const std::string& path, TokenizerData& data) {
  const auto found = std::ranges::find(data.tokens, text);
  if (found == data.tokens.end()) Fail("{}: there is no token {}", path, text.substr(0, 100));
  const auto id = static_cast<TokenId>(found - data.tokens.begin());
  data.added.push_back({.id = id, .text = text, .special = true});
  return id;
}

/// Returns the text of a control token in the configuration; `otherwise` when the configuration has none.
std::string ControlText(const Json& config, const char* key, const char* otherwise) {
  const std::string text = TokenText(config, key);
  return text.empty() ? otherwise : text;
}

}  // namespace

void ReadWordPiece(const Json& model, const std::string& path, TokenizerData& data) {
  WordPieceModel& words = data.word_piece.emplace();
  words.mark = model.value("continuing_subword_prefix", words.mark);
  const auto most = model.value("max_input_chars_per_word", int64_t{100});
  if (most < 1 || most > kMostWordCharacters) Fail("{}: max_input_chars_per_word = {} is out of range", path, most);
  words.most_characters = static_cast<size_t>(most);
  data.tokens.resize(std::min(model.at("vocab").size(), size_t{kMaxTokens}));  // texts come in any order
  for (const auto& [text, id] : model.at("vocab").items()) PutToken(data, ReadTokenId(id, path), text, path);
  const auto unknown = model.value("unk_token", std::string("[UNK]"));
  if (!model.at("vocab").contains(unknown)) Fail("{}: the unknown token {} is not in the vocabulary", path, unknown);
  words.unknown = ReadTokenId(model.at("vocab").at(unknown), path);
}

void ReadVocabTxt(const std::string& text, const Json& config, const std::string& path, TokenizerData& data) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    data.tokens.emplace_back(line);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (std::ssize(data.tokens) > kMaxTokens) Fail("{}: more than {} tokens", path, kMaxTokens);
  }
  const TokenId unknown = AddControl(ControlText(config, "unk_token", "[UNK]"), path, data);
  const TokenId cls = AddControl(ControlText(config, "cls_token", "[CLS]"), path, data);
  const TokenId sep = AddControl(ControlText(config, "sep_token", "[SEP]"), path, data);
  for (const auto& [key, otherwise] : {std::pair{"pad_token", "[PAD]"}, {"mask_token", "[MASK]"}}) {
    const std::string control = ControlText(config, key, otherwise);
    if (std::ranges::find(data.tokens, control) != data.tokens.end()) AddControl(control, path, data);
  }
  SetBertWords(unknown, cls, sep, config, path, data);
}

void SetBertWords(TokenId unknown, TokenId cls, TokenId sep, const Json& config, const std::string& path,
                  TokenizerData& data) {
  data.word_piece = WordPieceModel{.unknown = unknown};
  const Json normalizer = {{"type", "BertNormalizer"},
                           {"lowercase", config.value("do_lower_case", true)},
                           {"handle_chinese_chars", config.value("tokenize_chinese_chars", true)},
                           {"strip_accents", Part(config, "strip_accents")}};
  ReadNormalizer(normalizer, path, data.normalizer);
  data.pre_tokenizer = ReadPreTokenizer({{"type", "BertPreTokenizer"}}, path).steps;
  data.prefix = {cls};
  data.suffix = {sep};
  data.pair = PairFrame{{cls}, {sep}, {sep}, true};
}

void ReadWordPieceGguf(const GgufFile& gguf, TokenizerData& data) {
  constexpr int64_t kControl = 3;
  const auto* types = gguf.Find<std::vector<int64_t>>("tokenizer.ggml.token_type");
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    std::string& token = data.tokens[id];
    if (types != nullptr && id < types->size() && (*types)[id] == kControl) continue;
    if (token.starts_with(Metaspace::kMark)) {
      token.erase(0, std::string_view(Metaspace::kMark).size());
    } else {
      token.insert(0, WordPieceModel().mark);
    }
  }
  const auto id_of = [&](std::initializer_list<const char*> keys, const char* usual) {
    for (const char* key : keys) {
      const int64_t* id = gguf.Find<int64_t>(key);
      if (id == nullptr) continue;
      if (*id < 0 || *id >= std::ssize(data.tokens)) Fail("{}: {} = {} is no token", gguf.path, key, *id);
      return static_cast<TokenId>(*id);
    }
    const auto found = std::ranges::find(data.tokens, usual);
    if (found == data.tokens.end()) Fail("{}: there is no token {}", gguf.path, usual);
    return static_cast<TokenId>(found - data.tokens.begin());
  };
  const TokenId unknown = id_of({"tokenizer.ggml.unknown_token_id"}, "[UNK]");
  const TokenId cls = id_of({"tokenizer.ggml.cls_token_id", "tokenizer.ggml.bos_token_id"}, "[CLS]");
  // GGUF spells "separator" in this way.
  const TokenId sep = id_of({"tokenizer.ggml.seperator_token_id", "tokenizer.ggml.eos_token_id"}, "[SEP]");
  SetBertWords(unknown, cls, sep, Json::object(), gguf.path, data);
}

std::optional<PairFrame> ReadPairFrame(const Json& step, const std::string& path) {
  PairFrame frame;
  std::vector<TokenId>* to = &frame.before;
  std::vector<int64_t> types;  // token types of the parts
  size_t first_of_second = 0;  // index of the part that is the second text
  for (const Json& part : Part(step, "pair")) {
    const bool is_text = part.contains("Sequence");
    const Json& node = part.at(is_text ? "Sequence" : "SpecialToken");
    types.push_back(node.value("type_id", int64_t{0}));
    const auto name = node.at("id").get<std::string>();
    if (is_text) {
      if (name != (to == &frame.before ? "A" : "B") || to == &frame.after) return std::nullopt;
      if (to == &frame.between) first_of_second = types.size() - 1;
      to = to == &frame.before ? &frame.between : &frame.after;
      continue;
    }
    for (const Json& id : step.at("special_tokens").at(name).at("ids")) to->push_back(ReadTokenId(id, path));
  }
  if (to != &frame.after) return std::nullopt;
  frame.second_type = types[first_of_second] == 1;
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != (frame.second_type && i >= first_of_second ? 1 : 0)) return std::nullopt;
  }
  return frame;
}

}  // namespace quire
