#include "coordinator/api/openai/openai_response.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "coordinator/text/utf8.h"

namespace quire {

namespace {

constexpr float kLowestLogprob = -9999.0f;  // JSON has no infinity

template <class Tokens>
Json IdsOf(const Tokens& tokens) {
  Json ids = Json::array();
  for (const ReportedToken& token : tokens) ids.push_back(token.token);
  return ids;
}

}  // namespace

const char* FinishReasonName(FinishReason reason) { return reason == FinishReason::kLength ? "length" : "stop"; }

Json ResponseBuilder::Envelope(bool chunk) const {
  const char* object = !chat_ ? "text_completion" : chunk ? "chat.completion.chunk" : "chat.completion";
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_}, {"system_fingerprint", nullptr}};
}

/// Returns a token's text; for bytes that are not UTF-8, a text such as "bytes:\xe7". If names_are_ids_ is set, returns
/// a text such as "token_id:5".
std::string ResponseBuilder::NameOf(TokenId token) const {
  if (names_are_ids_) return fmt::format("token_id:{}", token);
  const std::string bytes(tokenizer_->Bytes(token));
  if (IsValidUtf8(bytes)) return bytes;
  std::string name = "bytes:";
  for (const char byte : bytes) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return name;
}

Json ResponseBuilder::ChatToken(TokenId token, float logprob) const {
  const std::string bytes(tokenizer_->Bytes(token));
  Json list = Json::array();
  for (const char byte : bytes) list.push_back(static_cast<unsigned char>(byte));
  return {{"token", names_are_ids_ ? NameOf(token) : bytes},
          {"logprob", std::max(logprob, kLowestLogprob)},
          {"bytes", std::move(list)}};
}

/// Returns the log-probabilities of the likeliest tokens, at most `most` of them, keyed by the tokens' texts. If
/// several tokens have the same text, the likeliest has that text as its key, and the others have their ids.
Json ResponseBuilder::TopOf(const ReportedToken& token, size_t most) const {
  Json top = Json::object();
  for (const auto& [id, logprob] : std::span(token.top).first(std::min(most, token.top.size()))) {
    const bool is_first = top.emplace(NameOf(id), std::max(logprob, kLowestLogprob)).second;
    if (!is_first) top.emplace(fmt::format("token_id:{}", id), std::max(logprob, kLowestLogprob));
  }
  return top;
}

const std::vector<const char*>& ResponseBuilder::LogprobLists() const {
  static const std::vector<const char*> kOfChat = {"content"};
  static const std::vector<const char*> kOfText = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
  return chat_ ? kOfChat : kOfText;
}

Json ResponseBuilder::LogprobEntry(size_t list, const ReportedToken& token, size_t most_top) const {
  if (chat_) {
    Json entry = ChatToken(token.token, token.logprob);
    entry["top_logprobs"] = Json::array();
    for (const auto& [id, logprob] : token.top) entry["top_logprobs"].push_back(ChatToken(id, logprob));
    return entry;
  }
  const bool predicted = !std::isnan(token.logprob);
  switch (list) {
    case 0:
      return NameOf(token.token);
    case 1:
      return predicted ? Json(std::max(token.logprob, kLowestLogprob)) : Json();
    case 2:
      return predicted ? TopOf(token, most_top) : Json();
    default:
      return token.text_offset;
  }
}

Json ResponseBuilder::PromptEntry(const ReportedToken& token, size_t most_top) const {
  if (std::isnan(token.logprob)) return nullptr;
  Json entry = Json::object();
  const auto add = [&](TokenId id, float logprob, int32_t rank) {
    entry.emplace(std::to_string(id), Json{{"logprob", std::max(logprob, kLowestLogprob)},
                                           {"rank", rank},
                                           {"decoded_token", ValidUtf8(std::string(tokenizer_->Bytes(id)))}});
  };
  add(token.token, token.logprob, token.rank);
  for (size_t i = 0; i < std::min(most_top, token.top.size()); ++i)
    add(token.top[i].first, token.top[i].second, static_cast<int32_t>(i) + 1);
  return entry;
}

