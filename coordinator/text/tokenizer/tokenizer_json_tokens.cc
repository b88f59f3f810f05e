#include "coordinator/text/tokenizer/tokenizer_json_tokens.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "coordinator/text/tokenizer/tokenizer_json_steps.h"

namespace quire {

namespace {

using Type = SentencePieceModel::Type;

constexpr int64_t kMaxGap = 4096;  // ids in a row without a token

/// Returns a token id given as a member name. Throws Error when the name is no token id.
TokenId ReadNamedId(const std::string& name, const std::string& path) {
  int64_t id = -1;
  const auto read = std::from_chars(name.data(), name.data() + name.size(), id);
  if (read.ec != std::errc() || read.ptr != name.data() + name.size()) Fail("{}: \"{}\" is no token id", path, name);
  return ReadTokenId(id, path);
}

/// Returns the texts of the tokens that tokenizer_config.json calls special.
std::set<std::string> SpecialTexts(const Json& config) {
  std::set<std::string> texts;
  for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token"}) texts.insert(TokenText(config, key));
  const Json& more = Part(config, "additional_special_tokens");
  for (const Json& token : more.is_array() ? more : Json::array()) {
    if (token.is_string()) texts.insert(token.get<std::string>());
  }
  return texts;
}

/// Returns the tokens in tokenizer_config.json (`config`) and added_tokens.json (`added`): tokens that the
/// SentencePiece model lacks, and tokens of the model about which these files say more.
std::vector<AddedToken> AddedTokensOf(const Json& config, const Json& added, const std::string& config_path,
                                      const std::string& added_path) {
  std::vector<AddedToken> tokens;
  const Json& decoder = Part(config, "added_tokens_decoder");
  if (decoder.is_object()) {
    for (const auto& [id, token] : decoder.items())
      tokens.push_back(ReadAddedToken(token, ReadNamedId(id, config_path), config_path));
  }
  if (!added.is_object()) return tokens;
  const std::set<std::string> special = SpecialTexts(config);
  std::unordered_set<TokenId> known;
  for (const AddedToken& token : tokens) known.insert(token.id);
  for (const auto& [text, id] : added.items()) {
    const TokenId token = ReadTokenId(id, added_path);
    if (text.empty()) Fail("{}: token {} is empty", added_path, token);
    if (!known.insert(token).second) continue;
    tokens.push_back({.id = token, .text = text, .special = special.contains(text)});
  }
  return tokens;
}

/// Applies a token of tokenizer_config.json or added_tokens.json to the model's piece with the same id. A text other
/// than the piece's makes the piece user-defined. `special` makes it a control piece, which neither merges nor
/// likelihoods produce. The piece for unknown characters stays unchanged.
void TellModel(const AddedToken& token, SentencePieceModel& model) {
  if (static_cast<size_t>(token.id) >= model.pieces.size()) return;
  SentencePieceModel::Piece& piece = model.pieces[static_cast<size_t>(token.id)];
  if (piece.type == Type::kUnknown) return;
  if (piece.text != token.text) piece = {token.text, 0, Type::kUserDefined};
  if (token.special) piece.type = Type::kControl;
}

/// Sets the tokens before and after prompts. By default T5's prompts end with EOS, and the prompts of other models
/// begin with BOS. add_bos_token and add_eos_token in the configuration override this default.
void PutAround(const SentencePieceModel& model, const Json& config, TokenizerData& data) {
  const bool is_t5 = config.value("tokenizer_class", "").starts_with("T5Tokenizer");
  if (const auto bos = model.ControlToken(model.bos_piece); bos && config.value("add_bos_token", !is_t5))
    data.prefix.push_back(*bos);
  if (const auto eos = model.ControlToken(model.eos_piece); eos && config.value("add_eos_token", is_t5))
    data.suffix.push_back(*eos);
  const auto text_of = [&](const std::string& piece) { return model.ControlToken(piece) ? piece : ""; };
  data.bos_token = text_of(model.bos_piece);
  data.eos_token = text_of(model.eos_piece);
  data.pad_token = text_of(model.pad_piece);
}

}  // namespace

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

AddedToken ReadAddedToken(const Json& token, TokenId id, const std::string& path) {
  AddedToken added{.id = id,
                   .text = token.at("content").get<std::string>(),
                   .special = token.value("special", false),
                   .left_strip = token.value("lstrip", false),
                   .right_strip = token.value("rstrip", false),
                   .single_word = token.value("single_word", false),
                   .normalized = token.value("normalized", false)};
  if (added.text.empty()) Fail("{}: added token {} is empty", path, id);
  return added;
}

void PutToken(TokenizerData& data, TokenId id, const std::string& text, const std::string& path) {
  if (id > static_cast<int64_t>(data.tokens.size()) + kMaxGap) Fail("{}: token id {} is out of range", path, id);
  if (static_cast<size_t>(id) >= data.tokens.size()) data.tokens.resize(static_cast<size_t>(id) + 1);
  data.tokens[static_cast<size_t>(id)] = text;
}

void ReadSentencePieceTokenizer(SentencePieceModel model, const Json& config, const Json& added,
                                const std::string& directory, TokenizerData& data) {
  const std::string config_path = directory + "/tokenizer_config.json", added_path = directory + "/added_tokens.json";
  if (const Json& prefix = Part(config, "add_prefix_space"); prefix.is_boolean())
    model.normalizer.add_dummy_prefix = prefix.get<bool>();
  std::vector<AddedToken> tokens = AddedTokensOf(config, added, config_path, added_path);
  std::ranges::sort(tokens, {}, &AddedToken::id);
  for (const AddedToken& token : tokens) TellModel(token, model);
  AddSentencePiece(model, directory + "/tokenizer.model", data);
  std::unordered_map<TokenId, size_t> places;  // index in data.added of each id's first entry
  for (size_t i = 0; i < data.added.size(); ++i) places.emplace(data.added[i].id, i);
  for (AddedToken& token : tokens) {
    const bool is_piece = static_cast<size_t>(token.id) < model.pieces.size();
    token.normalized = false;  // the rule of tokenizers without tokenizer.json
    if (is_piece && model.pieces[static_cast<size_t>(token.id)].type == Type::kUserDefined) continue;
    if (!is_piece) PutToken(data, token.id, token.text, config_path);
    const auto known = places.emplace(token.id, data.added.size());
    if (known.second) {
      data.added.push_back(std::move(token));
    } else {
      token.special = data.added[known.first->second].special;
      data.added[known.first->second] = std::move(token);
    }
  }
  PutAround(model, config, data);
}

}  // namespace quire
