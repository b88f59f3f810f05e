#include "comm/model/wrapper.h"

#include <algorithm>
#include <string_view>

#include "comm/base/error.h"
#include "comm/base/json.h"

namespace quire {

namespace {

constexpr Wrapper kWrappers[] = {
    {.hf = "aya_vision", .text = "cohere2", .tied = true, .flat = false},
    {.hf = "gemma3", .text = "gemma3_text", .tied = true, .flat = false},
    {.hf = "gemma4", .text = "gemma4_text", .tied = true, .flat = false},
    {.hf = "internvl", .text = "qwen2", .tied = true, .flat = false},
    {.hf = "llama4", .text = "llama4_text", .tied = false, .flat = false},
    {.hf = "llava", .text = "llama", .tied = false, .flat = false},
    {.hf = "mistral3", .text = "mistral", .tied = true, .flat = false},
    {.hf = "qwen2_5_vl", .text = "qwen2_5_vl_text", .tied = false, .flat = true},
    {.hf = "qwen2_vl", .text = "qwen2_vl_text", .tied = false, .flat = true},
    {.hf = "qwen3_5", .text = "qwen3_5_text", .tied = false, .flat = false},
    {.hf = "qwen3_5_moe", .text = "qwen3_5_moe_text", .tied = false, .flat = false},
    {.hf = "qwen3_vl", .text = "qwen3_vl_text", .tied = false, .flat = false},
};

/// The sizes that a text_config may omit, with the defaults of HF's class.
struct UsualSizes {
  const char* text;
  int64_t hidden, columns, layers, heads, kv_heads, head_dim, vocabulary, positions;  // head_dim 0: hidden / heads
};
constexpr UsualSizes kUsualSizes[] = {
    {"gemma3_text", 2304, 9216, 26, 8, 4, 256, 262208, 131072},
    {"llama", 4096, 11008, 32, 32, 32, 0, 32000, 2048},
    {"mistral", 4096, 14336, 32, 32, 8, 0, 32000, 131072},
    {"ministral3", 4096, 14336, 34, 32, 8, 128, 131072, 262144},
};

void AddUsualSizes(const std::string& model_type, const std::string& path, Json& text) {
  const auto usual = std::ranges::find(kUsualSizes, std::string_view(model_type), &UsualSizes::text);
  if (usual == std::end(kUsualSizes)) return;
  const auto add = [&](const char* key, int64_t value) {
    if (!text.contains(key)) text[key] = value;
  };
  // A file that states no numbers of heads gets the family's defaults. A llama that states its number of query heads
  // gets the same number of key and value heads.
  const HfConfig said(text, path + ": text_config");
  add("num_key_value_heads",
      model_type == "llama" ? said.Count("num_attention_heads", usual->kv_heads) : usual->kv_heads);
  add("hidden_size", usual->hidden);
  add("intermediate_size", usual->columns);
  add("num_hidden_layers", usual->layers);
  add("num_attention_heads", usual->heads);
  if (usual->head_dim > 0) add("head_dim", usual->head_dim);
  add("vocab_size", usual->vocabulary);
  add("max_position_embeddings", usual->positions);
}

}  // namespace

std::span<const Wrapper> Wrappers() { return kWrappers; }

const Wrapper* FindWrapper(const std::string& model_type) {
  const auto found = std::ranges::find(kWrappers, std::string_view(model_type), &Wrapper::hf);
  return found == std::end(kWrappers) ? nullptr : &*found;
}

Json TextConfigOf(const Wrapper& wrapper, const HfConfig& whole) {
  const bool inside = !wrapper.flat || whole.Has("text_config");
  Json text = inside ? whole.At("text_config") : whole.json();
  if (!text.is_object()) Fail("{}: text_config must be an object", whole.path());
  if (!inside || !text.contains("model_type")) text["model_type"] = wrapper.text;
  if (inside && text["model_type"].is_string())
    AddUsualSizes(text["model_type"].get<std::string>(), whole.path(), text);
  return text;
}

bool TiesHead(const Wrapper& wrapper, const HfConfig& whole, const HfConfig& text) {
  constexpr const char* kTies = "tie_word_embeddings";
  return whole.Flag(kTies, wrapper.tied) || text.Flag(kTies);
}

}  // namespace quire
