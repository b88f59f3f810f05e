#include "coordinator/api/openai_response.h"

#include <algorithm>

#include "coordinator/text/utf8.h"

namespace quire {

namespace {

constexpr float kLowestLogprob = -9999.0f;  // JSON has no infinity

Json ChatToken(const std::string& bytes, float logprob) {
  Json list = Json::array();
  for (const char byte : bytes) list.push_back(static_cast<unsigned char>(byte));
  return {{"token", bytes}, {"logprob", std::max(logprob, kLowestLogprob)}, {"bytes", std::move(list)}};
}

Json ChatLogprobs(const std::vector<ReportedToken>& tokens) {
  Json content = Json::array();
  for (const ReportedToken& token : tokens) {
    Json entry = ChatToken(token.text, token.logprob);
    entry["top_logprobs"] = Json::array();
    for (const auto& [text, logprob] : token.top) entry["top_logprobs"].push_back(ChatToken(text, logprob));
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}};
}

}  // namespace

Json Usage::ToJson() const {
  return {{"prompt_tokens", prompt_tokens},
          {"completion_tokens", completion_tokens},
          {"total_tokens", prompt_tokens + completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", cached_tokens}}},
          {"completion_tokens_details", {{"reasoning_tokens", 0}}}};
}

const char* FinishReasonName(FinishReason reason) { return reason == FinishReason::kLength ? "length" : "stop"; }

Json ResponseBuilder::Envelope(bool chunk) const {
  const char* object = !chat_ ? "text_completion" : chunk ? "chat.completion.chunk" : "chat.completion";
  return {{"id", id_},
          {"object", object},
          {"created", created_},
          {"model", model_},
          {"system_fingerprint", nullptr},
          {"choices", Json::array()}};
}

Json ResponseBuilder::Logprobs(const std::vector<ReportedToken>& tokens) const {
  if (chat_) return ChatLogprobs(tokens);
  Json out = {{"tokens", Json::array()},
              {"token_logprobs", Json::array()},
              {"top_logprobs", Json::array()},
              {"text_offset", Json::array()}};
  for (const ReportedToken& token : tokens) {
    out["tokens"].push_back(token.text);
    out["token_logprobs"].push_back(std::max(token.logprob, kLowestLogprob));
    Json top = Json::object();
    // Several may be parts of characters and look alike; the likeliest of them is shown.
    for (const auto& [text, logprob] : token.top) top.emplace(ValidUtf8(text), std::max(logprob, kLowestLogprob));
    out["top_logprobs"].push_back(std::move(top));
    out["text_offset"].push_back(token.text_offset);
  }
  return out;
}

Json ResponseBuilder::Full(const std::vector<Choice>& choices, bool with_logprobs, const Usage& usage) const {
  Json body = Envelope(false);
  for (size_t i = 0; i < choices.size(); ++i) {
    const Choice& choice = choices[i];
    Json entry = {{"index", i},
                  {"logprobs", with_logprobs ? Logprobs(choice.tokens) : Json()},
                  {"finish_reason", choice.finished ? Json(FinishReasonName(*choice.finished)) : Json()}};
    if (chat_) {
      entry["message"] = {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
    } else {
      entry["text"] = choice.text;
    }
    body["choices"].push_back(std::move(entry));
  }
  body["usage"] = usage.ToJson();
  return body;
}

Json ResponseBuilder::Chunk(int index, bool role, const std::string& text, const std::vector<ReportedToken>& tokens,
                            bool with_logprobs, std::optional<FinishReason> finished) const {
  Json body = Envelope(true);
  Json entry = {{"index", index},
                {"logprobs", with_logprobs && !tokens.empty() ? Logprobs(tokens) : Json()},
                {"finish_reason", finished ? Json(FinishReasonName(*finished)) : Json()}};
  if (!chat_) {
    entry["text"] = text;
  } else {
    entry["delta"] = Json::object();
    if (role) entry["delta"] = {{"role", "assistant"}, {"content", ""}};
    if (!text.empty()) entry["delta"]["content"] = text;
  }
  body["choices"].push_back(std::move(entry));
  return body;
}

Json ResponseBuilder::UsageChunk(const Usage& usage) const {
  Json body = Envelope(true);
  body["usage"] = usage.ToJson();
  return body;
}

}  // namespace quire
