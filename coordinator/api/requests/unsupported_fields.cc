#include "coordinator/api/requests/unsupported_fields.h"

#include <fmt/format.h>

#include <algorithm>

namespace quire {

namespace {

/// `harmless`: values that mean "off" or equal this server's behaviour. `remedy`: the field or setting to use instead.
struct Unsupported {
  const char* name;
  std::vector<Json> harmless;
  const char* remedy;
};

constexpr const char* kPenalty = "use repetition_penalty, presence_penalty or frequency_penalty";
constexpr const char* kDraws = "leave it out, and use temperature, top_p, top_k or min_p";
constexpr const char* kNoAdapters = "name the adapter in model: --lora-modules lists what is served";

const std::vector<Unsupported> kFields = {
    // OpenAI.
    {"functions", {Json::array()}, "use tools"},
    {"function_call", {"none", "auto"}, "use tool_choice"},
    {"suffix", {""}, "put the text behind the gap into the prompt, as the model was trained to read it"},
    {"audio", {}, "leave it out: answers are texts"},
    {"modalities", {Json::array({"text"})}, "leave it out: answers are texts"},
    {"truncation", {"auto", "disabled"}, "use truncate_prompt_tokens"},
    // vLLM.
    {"guided_whitespace_pattern", {}, "use structured_outputs with a grammar that has the blanks"},
    {"guided_decoding_backend",
     {"auto", "xgrammar", "outlines", "guidance", "lm-format-enforcer"},
     "leave it out: grammars are xgrammar's"},
    {"chat_template", {}, "serve the model with this template, or use /v1/completions with the text"},
    {"prompt_embeds", {}, "use prompt, with a text or token ids"},
    {"logits_processors", {Json::array()}, "use logit_bias, allowed_token_ids or bad_words"},
    {"repetition_detection", {}, kPenalty},
    {"kv_transfer_params", {}, "leave it out: the server moves KV blocks itself"},
    {"vllm_xargs", {Json::object()}, "leave it out"},
    // SGLang.
    {"json_schema", {}, "use response_format, or guided_json"},
    {"regex", {""}, "use guided_regex"},
    {"ebnf", {""}, "use guided_grammar"},
    {"structural_tag", {}, "use structured_outputs.structural_tag"},
    {"lora_path", {}, kNoAdapters},
    {"stop_regex", {Json::array(), ""}, "use stop, or guided_regex"},
    {"no_stop_trim", {false}, "use include_stop_str_in_output"},
    // llama.cpp and others.
    {"grammar", {""}, "use guided_grammar"},
    {"lora", {Json::array()}, kNoAdapters},
    {"n_predict", {-1}, "use max_tokens"},
    {"max_new_tokens", {}, "use max_tokens"},
    {"repeat_penalty", {1}, "use repetition_penalty"},
    {"repeat_last_n", {0}, "leave it out: repetition_penalty looks at the whole text"},
    {"typical_p", {1}, kDraws},
    {"mirostat", {0}, kDraws},
    {"dry_multiplier", {0}, kPenalty},
    {"xtc_probability", {0}, kDraws},
    {"dynatemp_range", {0}, kDraws},
    {"top_n_sigma", {-1, 0}, kDraws},
    {"tfs_z", {1}, kDraws},
    {"top_a", {0}, "use min_p"},
    {"samplers", {}, "leave it out: the order is temperature, top_k, min_p, top_p"},
    {"min_keep", {0}, "leave it out"},
    {"n_probs", {0}, "use logprobs"},
    {"cache_prompt", {true}, "use cache_salt with a text of your own, so that nothing is found in the cache"},
    {"id_slot", {-1}, "leave it out: places are given by turns"},
};

constexpr const char* kUseChat = "use /v1/chat/completions";
const std::vector<Unsupported> kOfChat = {
    {"tools", {Json::array()}, kUseChat},
    {"tool_choice", {"none", "auto"}, kUseChat},
    {"reasoning_effort", {"none"}, kUseChat},
    {"include_reasoning", {true}, kUseChat},
    {"chat_template_kwargs", {Json::object()}, kUseChat},
    {"enable_thinking", {}, kUseChat},
    {"thinking", {Json{{"type", "disabled"}}, false}, kUseChat},
    {"documents", {Json::array()}, kUseChat},
    {"thinking_token_budget", {}, kUseChat},
};

void RefuseAnyOf(const std::vector<Unsupported>& table, const JsonFields& fields, const char* reason) {
  for (const auto& [name, harmless, remedy] : table) {
    const Json* value = fields.Find(name);
    if (value != nullptr && std::ranges::find(harmless, *value) == harmless.end())
      JsonFields::Refuse(name, fmt::format("{}; {}", reason, remedy));
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
