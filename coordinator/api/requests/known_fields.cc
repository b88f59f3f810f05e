#include "coordinator/api/requests/known_fields.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "coordinator/api/requests/messages_fields.h"
#include "coordinator/api/requests/responses_fields.h"
#include "coordinator/api/requests/told_once.h"
#include "coordinator/api/requests/unsupported_fields.h"
#include "coordinator/http/api_error.h"

namespace quire {

namespace {

constexpr size_t kMostTold = 256;
constexpr size_t kMostNameBytes = 64;  // for longer names no similar name is searched

// The lists below are the same as in docs/fields.md.

constexpr std::string_view kOfGenerating[] = {
    "model", "max_tokens", "max_completion_tokens", "n", "best_of", "temperature", "top_p", "top_k", "min_p", "seed",
    "presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias", "allowed_token_ids", "bad_words",
    "stop", "stop_token_ids", "include_stop_str_in_output", "ignore_eos", "min_tokens", "skip_special_tokens",
    "add_special_tokens", "truncate_prompt_tokens", "logprobs", "prompt_logprobs", "detokenize", "return_token_ids",
    "return_tokens_as_token_ids", "stream", "stream_options", "use_beam_search", "length_penalty", "early_stopping",
    "response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar",
    "cache_salt", "priority", "deadline_seconds", "prediction", "keep_alive",
    // Fields of chat only or of completions only; the other endpoint refuses them by name.
    "echo", "tools", "tool_choice", "parallel_tool_calls", "chat_template_kwargs", "enable_thinking",
    "reasoning_effort", "thinking", "think", "documents", "include_reasoning", "thinking_token_budget",
    "add_generation_prompt", "continue_final_message", "top_logprobs"};

constexpr std::string_view kOfPooling[] = {"model",    "truncate_prompt_tokens", "add_special_tokens", "cache_salt",
                                           "priority", "deadline_seconds",       "keep_alive"};

/// Fields that are ignored because they change no answer. The last fields, from mirostat_tau on, are parameters of
/// sampling methods that another field switches on. A request that switches such a method on is refused.
constexpr std::string_view kPassedOver[] = {"user",
                                            "store",
                                            "metadata",
                                            "service_tier",
                                            "safety_identifier",
                                            "prompt_cache_key",
                                            "prompt_cache_retention",
                                            "prompt_cache_options",
                                            "rid",
                                            "spaces_between_special_tokens",
                                            "request_id",
                                            "verbosity",
                                            "web_search_options",
                                            "mirostat_tau",
                                            "mirostat_eta",
                                            "dry_base",
                                            "dry_allowed_length",
                                            "dry_penalty_last_n",
                                            "dry_sequence_breakers",
                                            "xtc_threshold",
                                            "dynatemp_exponent"};

std::vector<std::string_view> FieldsOfKind(FieldsOf kind) {
  if (kind == FieldsOf::kMessages) return MessagesFieldNames();
  if (kind == FieldsOf::kResponses) return ResponsesFieldNames();
  std::vector<std::string_view> names(std::begin(kPassedOver), std::end(kPassedOver));
  const auto add = [&](std::span<const std::string_view> more) { names.insert(names.end(), more.begin(), more.end()); };
  switch (kind) {
    case FieldsOf::kCompletions:
    case FieldsOf::kChat:
      add(kOfGenerating);
      names.push_back(kind == FieldsOf::kChat ? "messages" : "prompt");
      for (const std::string_view name : UnsupportedFieldNames()) names.push_back(name);
      break;
    case FieldsOf::kMessages:
    case FieldsOf::kResponses:  // handled above
      break;
    case FieldsOf::kEmbeddings:
      add(kOfPooling);
      for (const char* name : {"input", "encoding_format", "dimensions", "normalize", "prompt_name", "input_type"})
        names.push_back(name);
      break;
    case FieldsOf::kClassify:
      add(kOfPooling);
      for (const char* name : {"input", "use_activation", "activation"}) names.push_back(name);
      break;
    case FieldsOf::kPooling:
      add(kOfPooling);
      for (const char* name : {"input", "task", "encoding_format", "dimensions", "normalize", "prompt_name",
                               "input_type", "use_activation", "activation"})
        names.push_back(name);
      break;
    case FieldsOf::kRerank:
      add(kOfPooling);
      for (const char* name : {"query", "documents", "top_n", "return_documents", "instruction"}) names.push_back(name);
      break;
    case FieldsOf::kScore:
      add(kOfPooling);
      for (const char* name : {"text_1", "text_2", "queries", "documents", "instruction"}) names.push_back(name);
      break;
  }
  return names;
}

/// Field names of other APIs, separated by blanks, and this API's field with the same meaning.
struct Renamed {
  FieldsOf kind;
  std::string_view others, here;
};

constexpr Renamed kRenamed[] = {
    {FieldsOf::kCompletions, "messages", "prompt, or messages of /v1/chat/completions"},
    {FieldsOf::kChat, "prompt", "messages, or prompt of /v1/completions"},
    {FieldsOf::kMessages, "max_completion_tokens max_output_tokens max_new_tokens n_predict", "max_tokens"},
    {FieldsOf::kMessages, "stop", "stop_sequences"},
    {FieldsOf::kMessages, "response_format json_schema text", "output_config.format"},
    {FieldsOf::kMessages, "reasoning_effort reasoning", "output_config.effort"},
    {FieldsOf::kMessages, "enable_thinking think", "thinking"},
    {FieldsOf::kMessages, "thinking_token_budget", "thinking.budget_tokens"},
    {FieldsOf::kMessages, "prompt input", "messages"},
    {FieldsOf::kMessages, "instructions", "system"},
    {FieldsOf::kMessages, "functions", "tools"},
    {FieldsOf::kMessages, "function_call", "tool_choice"},
    {FieldsOf::kMessages, "guided_json guided_regex guided_choice guided_grammar", "structured_outputs"},
    {FieldsOf::kResponses, "max_tokens max_completion_tokens max_new_tokens n_predict", "max_output_tokens"},
    {FieldsOf::kResponses, "messages prompt", "input"},
    {FieldsOf::kResponses, "reasoning_effort output_config", "reasoning.effort"},
    {FieldsOf::kResponses, "enable_thinking think", "thinking"},
    {FieldsOf::kResponses, "response_format json_schema output_format", "text.format"},
    {FieldsOf::kResponses, "stop_sequences", "stop"},
    {FieldsOf::kResponses, "system", "instructions"},
    {FieldsOf::kResponses, "conversation", "previous_response_id"},
    {FieldsOf::kResponses, "functions", "tools"},
    {FieldsOf::kResponses, "function_call", "tool_choice"},
    {FieldsOf::kResponses, "guided_json guided_regex guided_choice guided_grammar", "structured_outputs"},
    {FieldsOf::kEmbeddings, "prompt messages text texts", "input"},
    {FieldsOf::kEmbeddings, "truncate", "truncate_prompt_tokens"},
    {FieldsOf::kEmbeddings, "embedding_types", "encoding_format"},
    {FieldsOf::kEmbeddings, "output_dimension", "dimensions"},
    {FieldsOf::kClassify, "prompt messages text texts inputs data", "input"},
    {FieldsOf::kPooling, "prompt messages text texts inputs data", "input"},
    {FieldsOf::kRerank, "prompt input texts passages", "documents"},
    {FieldsOf::kRerank, "top_k", "top_n"},
    {FieldsOf::kRerank, "return_text", "return_documents"},
    {FieldsOf::kScore, "prompt input query", "text_1 and text_2"},
};

bool HasWord(std::string_view list, std::string_view word) {
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(' ', begin), list.size());
    if (list.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

/// Returns the Levenshtein distance: how many letters must be added, removed or changed to turn one name into the
/// other.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

bool IsPassedOver(std::string_view name, const Json& value) {
  return std::ranges::count(kPassedOver, name) > 0 || ChangesNothing(name, value);
}

std::string UnknownFieldRemedy(std::string_view name, FieldsOf kind) {
  for (const Renamed& renamed : kRenamed) {
    if (renamed.kind == kind && HasWord(renamed.others, name)) return fmt::format("use {}", renamed.here);
  }
  const std::string nearest = NearestField(name, kind);
  return nearest.empty() ? "leave it out" : fmt::format("is {} meant?", nearest);
}

void RefuseUnknownField(const std::string& name, const std::string& words) {
  ApiError error(400, fmt::format("{} {}", name, words), name);
  error.code = kUnknownFieldCode;
  throw error;
}

bool IsKnownField(std::string_view name, FieldsOf kind) { return std::ranges::count(FieldsOfKind(kind), name) > 0; }

std::string NearestField(std::string_view name, FieldsOf kind) {
  if (name.size() > kMostNameBytes) return "";
  size_t least = std::max<size_t>(1, name.size() / 3) + 1;
  std::string_view nearest;
  for (const std::string_view known : FieldsOfKind(kind)) {
    const size_t distance = EditDistance(name, known);
    if (distance < least) least = distance, nearest = known;
  }
  return std::string(nearest);
}

void UnknownFields::Check(const Json& body, FieldsOf kind) const {
  for (const auto& [name, value] : body.items()) {
    if (value.is_null() || IsKnownField(name, kind)) {
      if (name == "web_search_options" && !value.is_null())
        TellOnce("field web_search_options", "web_search_options are passed over: this server searches nothing");
      continue;
    }
    if (IsPassedOver(name, value)) continue;
    const std::string shown = name.substr(0, kMostNameBytes);
    if (ignored_ && !IsNew(shown)) continue;
    const std::string words = "is no field of this request; " + UnknownFieldRemedy(name, kind);
    if (!ignored_) RefuseUnknownField(shown, words);
    spdlog::warn("a field that nobody knows is passed over (--ignore-unknown-fields): {} {}", DumpJson(shown), words);
  }
}

bool UnknownFields::IsNew(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return told_.size() < kMostTold && told_.insert(name).second;
}

}  // namespace quire
