#include "comm/error.h"
#include "comm/model/gguf.h"
#include "comm/model/model_files.h"
#include "coordinator/text/splitter.h"
#include "coordinator/text/tokenizer_data.h"

namespace quire {

namespace {

// Token types of the GGUF specification.
constexpr int64_t kControl = 3;
constexpr int64_t kUserDefined = 4;

void SetPreTokenizer(const std::string& name, const std::string& path, TokenizerData& data) {
  if (name == "gpt-2" || name == "default") {
    data.split_patterns = {kGpt2Pattern};
  } else if (name == "smollm") {
    data.split_patterns = {R"(\p{N})", kGpt2Pattern};
  } else if (name == "llama-bpe" || name == "llama3") {
    data.split_patterns = {kLlama3Pattern};
    data.whole_words_first = true;
  } else if (name == "qwen2") {
    data.split_patterns = {kQwen2Pattern};
    data.nfc = true;
  } else {
    Fail("{}: pre-tokenizer \"{}\" is not supported; supported: gpt-2, smollm, llama-bpe, qwen2", path, name);
  }
}

std::string TokenText(const GgufFile& gguf, const TokenizerData& data, const char* key) {
  const int64_t* id = gguf.Find<int64_t>(key);
  if (id == nullptr || *id < 0 || *id >= static_cast<int64_t>(data.tokens.size())) return "";
  return data.tokens[static_cast<size_t>(*id)];
}

}  // namespace

TokenizerData TokenizerDataFromGguf(const GgufFile& gguf) {
  const auto& model = gguf.Get<std::string>("tokenizer.ggml.model");
  if (model != "gpt2")
    Fail("{}: tokenizer \"{}\" is not supported; supported: gpt2 (byte-level BPE)", gguf.path, model);
  TokenizerData data;
  data.tokens = gguf.Get<std::vector<std::string>>("tokenizer.ggml.tokens");
  const auto* pre = gguf.Find<std::string>("tokenizer.ggml.pre");
  SetPreTokenizer(pre != nullptr ? *pre : "gpt-2", gguf.path, data);
  for (const std::string& merge : gguf.Get<std::vector<std::string>>("tokenizer.ggml.merges")) {
    const size_t space = merge.find(' ', 1);
    if (space == std::string::npos) Fail("{}: merge \"{}\" is not a pair", gguf.path, merge.substr(0, 100));
    data.merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  if (const auto* types = gguf.Find<std::vector<int64_t>>("tokenizer.ggml.token_type")) {
    if (types->size() != data.tokens.size())
      Fail("{}: {} token types for {} tokens", gguf.path, types->size(), data.tokens.size());
    for (size_t id = 0; id < types->size(); ++id) {
      if ((*types)[id] != kControl && (*types)[id] != kUserDefined) continue;
      data.added.push_back({static_cast<TokenId>(id), data.tokens[id], (*types)[id] == kControl, false, false, false});
    }
  }
  const bool* add_bos = gguf.Find<bool>("tokenizer.ggml.add_bos_token");
  const int64_t* bos = gguf.Find<int64_t>("tokenizer.ggml.bos_token_id");
  if (add_bos != nullptr && *add_bos && bos != nullptr && *bos >= 0 && *bos < INT32_MAX)
    data.prefix = {static_cast<TokenId>(*bos)};
  data.bos_token = TokenText(gguf, data, "tokenizer.ggml.bos_token_id");
  data.eos_token = TokenText(gguf, data, "tokenizer.ggml.eos_token_id");
  data.pad_token = TokenText(gguf, data, "tokenizer.ggml.padding_token_id");
  if (const auto* text = gguf.Find<std::string>("tokenizer.chat_template")) data.chat_template = *text;
  return data;
}

TokenizerData TokenizerDataOf(const ModelFiles& model) {
  return model.gguf() != nullptr ? TokenizerDataFromGguf(*model.gguf()) : TokenizerDataFromHf(model.path());
}

}  // namespace quire
