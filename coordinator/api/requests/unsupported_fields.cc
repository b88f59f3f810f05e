#include "coordinator/api/requests/unsupported_fields.h"

#include <fmt/format.h>

#include <algorithm>

namespace quire {

namespace {

/// A field that this server does not support. `harmless`: values that mean "off" or equal this server's behaviour.
/// `remedy`: the field or setting to use instead.
struct Unsupported {
  const char* name;
  std::vector<Json> harmless;
  const char* remedy;
};

constexpr const char* kPenalty = "use repetition_penalty, presence_penalty or frequency_penalty";
constexpr const char* kDraws = "leave it out, and use temperature, top_p, top_k or min_p";
constexpr const char* kTextOnly = "leave it out: only the text part of a model is served";
constexpr const char* kOneServer = "leave it out: no request is passed to another server";
constexpr const char* kSystem = "use a message with the role system";
constexpr const char* kThoughtsInText = "serve with --reasoning-parser none, which leaves thoughts in the text";
constexpr const char* kNoAdapters = "name the adapter in model: --lora-modules lists what is served";

const std::vector<Unsupported> kFields = {
    // Fields of OpenAI's API.
    {"functions", {Json::array()}, "use tools"},
    {"function_call", {"none", "auto"}, "use tool_choice"},
    {"suffix", {""}, "put the text behind the gap into the prompt, as the model was trained to read it"},
    {"audio", {}, "leave it out: answers are texts"},
    {"modalities", {Json::array({"text"})}, "leave it out: answers are texts"},
    {"truncation", {"auto", "disabled"}, "use truncate_prompt_tokens"},
    // Fields of vLLM.
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
    {"mm_processor_kwargs", {Json::object()}, kTextOnly},
    {"media_io_kwargs", {Json::object()}, kTextOnly},
    {"data_parallel_rank", {}, "leave it out: the server chooses the replica"},
    // Fields of OpenAI's other APIs.
    {"input", {}, "use messages, or prompt of /v1/completions"},
    {"instructions", {""}, kSystem},
    {"max_output_tokens", {}, "use max_tokens"},
    {"text", {Json::object()}, "use response_format"},
    {"reasoning", {Json::object()}, "use reasoning_effort"},
    {"previous_response_id", {}, "use /v1/responses, or send all messages"},
    {"include", {Json::array()}, "leave it out, or use /v1/responses"},
    {"background", {false}, "use /v1/batches"},
    // Fields of SGLang.
    {"json_schema", {}, "use response_format, or guided_json"},
    {"regex", {""}, "use guided_regex"},
    {"ebnf", {""}, "use guided_grammar"},
    {"structural_tag", {}, "use structured_outputs.structural_tag"},
    {"lora_path", {}, kNoAdapters},
    {"stop_regex", {Json::array(), ""}, "use stop, or guided_regex"},
    {"no_stop_trim", {false}, "use include_stop_str_in_output"},
    {"separate_reasoning", {true}, kThoughtsInText},
    {"stream_reasoning", {true}, "leave it out: thoughts are streamed as they come"},
    {"return_hidden_states", {false}, "leave it out: answers have no hidden states"},
    {"return_routed_experts", {false}, "leave it out: answers name no experts"},
    {"return_meta_info", {false}, "leave it out: usage has the counts"},
    {"custom_logit_processor", {""}, "use logit_bias, allowed_token_ids or bad_words"},
    {"custom_params", {Json::object()}, "leave it out"},
    {"session_params", {Json::object()}, "leave it out, and send the whole conversation"},
    {"input_ids", {}, "use prompt of /v1/completions, with token ids"},
    {"image_data", {Json::array()}, kTextOnly},
    {"extra_key", {""}, "use cache_salt"},
    // Fields of llama.cpp and other servers.
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
    {"timings_per_token", {false}, "leave it out: GET /metrics of the admin port has times"},
    {"reasoning_format", {"auto", "deepseek"}, kThoughtsInText},
    {"post_sampling_probs", {false}, "use logprobs"},
    {"return_tokens", {false}, "use return_token_ids"},
    {"return_progress", {false}, "leave it out"},
    {"n_keep", {0, -1}, "use truncate_prompt_tokens"},
    {"n_discard", {0}, "use truncate_prompt_tokens"},
    {"n_indent", {0}, "use guided_regex"},
    {"t_max_predict_ms", {0, -1}, "use deadline_seconds"},
    {"parse_tool_calls", {true}, "leave out tools, and describe them in a message"},
    {"response_fields", {Json::array()}, "leave it out: answers have all fields"},
    {"thinking_forced_open", {false}, "use enable_thinking"},
    {"thinking_budget", {-1}, "use thinking_token_budget"},
    {"max_thinking_tokens", {}, "use thinking_token_budget"},
    // Fields of Ollama.
    {"options", {Json::object()}, "use the fields of this request, such as temperature, seed and max_tokens"},
    {"format", {""}, "use response_format"},
    {"raw", {false}, "use /v1/completions, which adds no template"},
    {"images", {Json::array()}, kTextOnly},
    {"system", {""}, kSystem},
    {"num_ctx", {}, "serve the model with --max-model-len"},
    {"num_predict", {-1}, "use max_tokens"},
    // Fields of TGI and of Hugging Face's pipelines.
    {"inputs", {}, "use messages, or prompt of /v1/completions"},
    {"do_sample", {true}, "use temperature: 0"},
    {"return_full_text", {false}, "use echo of /v1/completions"},
    {"watermark", {false}, "leave it out"},
    {"details", {false}, "use logprobs"},
    {"decoder_input_details", {false}, "use prompt_logprobs"},
    {"top_n_tokens", {0}, "use logprobs and top_logprobs"},
    {"adapter_id", {}, kNoAdapters},
    {"num_beams", {1}, "use use_beam_search, with best_of"},
    {"num_return_sequences", {1}, "use n"},
    {"max_length", {}, "use max_tokens"},
    {"stop_sequences", {Json::array()}, "use stop"},
    // Fields of Mistral's API, and of services that pass requests on to others.
    {"safe_prompt", {false}, kSystem},
    {"random_seed", {}, "use seed"},
    {"prompt_mode", {}, "use reasoning_effort"},
    {"enable_search", {false}, "leave it out: this server searches nothing"},
    {"provider", {Json::object()}, kOneServer},
    {"transforms", {Json::array()}, "use truncate_prompt_tokens"},
    {"models", {Json::array()}, "use model"},
    {"route", {"fallback"}, kOneServer},
    {"plugins", {Json::array()}, kOneServer},
    {"extra_body", {Json::object()}, "put its members into the request itself"},
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
    {"think", {false}, kUseChat},
    {"documents", {Json::array()}, kUseChat},
    {"thinking_token_budget", {}, kUseChat},
};

/// Returns `value`. If the field `name` is guided_decoding_backend, leaves out the options that may follow a colon, as
/// in "xgrammar:no-fallback".
Json WithoutOptions(std::string_view name, const Json& value) {
  if (name != "guided_decoding_backend" || !value.is_string()) return value;
  const auto& text = value.get_ref<const std::string&>();
  return text.substr(0, text.find(':'));
}

bool IsHarmless(const Unsupported& field, const Json& value) {
  return std::ranges::find(field.harmless, WithoutOptions(field.name, value)) != field.harmless.end();
}

void RefuseAnyOf(const std::vector<Unsupported>& table, const JsonFields& fields, const char* reason) {
  for (const Unsupported& field : table) {
    const Json* value = fields.Find(field.name);
    if (value != nullptr && !IsHarmless(field, *value))
      JsonFields::Refuse(field.name, fmt::format("{}; {}", reason, field.remedy));
  }
}

}  // namespace

void RefuseUnsupportedFields(const JsonFields& fields) {
  RefuseAnyOf(kFields, fields, "is not supported by this server");
}

bool ChangesNothing(std::string_view name, const Json& value) {
  const auto found = std::ranges::find(kFields, name, &Unsupported::name);
  return found != kFields.end() && IsHarmless(*found, value);
}

std::vector<std::string_view> UnsupportedFieldNames() {
  std::vector<std::string_view> names;
  for (const Unsupported& field : kFields) names.push_back(field.name);
  return names;
}

void RefuseChatFields(const JsonFields& fields) { RefuseAnyOf(kOfChat, fields, "is for /v1/chat/completions"); }

}  // namespace quire
