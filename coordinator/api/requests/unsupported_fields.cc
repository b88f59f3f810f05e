#include "coordinator/api/requests/unsupported_fields.h"

#include <algorithm>

namespace quire {

namespace {

/// `harmless`: values that mean "off", or what happens here anyway.
struct Unsupported {
  const char* name;
  std::vector<Json> harmless;
};

const std::vector<Unsupported> kFields = {
    // OpenAI.
    {"functions", {Json::array()}},
    {"function_call", {"none", "auto"}},
    {"suffix", {""}},
    {"audio", {}},
    {"modalities", {Json::array({"text"})}},
    // vLLM.
    {"guided_whitespace_pattern", {}},
    {"guided_decoding_backend", {}},
    {"chat_template", {}},
    {"prompt_embeds", {}},
    {"logits_processors", {Json::array()}},
    {"repetition_detection", {}},
    {"kv_transfer_params", {}},
    {"vllm_xargs", {Json::object()}},
    // SGLang.
    {"json_schema", {}},
    {"regex", {""}},
    {"ebnf", {""}},
    {"structural_tag", {}},
    {"lora_path", {}},
    {"stop_regex", {Json::array(), ""}},
    {"no_stop_trim", {false}},
    {"thinking", {}},
    // llama.cpp and others.
    {"grammar", {""}},
    {"lora", {Json::array()}},
    {"n_predict", {-1}},
    {"max_new_tokens", {}},
    {"repeat_penalty", {1}},
    {"repeat_last_n", {0}},
    {"typical_p", {1}},
    {"mirostat", {0}},
    {"dry_multiplier", {0}},
    {"xtc_probability", {0}},
    {"dynatemp_range", {0}},
    {"top_n_sigma", {-1, 0}},
    {"tfs_z", {1}},
    {"top_a", {0}},
    {"samplers", {}},
    {"min_keep", {0}},
    {"n_probs", {0}},
    {"cache_prompt", {true}},
    {"id_slot", {-1}},
};

const std::vector<Unsupported> kOfChat = {
    {"tools", {Json::array()}},
    {"tool_choice", {"none", "auto"}},
    {"reasoning_effort", {"none"}},
    {"include_reasoning", {true}},
    {"chat_template_kwargs", {Json::object()}},
    {"enable_thinking", {}},
    {"documents", {Json::array()}},
    {"thinking_token_budget", {}},
};

void RefuseAnyOf(const std::vector<Unsupported>& table, const JsonFields& fields, const char* reason) {
  for (const auto& [name, harmless] : table) {
    const Json* value = fields.Find(name);
    if (value != nullptr && std::ranges::find(harmless, *value) == harmless.end()) JsonFields::Refuse(name, reason);
  }
}

}  // namespace

void RefuseUnsupportedFields(const JsonFields& fields) {
  RefuseAnyOf(kFields, fields, "is not supported by this server");
}

std::vector<std::string_view> UnsupportedFieldNames() {
  std::vector<std::string_view> names;
  for (const Unsupported& field : kFields) names.push_back(field.name);
  return names;
}

void RefuseChatFields(const JsonFields& fields) { RefuseAnyOf(kOfChat, fields, "is for /v1/chat/completions"); }

}  // namespace quire
