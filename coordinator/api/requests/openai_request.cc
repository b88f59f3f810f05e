#include "coordinator/api/requests/openai_request.h"

#include <fmt/format.h>

#include <limits>
#include <string>

#include "coordinator/api/requests/chat_messages.h"
#include "coordinator/api/requests/chat_tools.h"
#include "coordinator/api/requests/json_fields.h"
#include "coordinator/api/requests/prediction.h"
#include "coordinator/api/requests/structured_output.h"
#include "coordinator/api/requests/template_fields.h"
#include "coordinator/api/requests/token_fields.h"
#include "coordinator/api/requests/unsupported_fields.h"

namespace quire {

namespace {

constexpr int kMaxLogprobs = 20;
constexpr int kMaxBeams = 20;
constexpr size_t kMaxSaltBytes = 256;
constexpr int kMaxPriority = 1000;

void ReadSampling(const JsonFields& fields, const RequestLimits& limits, GenerateCall& call) {
  SamplingSpec& s = call.sampling;
  s.temperature = limits.defaults.temperature;
  s.top_p = limits.defaults.top_p;
  s.top_k = limits.defaults.top_k;
  s.min_p = limits.defaults.min_p;
  s.repetition_penalty = limits.defaults.repetition_penalty;
  const auto real = [&](const char* name, double low, double high, float& out) {
    if (const auto value = fields.Number(name, low, high)) out = static_cast<float>(*value);
  };
  real("temperature", 0, 100, s.temperature);
  real("top_p", 0, 1, s.top_p);
  if (s.top_p <= 0) JsonFields::Refuse("top_p", "must be above 0");
  real("min_p", 0, 1, s.min_p);
  real("presence_penalty", -2, 2, s.presence_penalty);
  real("frequency_penalty", -2, 2, s.frequency_penalty);
  real("repetition_penalty", 0.01, 100, s.repetition_penalty);
  if (const auto k = fields.Integer("top_k", -1, std::numeric_limits<int32_t>::max()))
    s.top_k = *k < 0 ? 0 : static_cast<int32_t>(*k);
  if (const auto seed = fields.Integer("seed", INT64_MIN, INT64_MAX)) {
    s.seed = static_cast<uint64_t>(*seed);
    call.has_seed = true;
  }
  s.min_tokens = static_cast<int32_t>(fields.Integer("min_tokens", 0, limits.max_model_len).value_or(0));
}

void ReadBeams(const JsonFields& fields, GenerateCall& call) {
  if (call.best_of > kMaxBeams)
    JsonFields::Refuse("best_of",
                       fmt::format("is at most {} with beam search; leave out use_beam_search for more", kMaxBeams));
  SamplingSpec& s = call.sampling;
  if (!fields.Has("repetition_penalty")) s.repetition_penalty = 1;  // defaults apply to sampling only
  const bool plain = s.repetition_penalty == 1 && s.frequency_penalty == 0 && s.presence_penalty == 0 &&
                     s.logit_bias.empty() && s.min_tokens == 0 && s.allowed_tokens.empty() && call.bad_words.empty();
  if (!plain)
    JsonFields::Refuse("use_beam_search",
                       "cannot be combined with penalties, logit_bias, min_tokens, allowed_token_ids or bad_words; "
                       "leave out either");
  BeamOptions beams;
  beams.width = call.best_of;
  beams.num_returned = call.n;
  beams.length_penalty = static_cast<float>(fields.Number("length_penalty", -10, 10).value_or(1));
  if (const Json* early = fields.Find("early_stopping")) {
    if (!early->is_boolean() && *early != "never")
      JsonFields::Refuse("early_stopping", "must be true, false or \"never\"");
    beams.early_stopping = *early == "never" ? EarlyStopping::kNever
                           : *early == true  ? EarlyStopping::kYes
                                             : EarlyStopping::kNo;
  }
  call.sampling.temperature = 0;
  if (beams.width > 1) call.beams = beams;  // beam search of width 1 is greedy
}

double AsWritten(float value) { return std::stod(fmt::format("{}", value)); }

/// Reads the constraint on the answer's text. With a grammar, an answer ends only where the grammar allows an end.
void ReadGrammar(const RequestBody& body, const JsonFields& fields, GenerateCall& call) {
  static constexpr const char* kFields[] = {"response_format", "structured_outputs", "guided_json",
                                            "guided_regex",    "guided_choice",      "guided_grammar"};
  if (std::ranges::none_of(kFields, [&](const char* name) { return fields.Has(name); })) return;
  StructuredOutput wanted = ReadStructuredOutput(body.Exact());
  if (!wanted.grammar) return;
  const char* field = wanted.field.c_str();
  if (call.beams) JsonFields::Refuse(field, "cannot be combined with use_beam_search; leave out one");
  if (call.ignore_eos) JsonFields::Refuse(field, "cannot be combined with ignore_eos; leave out one");
  if (call.sampling.min_tokens > 0) JsonFields::Refuse(field, "cannot be combined with min_tokens; leave out one");
  if (!call.sampling.allowed_tokens.empty())
    JsonFields::Refuse(field, "cannot be combined with allowed_token_ids; leave out one");
  if (!call.bad_words.empty()) JsonFields::Refuse(field, "cannot be combined with bad_words; leave out one");
  call.sampling.grammar = std::move(wanted.grammar);
  call.grammar_field = std::move(wanted.field);
}

void RefuseWithoutBeams(const JsonFields& fields) {
  const std::pair<const char*, Json> off[] = {{"length_penalty", 1}, {"early_stopping", false}};
  for (const auto& [name, value] : off) {
    if (fields.Has(name) && *fields.Find(name) != value) JsonFields::Refuse(name, "needs use_beam_search: true");
  }
}

void ReadCommon(const RequestBody& body, const JsonFields& fields, const RequestLimits& limits, GenerateCall& call) {
  RefuseUnsupportedFields(fields);
  if (limits.unknown) limits.unknown->Check(body.fields(), call.chat ? FieldsOf::kChat : FieldsOf::kCompletions);
  ReadCallFields(fields, call);
  call.n = static_cast<int>(fields.Integer("n", 1, limits.max_choices).value_or(1));
  call.best_of = static_cast<int>(fields.Integer("best_of", call.n, limits.max_choices).value_or(call.n));
  ReadSampling(fields, limits, call);
  call.stop = fields.Texts("stop", 16, 1024);
  call.prediction = ReadPrediction(fields);
  ReadTokenFields(fields, limits, call);
  call.ignore_eos = fields.Flag("ignore_eos", false);
  call.return_token_ids = fields.Flag("return_token_ids", false);
  call.tokens_as_ids = fields.Flag("return_tokens_as_token_ids", false);
  call.skip_special_tokens = fields.Flag("skip_special_tokens", true);
  call.include_stop = fields.Flag("include_stop_str_in_output", false);
  call.stream = fields.Flag("stream", false);
  if (const Json* options = fields.Find("stream_options")) {
    if (!call.stream) JsonFields::Refuse("stream_options", "needs stream: true");
    const JsonFields stream(*options);
    call.include_usage = stream.Flag("include_usage", false);
    call.continuous_usage = stream.Flag("continuous_usage_stats", false);
  }
  if (const auto scored = fields.Integer("prompt_logprobs", 0, kMaxLogprobs)) {
    if (call.stream) JsonFields::Refuse("prompt_logprobs", "cannot be streamed; leave out stream");
    call.num_prompt_logprobs = static_cast<int>(*scored);
  }
  if (fields.Flag("use_beam_search", false)) {
    ReadBeams(fields, call);
  } else {
    RefuseWithoutBeams(fields);
  }
  if (call.stream && call.best_of > call.n && !call.beams)
    JsonFields::Refuse("best_of", "above n cannot be streamed: the best is known at the end only; leave out stream");
  ReadGrammar(body, fields, call);
}

/// Reads `detokenize`. A request for an answer without text must not have fields that search the text or add to it.
void ReadDetokenize(const JsonFields& fields, GenerateCall& call) {
  call.detokenize = fields.Flag("detokenize", true);
  if (call.detokenize) return;
  const char* needs_text = !call.stop.empty() ? "stop" : call.echo ? "echo" : call.tools.active() ? "tools" : nullptr;
  if (needs_text != nullptr) JsonFields::Refuse(needs_text, "needs an answer with a text: leave out detokenize: false");
}

/// Reads the number of tokens that the answer may have. -1 means as many as the context allows.
void ReadMaxTokens(const JsonFields& fields, const RequestLimits& limits, GenerateCall& call) {
  for (const char* name : {"max_completion_tokens", "max_tokens"}) {
    const auto value = fields.Integer(name, -1, INT32_MAX);
    if (!value) continue;
    if (*value < 0) {
      if (!call.max_tokens) call.max_tokens = limits.max_model_len, call.cut_to_context = true;
      continue;
    }
    if (*value == 0 && !call.echo && call.num_prompt_logprobs < 0)
      JsonFields::Refuse(name, "must be at least 1; 0 is for echo and prompt_logprobs, which ask for the prompt");
    if (*value > limits.max_model_len)
      throw ContextLengthError(limits.max_model_len, fmt::format("{} is {}: lower it, or leave it out", name, *value),
                               name);
    if (!call.max_tokens) call.max_tokens = static_cast<int>(*value);
  }
}

/// Reads "keep_alive", a number of seconds or a text with a unit, and returns seconds; negative: the model is never
/// unloaded; nullopt: the request has no keep_alive.
std::optional<double> ReadKeepAlive(const JsonFields& fields) {
  const Json* value = fields.Find("keep_alive");
  if (value == nullptr) return std::nullopt;
  const bool is_number = value->is_number();
  const std::optional<double> seconds = is_number            ? LimitedKeepAlive(value->get<double>())
                                        : value->is_string() ? ParseKeepAlive(value->get<std::string>())
                                                             : std::nullopt;
  if (!seconds) JsonFields::Refuse("keep_alive", "must be seconds, or a time such as \"5m\"; 0: at once, -1: never");
  return seconds;
}

}  // namespace

Json JsonOf(const SamplingDefaults& d) {
  return {{"temperature", AsWritten(d.temperature)},
          {"top_k", d.top_k},
          {"top_p", AsWritten(d.top_p)},
          {"min_p", AsWritten(d.min_p)},
          {"repetition_penalty", AsWritten(d.repetition_penalty)}};
}

RequestBody::RequestBody(std::string_view text) : text_(text), fields_(ParseJson(text, "body", kClientJson)) {}

void ReadCallFields(const JsonFields& fields, GenerateCall& call) {
  call.model = fields.Text("model").value_or("");
  call.cache_salt = fields.Text("cache_salt").value_or("");
  if (call.cache_salt.size() > kMaxSaltBytes)
    JsonFields::Refuse("cache_salt", fmt::format("takes at most {} bytes", kMaxSaltBytes));
  call.priority = static_cast<int>(fields.Integer("priority", -kMaxPriority, kMaxPriority).value_or(0));
  call.deadline_seconds = fields.Number("deadline_seconds", 0.001, 1e6).value_or(0);
  call.keep_alive = ReadKeepAlive(fields);
  call.truncate_prompt_tokens = static_cast<int>(fields.Integer("truncate_prompt_tokens", -1, INT32_MAX).value_or(0));
  if (call.truncate_prompt_tokens == 0 && fields.Has("truncate_prompt_tokens"))
    JsonFields::Refuse("truncate_prompt_tokens", "must be at least 1, or -1 for what the model has room for");
  call.add_special_tokens = fields.Flag("add_special_tokens", true);
}

std::vector<PromptInput> ReadPrompts(const char* name, const Json* prompt, const RequestLimits& limits,
                                     bool truncated) {
  const auto refuse = [name] {
    JsonFields::Refuse(name, "must be a string, a list of strings, a list of token ids, or a list of such lists");
  };
  if (prompt == nullptr) JsonFields::Refuse(name, "is missing: give a text or token ids");
  const auto ids = [&](const Json& list) {
    if (list.size() > static_cast<size_t>(limits.max_model_len) && !truncated)
      throw ContextLengthError(limits.max_model_len, fmt::format("the prompt has {}: shorten it", list.size()), name);
    return ReadTokenIds(list, name, list.size(), limits.vocab_size);
  };
  if (prompt->is_string()) return {prompt->get<std::string>()};
  if (!prompt->is_array()) refuse();
  if (prompt->empty()) JsonFields::Refuse(name, "is empty: give a text or token ids");
  if ((*prompt)[0].is_number()) return {ids(*prompt)};
  if (prompt->size() > static_cast<size_t>(limits.max_prompts))
    JsonFields::Refuse(
        name, fmt::format("takes at most {} prompts; send the others in further requests", limits.max_prompts));
  std::vector<PromptInput> prompts;
  for (const Json& one : *prompt) {
    if (one.is_string())
      prompts.emplace_back(one.get<std::string>());
    else if (one.is_array())
      prompts.emplace_back(ids(one));
    else
      refuse();
  }
  return prompts;
}

GenerateCall ParseCompletionRequest(const RequestBody& body, const RequestLimits& limits) {
  const JsonFields fields(body.fields());
  GenerateCall call;
  ReadCommon(body, fields, limits, call);
  RefuseChatFields(fields);
  call.echo = fields.Flag("echo", false);
  ReadDetokenize(fields, call);
  ReadMaxTokens(fields, limits, call);
  call.prompts = ReadPrompts("prompt", fields.Find("prompt"), limits, call.truncate_prompt_tokens != 0);
  if (const auto logprobs = fields.Integer("logprobs", 0, kMaxLogprobs))
    call.num_top_logprobs = static_cast<int>(*logprobs);
  return call;
}

GenerateCall ParseChatRequest(const RequestBody& body, const RequestLimits& limits) {
  const JsonFields fields(body.fields());
  GenerateCall call;
  call.chat = true;
  ReadCommon(body, fields, limits, call);
  ReadMaxTokens(fields, limits, call);
  call.continue_final_message = fields.Flag("continue_final_message", false);
  Conversation& conversation = call.conversation;
  conversation.messages = ReadMessages(fields.Find("messages"));
  conversation.add_generation_prompt = fields.Flag("add_generation_prompt", !call.continue_final_message);
  if (call.continue_final_message && conversation.add_generation_prompt)
    JsonFields::Refuse("continue_final_message", "cannot be combined with add_generation_prompt: true; leave out one");
  ReadTemplateFields(body, fields, conversation);
  call.tools = ReadTools(body, fields);
  if (call.tools.active()) {
    conversation.tools = OrderedJson::array();
    for (const Tool& tool : call.tools.tools) conversation.tools.push_back(tool.definition);
  }
  ReadDetokenize(fields, call);
  call.include_reasoning = fields.Flag("include_reasoning", true);
  if (const auto most = fields.Integer("thinking_token_budget", 0, INT32_MAX)) {
    if (call.beams)
      JsonFields::Refuse("thinking_token_budget", "cannot be combined with use_beam_search; leave out one");
    call.sampling.thoughts.tokens = static_cast<int32_t>(*most);
  }
  if (fields.Has("echo") && *fields.Find("echo") != false)
    JsonFields::Refuse("echo", "is for /v1/completions; leave it out, or send the text there");
  if (fields.Flag("logprobs", false)) {
    call.num_top_logprobs = static_cast<int>(fields.Integer("top_logprobs", 0, kMaxLogprobs).value_or(0));
  } else if (fields.Integer("top_logprobs", 0, kMaxLogprobs).value_or(0) > 0) {
    JsonFields::Refuse("top_logprobs", "needs logprobs: true");
  }
  return call;
}

}  // namespace quire