Json ResponseBuilder::Logprobs(const std::vector<ReportedToken>& tokens) const {
  Json out = Json::object();
  for (size_t list = 0; list < LogprobLists().size(); ++list) {
    Json& entries = out[LogprobLists()[list]] = Json::array();
    for (const ReportedToken& token : tokens) entries.push_back(LogprobEntry(list, token));
  }
  return out;
}

Json ResponseBuilder::WholeChoice(size_t index, const AnswerChoice& choice) const {
  Json entry = {{"index", index},
                {"finish_reason", choice.finished ? Json(FinishReasonName(*choice.finished)) : Json()}};
  if (token_ids_) entry["token_ids"] = IdsOf(choice.tokens);
  if (token_ids_ && !chat_ && choice.prompt != nullptr) entry["prompt_token_ids"] = choice.prompt->ids;
  if (chat_) {
    const bool calls = !choice.calls.empty();
    const Json content = choice.text.empty() && (calls || !choice.reasoning.empty()) ? Json() : Json(choice.text);
    Json& message = entry["message"] = {{"role", "assistant"}, {"content", content}, {"refusal", nullptr}};
    if (!choice.reasoning.empty()) message["reasoning_content"] = message["reasoning"] = choice.reasoning;
    for (const AnswerCall& call : choice.calls) {
      message["tool_calls"].push_back(
          {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    }
    if (calls && choice.finished == FinishReason::kStop) entry["finish_reason"] = "tool_calls";
  } else {
    entry["text"] = choice.prompt == nullptr ? choice.text : choice.prompt->text + choice.text;
  }
  return entry;
}

Json ResponseBuilder::Chunk(int index, bool role, const std::string& text, const std::vector<ReportedToken>& tokens,
                            bool with_logprobs, std::optional<FinishReason> finished) const {
  Json body = Envelope(true);
  Json entry = {{"index", index},
                {"logprobs", with_logprobs && !tokens.empty() ? Logprobs(tokens) : Json()},
                {"finish_reason", finished ? Json(FinishReasonName(*finished)) : Json()}};
  if (token_ids_) entry["token_ids"] = IdsOf(tokens);
  if (!chat_) {
    entry["text"] = text;
  } else {
    entry["delta"] = Json::object();
    if (role) entry["delta"] = {{"role", "assistant"}, {"content", ""}};
    if (!text.empty()) entry["delta"]["content"] = text;
  }
  body["choices"] = Json::array({std::move(entry)});
  return body;
}

Json ResponseBuilder::PartChunk(int index, const AnswerPart& part, const std::string& call_id,
                                const std::vector<ReportedToken>& tokens, bool with_logprobs) const {
  const std::string& text = part.text;
  Json delta;
  switch (part.kind) {
    case AnswerPart::kContent:
      delta["content"] = text;
      break;
    case AnswerPart::kReasoning:
      delta["reasoning_content"] = delta["reasoning"] = text;
      break;
    case AnswerPart::kCall:
      delta["tool_calls"].push_back({{"index", part.call},
                                     {"id", call_id},
                                     {"type", "function"},
                                     {"function", {{"name", text}, {"arguments", ""}}}});
      break;
    case AnswerPart::kArguments:
      delta["tool_calls"].push_back({{"index", part.call}, {"function", {{"arguments", text}}}});
      break;
    case AnswerPart::kBroken:  // a stream does not take back text that was sent for the broken call
      delta = Json::object();
      break;
  }
  Json body = Chunk(index, false, "", tokens, with_logprobs, std::nullopt);
  body["choices"][0]["delta"] = std::move(delta);
  return body;
}

Json ResponseBuilder::CallsEndChunk(int index) const {
  Json body = Chunk(index, false, "", {}, false, FinishReason::kStop);
  body["choices"][0]["finish_reason"] = "tool_calls";
  return body;
}

Json ResponseBuilder::UsageChunk(const Usage& usage) const {
  Json body = Envelope(true);
  body["choices"] = Json::array();
  body["usage"] = usage.ToJson();
  return body;
}

}  // namespace quire
